"""The tables of relevance in benchmarks/tables/relevance.md, from benchmarks/results/relevance.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.data import set_name

__all__ = ["tables"]

NAMES = {
    "foreign": "questions of another haystack", "adversarial": "adversarial questions",
    "far": "questions of other sets", "general": "general knowledge", "nonsense": "nonsense",
    "small 3": "3 units, with the answer", "small, foreign 3": "3 units, another question",
    "small 10": "10 units, with the answer", "small, foreign 10": "10 units, another question",
    "small 30": "30 units, with the answer", "small, foreign 30": "30 units, another question",
}  # fmt: skip
UNANSWERED = ("foreign", "far", "general", "nonsense", "adversarial")


def tables(record: Mapping[str, Any]) -> str:
    """Return the curve, the errors by set and size, and what each floor leaves, as Markdown."""
    parts = [_curve(record["kinds"]), _errors(record), _prompts(record.get("prompts", {})), _denied(record)]
    return "\n\n".join([*filter(None, parts), _floors(record["floors"])])


def _curve(kinds: Mapping[str, Any]) -> str:
    heads = [head for name in kinds for head in (f"{name}: mean relevance", "are evidence", "share of candidates")]
    rows: dict[tuple[float, float], dict[str, Mapping[str, float]]] = {}
    for name, found in kinds.items():
        for one in found["bins"]:
            rows.setdefault((one["from"], one["to"]), {})[name] = one
    lines = []
    for (low, high), by_kind in sorted(rows.items()):
        cells = [f"{low:g} to {high:g}"]
        for name in kinds:
            one = by_kind.get(name)
            cells += [f"{one['said']:.3f}", f"{one['is']:.3f}", f"{one['share']:.2%}"] if one else ["", "", ""]
        lines.append(cells)
    return "**Reliability curve**\n\n" + _table(["relevance", *heads], lines)


def _errors(record: Mapping[str, Any]) -> str:
    groups = {f"all {name}": found for name, found in record["kinds"].items()}
    groups |= {set_name(name): found for name, found in record["files"].items()}
    groups |= {
        f"memories of {size} units": found
        for size, found in sorted(record["sizes"].items(), key=lambda item: int(item[0]))
    }
    lines = [[name, f"{found['error']:.4f}", f"{found['error_shown']:.3f}"] for name, found in groups.items()]
    heads = ["", "expected calibration error", "of relevances from 0.1 on"]
    return "**Calibration error**\n\n" + _table(heads, lines)


def _prompts(fillers: Mapping[str, Any]) -> str:
    if not fillers:
        return ""
    heads = [f"{filler}: prompts that {what}" for filler in fillers for what in ("need something", "need nothing")]
    lines = [
        [floor, *("{:,} of {:,}".format(*found[floor][name]) for found in fillers.values() for name in found[floor])]
        for floor in sorted(next(iter(fillers.values())), key=float)
    ]
    return "**Prompts that get something, by the least relevance**\n\n" + _table(["least relevance", *heads], lines)


def _denied(record: Mapping[str, Any]) -> str:
    lines = [
        [NAMES.get(name) or set_name(name), str(record["floors"][name]["queries"]), f"{share:.1%}"]
        for name, share in sorted(record["denied"].items(), key=lambda item: (item[0] in NAMES, item[0]))
    ]
    return "**Questions of which a memory is said to know nothing**\n\n" + _table(
        ["asked", "questions", "share"], lines
    )


def _floors(floors: Mapping[str, Any]) -> str:
    names = [name for name in next(iter(floors.values())) if name != "queries"]
    names.sort(key=lambda name: (name == "default") + 2 * (name not in ("0", "default")))
    budgets = sorted(next(iter(floors.values()))["0"], key=int)
    lines = []
    for group, found in sorted(floors.items(), key=lambda item: (item[0] in NAMES, item[0] not in UNANSWERED)):
        has_answer = group not in UNANSWERED and "foreign" not in group
        for i, budget in enumerate(budgets):
            values = [found[name][budget] for name in names]
            cells = [f"{one['tokens']:.0f}" + (f" ({one['recall']:.3f})" if has_answer else "") for one in values]
            lines.append(
                [f"{NAMES.get(group) or set_name(group)}, {found['queries']}" if not i else "", budget, *cells]
            )
    heads = ["asked", "budget", *("nothing left out" if name == "0" else name for name in names)]
    return "**Tokens used, and recall, by `min_relevance`** (simulated)\n\n" + _table(heads, lines)


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return "\n".join([*rows, *(f"| {' | '.join(cells)} |" for cells in lines)])

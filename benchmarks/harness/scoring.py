"""Scores a results file from the rendered text alone: what counts is what would stand in the prompt.

    python -m benchmarks.harness.scoring DATA RESULTS.jsonl

A gold unit counts by the share of its characters that verified claims cover (from 0.9 on a whole one); a claim is
verified when its slice really stands in the text, white space folded. A needle (a rare string that an agent typed
next) counts inside a verified slice of at least 200 characters, or a whole shorter unit. A line over its budget in
cl100k_base tokens scores 0, and so does a missing one. Claiming or quoting what came after a query's cutoff, or the
same line twice, is an error. Adversarial questions, which have no answer, are reported apart.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.harness.data import Haystack, Query, Unit, read_haystacks
from tinymem.errors import InputError
from tinymem.messages import TiktokenCounter

__all__ = ["Figures", "Row", "figures", "needle_found", "read_results", "report", "score", "unit_share"]

SLICE = 200  # characters of its own context that a needle needs
WHOLE = 0.9  # share of a unit's characters from which it counts as there
DRAWS = 1_000  # of the bootstrap
QUOTE = 80, 160  # a unit is quoted when its first characters (at least, at most so many) stand in the text

Claims: TypeAlias = Sequence[tuple[int, int]]  # slices [start, end) of one unit
Lines: TypeAlias = Mapping[tuple[str, str, int], Mapping[str, Any]]  # a line by haystack, query and budget


@dataclass(frozen=True)
class Row:
    """The score of one line. `value` and `whole` are 0 to 1; `latency_ms` is None where no line was there.

    `needed` are tokens of needed text: verified text of gold units, or SLICE characters around a needle.
    """

    type: str
    value: float
    whole: float
    tokens: int = 0
    latency_ms: float | None = None
    over_budget: bool = False
    missing: bool = False
    haystack: str = ""
    needed: int = 0


@dataclass(frozen=True)
class Figures:
    """The figures of one budget: means over the queries, adversarial ones apart; latencies in milliseconds.

    `interval` is the 95 % confidence interval of `recall`, by a bootstrap over haystacks and the queries of each.
    """

    recall: float
    interval: tuple[float, float]
    all: float
    tokens: float
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    adversarial: float | None
    over_budget: int
    missing: int
    types: dict[str, tuple[float, int]] = field(default_factory=dict)  # type -> mean, number of queries
    needed: float = 0.0  # tokens of needed text
    answered: float = 0.0  # share of queries that got anything


def fold(text: str) -> str:
    """`text` with every run of white space as one space."""
    return re.sub(r"\s+", " ", text).strip()


def verified(text: str, claims: Claims, folded: str) -> list[tuple[int, int]]:
    """The claimed slices of a unit's `text` that stand in the folded prompt text."""
    cut = [(max(0, start), min(len(text), end)) for start, end in claims]
    return [(start, end) for start, end in cut if start < end and fold(text[start:end]) in folded]


def covered(text: str, claims: Claims, folded: str) -> list[tuple[int, int]]:
    """Return the verified slices of a unit, without what overlaps."""
    found, last = [], 0
    for start, end in sorted(verified(text, claims, folded)):
        if end > last:
            found.append((max(start, last), end))
            last = end
    return found


def unit_share(text: str, claims: Claims, folded: str) -> float:
    """The share of a gold unit that is there, 0 to 1."""
    share = sum(end - start for start, end in covered(text, claims, folded)) / max(1, len(text))
    return 1.0 if share >= WHOLE else share


def needle_found(needle: str, text: str, claims: Claims, folded: str) -> bool:
    """Return whether `needle` lies inside one verified slice of a unit, with enough of its context."""
    long = [(start, end) for start, end in verified(text, claims, folded) if end - start >= min(SLICE, len(text))]
    return any(needle in text[start:end] for start, end in long)


def quoted_future(units: Sequence[Unit], query: Query, folded: str) -> int | None:
    """The place of a unit from after the cutoff that the text quotes, though neither past nor query holds it."""
    asked, past = fold(query.question.text), None
    for at in range(query.cutoff, len(units)):
        head = fold(units[at].text)[: QUOTE[1]]
        if len(head) < QUOTE[0] or head not in folded or head in asked:
            continue
        past = past or fold(" ".join(map(_said, units[: query.cutoff])))
        if head not in past:
            return at
    return None


def _said(unit: Unit) -> str:
    """Return the text of a unit and the arguments of its calls, which a prompt may quote too."""
    return " ".join([unit.text, *(call.arguments for call in unit.tool_calls)])


def read_results(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The lines of a results file by haystack, query and budget."""
    lines: dict[tuple[str, str, int], dict[str, Any]] = {}
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                key = line["haystack"], line["query"], line["budget"]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path.name}, line {number}: not a line of results: {error!r}") from error
            if key in lines:
                raise InputError(f"{path.name}, line {number}: the same line twice: {key}")
            lines[key] = line
    return lines


def score(haystacks: Iterable[Haystack], lines: Lines) -> dict[int, list[Row]]:
    """The rows of each budget; a query without its line is a row that says so."""
    budgets, counter = sorted({budget for _, _, budget in lines}), TiktokenCounter()
    rows: dict[int, list[Row]] = {budget: [] for budget in budgets}
    for haystack in haystacks:
        for query in haystack.queries:
            for budget in budgets:
                line = lines.get((haystack.id, query.id, budget))
                row = Row(query.type, 0, 0, missing=True) if line is None else _row(haystack, query, line, counter)
                rows[budget].append(replace(row, haystack=haystack.id))
    return rows


def _row(haystack: Haystack, query: Query, line: Mapping[str, Any], counter: TiktokenCounter) -> Row:
    folded, claims = fold(line["text"]), _claims(haystack, query, line)
    if (quoted := quoted_future(haystack.units, query, folded)) is not None:
        raise InputError(f"query {query.id} of {haystack.id} quotes {haystack.ids[quoted]}, from after its cutoff")
    tokens = counter.count(line["text"])
    over = tokens > line["budget"]
    values = [0.0] if over else _values(haystack, query, claims, folded)
    whole = float(min(values) == 1.0)
    needed = 0 if over else sum(map(counter.count, _needed(haystack, query, claims, folded)))
    latency = line.get("latency_ms")
    return Row(query.type, sum(values) / len(values), whole, tokens, latency, over, needed=needed)


def _claims(haystack: Haystack, query: Query, line: Mapping[str, Any]) -> dict[int, list[tuple[int, int]]]:
    claims: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for claim in line["units"]:
        at = haystack.places[claim["id"]]
        if at >= query.cutoff:
            raise InputError(f"query {query.id} of {haystack.id} claims {claim['id']}, from after its cutoff")
        claims[at].append((claim.get("start", 0), claim.get("end", len(haystack.units[at].text))))
    return claims


def _values(haystack: Haystack, query: Query, claims: Mapping[int, Claims], folded: str) -> list[float]:
    """One value a gold unit, or one for the needle."""
    units = haystack.units
    if (needle := query.needle) is not None:
        return [float(any(needle_found(needle, units[at].text, found, folded) for at, found in claims.items()))]
    places = [haystack.places[gold] for gold in query.gold]
    return [unit_share(units[at].text, claims.get(at, ()), folded) for at in places]


def _needed(haystack: Haystack, query: Query, claims: Mapping[int, Claims], folded: str) -> list[str]:
    """The needed text that is there, slice by slice."""
    texts = {place: haystack.units[place].text for place in claims}
    if (needle := query.needle) is not None:
        having = [text for place, text in texts.items() if needle_found(needle, text, claims[place], folded)]
        starts = [max(0, text.index(needle) - (SLICE - len(needle)) // 2) for text in having[:1]]
        return [text[start : start + SLICE] for text, start in zip(having, starts, strict=False)]
    gold = {haystack.places[name] for name in query.gold} & {*texts}
    slices = {place: covered(texts[place], claims[place], folded) for place in gold}
    return [texts[place][start:end] for place, found in slices.items() for start, end in found]


def figures(rows: Sequence[Row]) -> Figures:
    """The figures of one budget."""
    main = [row for row in rows if row.type != "adversarial"]
    apart = [row.value for row in rows if row.type == "adversarial" and not row.missing]
    latencies = sorted(row.latency_ms for row in main if row.latency_ms is not None)
    types: dict[str, list[float]] = defaultdict(list)
    for row in main:
        types["missing" if row.missing else row.type].append(row.value)
    return Figures(
        recall=mean([row.value for row in main]),
        interval=interval(main),
        all=mean([row.whole for row in main]),
        tokens=mean([row.tokens for row in main]),
        latency_p50_ms=latencies[len(latencies) // 2] if latencies else None,
        latency_p95_ms=latencies[int(len(latencies) * 0.95)] if latencies else None,
        adversarial=mean(apart) if apart else None,
        over_budget=sum(row.over_budget for row in rows),
        missing=sum(row.missing for row in main),
        types={name: (mean(values), len(values)) for name, values in sorted(types.items())},
        needed=mean([row.needed for row in main]),
        answered=mean([row.tokens > 0 for row in main]),
    )


def interval(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean value: haystacks are drawn, and in each its queries."""
    by_haystack: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_haystack[row.haystack].append(row.value)
    if not by_haystack:
        return 0.0, 0.0
    random, values = np.random.default_rng(0), [np.array(some) for some in by_haystack.values()]
    means = []
    for _ in range(DRAWS):
        drawn = [values[i] for i in random.integers(len(values), size=len(values))]
        means.append(np.concatenate([random.choice(some, len(some)) for some in drawn]).mean())
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def report(by_budget: Mapping[int, Figures]) -> str:
    """The figures as text: two lines a budget, and all of them in the last line."""
    lines = []
    for budget, found in by_budget.items():
        line = f"@{budget}: recall {found.recall:.3f}  all {found.all:.3f}  tokens {found.tokens:.0f}"
        if found.recall:
            line += f", {found.tokens / found.recall:.0f} a needle"
        if found.latency_p50_ms is not None:
            line += f"  latency p50 {found.latency_p50_ms:.1f} ms p95 {found.latency_p95_ms:.1f} ms"
        if found.adversarial is not None:
            line += f"  adversarial {found.adversarial:.3f}"
        lines.append(line + (f"  MISSING {found.missing}" if found.missing else ""))
        lines.append("    " + "  ".join(f"{name} {value:.3f} (n={n})" for name, (value, n) in found.types.items()))
    if over := sum(found.over_budget for found in by_budget.values()):
        lines.append(f"over budget: {over} lines scored 0")
    lines.append(" ".join(f"recall@{b} {f.recall:.3f} all@{b} {f.all:.3f}" for b, f in by_budget.items()))
    return "\n".join(lines)


def main() -> None:
    """Score a results file again and print the figures."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        rows = score(read_haystacks(Path(sys.argv[1])), read_results(Path(sys.argv[2])))
    except (InputError, OSError) as error:
        sys.exit(str(error))
    print(report({budget: figures(found) for budget, found in rows.items()}))


if __name__ == "__main__":
    main()

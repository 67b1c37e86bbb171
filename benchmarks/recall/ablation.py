"""The worth of each stage of recall: the evidence that comes back without it, at the same tokens.

    python -m benchmarks.recall.ablation --data FILE... --out FILE.json [--train FILE...] [--jobs N]

Without some features the fusion weights are fitted again, as `benchmarks.fitting.fusion` does it, on every other
haystack of each file; `--train` names files that are fitted on, too, but not measured. Other stages are
switched off, or set otherwise, by constants of the library. Then real memories are asked, and what they give is
scored as in `benchmarks.recall`. `python -m benchmarks.recall.ablation_table --write` writes tables/ablation.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fitting.evidence import MEASURED, Asked, Candidates, DataFile, collect
from benchmarks.fitting.fusion import Settings, fit, rounded
from benchmarks.harness.data import Haystack, Query, Recalled, claimed, read_haystacks, sha256
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import Setup
from benchmarks.harness.scoring import score
from benchmarks.harness.summary import circumstances
from benchmarks.recall.run import budgets
from benchmarks.recall.variants import FULL, VARIANTS, Variant, by_making, constants
from tinymem import TinymemError
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import Fusion, ScoredCandidates

__all__ = ["FORMAT", "HALVES", "main", "measured"]

FORMAT = "ablation 1"
HALVES = {"held_out": slice(1, None, 2), "all": slice(None)}  # which haystacks of a file
EMBEDDER = "static"

Each = Callable[..., Iterable[Any]]  # `map`, or that of a pool of processes
Values = dict[str, dict[int, list[float]]]  # by variant and budget: what each query scored


# -- weights ----------------------------------------------------------------------------------------------------------


def collected(path: Path, making: Mapping[str, Any]) -> DataFile:
    """Return the queries that weights are fitted on."""
    with constants(making):
        return collect(path, EMBEDDER)


def refitted(variant: Variant, files: Sequence[Sequence[Asked]]) -> Variant:
    """The variant with its weights; those of features that it does without are 0."""
    if variant.fusion is not None:
        return variant
    kept = np.array([name not in variant.without for name in NAMES], np.float32)
    seen = [[replace(asked, features=asked.features * kept) for asked in file] for file in files]
    fusion = rounded(fit(seen, Settings()))
    return replace(variant, fusion=Fusion(fusion.weights * kept, fusion.bias))  # some are set, not fitted


def with_weights(variants: Mapping[str, Variant], paths: Sequence[Path], each: Each) -> dict[str, Variant]:
    """The variants with weights, of which those that differ by nothing that is fitted share them."""
    fitted: dict[str, Variant] = {}
    for making, group in by_making(variants):
        files = [file.training(MEASURED) for file in each(partial(collected, making=making), paths)]
        distinct = {variant.without: Variant(variant.without) for variant in group.values()}
        made = dict(zip(distinct, each(partial(refitted, files=files), distinct.values()), strict=True))
        for name, variant in group.items():
            fitted[name] = replace(variant, fusion=variant.fusion or made[variant.without].fusion)
    return {name: fitted[name] for name in variants}


# -- recall -----------------------------------------------------------------------------------------------------------


def measured(haystack: Haystack, variants: Mapping[str, Variant], tokens: Sequence[int]) -> Values:
    """Score the queries of a haystack, without adversarial ones; `variants` have their weights."""
    found: Values = {}
    for making, group in by_making(variants):
        with constants(making), tempfile.TemporaryDirectory(prefix="ablation-", ignore_cleanup_errors=True) as folder:
            method = Candidates(Setup(Path(folder) / "memory", EMBEDDER, "exact", haystack.is_agent_run))
            try:
                lines = replayed(haystack, method, group, tokens)
            finally:
                method.close()
        for name in group:
            rows = score([haystack], lines[name])
            found[name] = {b: [row.value for row in rows.get(b, ()) if row.type != "adversarial"] for b in tokens}
    return {name: found[name] for name in variants}


def replayed(
    haystack: Haystack, method: Candidates, variants: Mapping[str, Variant], tokens: Sequence[int]
) -> dict[str, dict[tuple[str, str, int], dict[str, Any]]]:
    """The lines of results of each variant."""
    lines: dict[str, dict[tuple[str, str, int], dict[str, Any]]] = {name: {} for name in variants}
    added = 0
    for query in haystack.queries:
        if query.cutoff > added:
            method.add(haystack.units[added : query.cutoff])
            added = query.cutoff
        if query.type == "adversarial" or not query.question.text.strip():
            continue
        for name, budget, found in recalled(query, method, variants, tokens):
            line = {"budget": budget, "text": found.text, "units": claimed(haystack, found)}
            lines[name][haystack.id, query.id, budget] = line
    return lines


def recalled(
    query: Query, method: Candidates, variants: Mapping[str, Variant], tokens: Sequence[int]
) -> Iterator[tuple[str, int, Recalled]]:
    """Return the recall of each variant at each budget."""
    known: dict[tuple[str, ...], ScoredCandidates] = {}  # most variants have the same candidates
    for name, variant in variants.items():
        key = tuple(variant.asking)
        if key not in known:
            with constants(variant.asking):
                known[key] = method.score(query.question)
        assert variant.fusion is not None
        scored = replace(known[key], fusion=variant.fusion)
        with constants(variant.ranking):
            for budget in tokens:
                yield name, budget, method.claiming(method.packed(scored, budget, variant.diversity))


# -- figures ----------------------------------------------------------------------------------------------------------


def figures(measured: Sequence[Values], tokens: Sequence[int]) -> dict[str, Any]:
    """By variant, budget and half: mean recall, and the standard error of its difference from all stages."""
    return {
        name: {
            str(budget): {half: compared(measured[which], name, budget) for half, which in HALVES.items()}
            for budget in tokens
        }
        for name in measured[0]
    }


def compared(measured: Sequence[Values], name: str, budget: int) -> list[float]:
    """Mean recall over the queries of some haystacks, and the standard error of its paired difference."""
    ours, full = (np.array([x for one in measured for x in one[which][budget]]) for which in (name, FULL))
    if not len(ours):
        return [0.0, 0.0]
    error = float((ours - full).std()) / len(ours) ** 0.5
    return [round(float(ours.mean()), 6), round(error, 6)]


def measure_file(path: Path, variants: Mapping[str, Variant], tokens: Sequence[int], each: Each) -> dict[str, Any]:
    """The figures of one file."""
    found = list(each(partial(measured, variants=variants, tokens=tokens), read_haystacks(path)))
    counts = {half: sum(len(one[FULL][tokens[0]]) for one in found[which]) for half, which in HALVES.items()}
    record = {"data": path.name, "sha256": sha256(path), "haystacks": len(found), "queries": counts}
    return record | {"figures": figures(found, tokens)}


def main(given: Sequence[str] | None = None) -> None:
    """Fit, measure, write."""
    parser = command_line("benchmarks.recall.ablation", __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks to fit on and to measure")
    add("--train", type=Path, nargs="+", default=[], metavar="FILE", help="haystacks that are fitted on, too")
    add("--out", type=Path, required=True, metavar="RESULTS.json", help="the file to write")
    add("--budgets", type=budgets, default=(1024, 4096), metavar="N,N", help="token budgets (default: 1024,4096)")
    add("--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    args = parser.parse_args(given)
    made = circumstances()
    try:
        with ExitStack() as stack:
            each = map if args.jobs == 1 else stack.enter_context(ProcessPoolExecutor(args.jobs)).map
            paths = sorted([*args.data, *args.train], key=lambda path: path.name)
            variants = with_weights(VARIANTS, paths, each)
            sets = [measure_file(path, variants, args.budgets, each) for path in args.data]
        record = {"format": FORMAT, "budgets": list(args.budgets), "trained_on": [path.name for path in paths]}
        args.out.write_text(json.dumps({**record, **made, "sets": sets}, indent=1) + "\n", encoding="utf-8")
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.recall.ablation: {error}")


if __name__ == "__main__":
    main()

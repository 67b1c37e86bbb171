"""Coarse to fine: episodes are chosen by the question, then passages in them, against passages alone at equal tokens.

    python -m benchmarks.recall.coarse --data FILE... --out benchmarks/results/coarse.json
    python -m benchmarks.recall.coarse --out benchmarks/results/coarse.json --write  # the table in tables/episodes.md

Simulated, as the fit of the weights is, with weights that were fitted without each haystack. An episode is a run of
consecutive units; it is as good as the mean score of its three best passages. The passages of the best episodes come
first, in order of their score, and then all others. `spread` takes passages alone, but each further one of an episode
is worth less by half of its odds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fitting.evidence import FOLDS, LABEL, Asked, collect, filled, share
from benchmarks.fitting.fusion import FOLDED
from benchmarks.fitting.relevance import read_folds
from benchmarks.harness.data import read_haystacks, set_name, sha256
from benchmarks.harness.documents import parser_of, placed, settle
from tinymem import TinymemError
from tinymem.errors import InputError
from tinymem.protocols import Ids, Vectors
from tinymem.recall.relevance import PRICE

__all__ = ["WAYS", "main", "measured", "table"]

PROGRAM = "benchmarks.recall.coarse"
PAGE = Path(__file__).parents[1] / "tables" / "episodes.md"
MARKS = f"<!-- coarse: python -m {PROGRAM} --write -->", "<!-- end of coarse -->"
BUDGETS = (1024, 4096)
BEST = 3  # passages by which an episode is judged

Way = Callable[[Ids, Vectors, Vectors], Ids]  # of units, scores, and scores less the price of length: the order


def alone(_units: Ids, _scores: Vectors, worth: Vectors) -> Ids:
    """Take passages by what they are worth."""
    return np.argsort(-worth, kind="stable")


def chosen(width: int, count: int) -> Way:
    """Take the passages of the `count` best episodes of `width` units first."""

    def order(units: Ids, scores: Vectors, worth: Vectors) -> Ids:
        episodes = units // width
        means = {one: float(np.sort(scores[episodes == one])[-BEST:].mean()) for one in np.unique(episodes).tolist()}
        best = sorted(means, key=lambda one: -means[one])[:count]
        return np.lexsort((-worth, ~np.isin(episodes, best)))

    return order


def spread(width: int) -> Way:
    """Take passages by what they are worth, less for each one of the same episode of `width` units before it."""

    def order(units: Ids, scores: Vectors, worth: Vectors) -> Ids:
        episodes, left = (units // width).tolist(), worth.copy()
        taken: dict[int, int] = defaultdict(int)
        for i in alone(units, scores, worth).tolist():
            left[i] -= np.log(2) * taken[episodes[i]]
            taken[episodes[i]] += 1
        return alone(units, scores, left)

    return order


WAYS: dict[str, Way] = {
    "passages alone": alone,
    "3 of 8 units": chosen(8, 3),
    "8 of 8 units": chosen(8, 8),
    "8 of 20 units": chosen(20, 8),
    "spread, 20 units": spread(20),
}


def found(asked: Asked, scores: Vectors, way: Way) -> list[float]:
    """Return the recall of a query at each budget."""
    costs = asked.lengths / 4 + LABEL
    order = way(asked.units, scores, (scores - PRICE * np.log(costs)).astype(np.float32)).tolist()
    return [share(asked, filled(asked, order, costs.tolist(), budget)) for budget in BUDGETS]


def measured(path: Path, folds: Path = FOLDED) -> dict[str, Any]:
    """Return by type of question the number of questions, and by way the mean recall at each budget."""
    weights = read_folds(folds)[sha256(path)]
    values: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    file = collect(path, "static")
    for at, (haystack, queries) in enumerate(zip(read_haystacks(path), file.haystacks, strict=True)):
        types = [one.type for one in haystack.queries if one.type != "adversarial" and one.question.text.strip()]
        for kind, asked in zip(types, queries, strict=True):
            scores = weights[at % FOLDS].score(asked.features, asked.kinds)
            for name, way in WAYS.items():
                row = found(asked, scores, way)
                values[kind][name].append(row)
                values["all"][name].append(row)
    return {
        kind: {"queries": len(by_way[next(iter(WAYS))])}
        | {name: np.mean(rows, axis=0).round(4).tolist() for name, rows in by_way.items()}
        for kind, by_way in sorted(values.items())
    }


def table(record: Mapping[str, Any]) -> str:
    """A row for each file and type of question: recall of passages alone, and what each other way changes."""
    base, *others = WAYS
    lines = [f"| set | type | {base} | {' | '.join(others)} |", f"| --- | --- |{' ---: |' * len(WAYS)}"]
    for name, types in record["files"].items():
        shown = set_name(name)
        for kind, values in sorted(types.items(), key=lambda item: (item[0] != "all", item[0])):
            now = values[base]
            cells = [", ".join(f"{value:.3f}" for value in now)]
            cells += [", ".join(f"{a - b:+.3f}" for a, b in zip(values[way], now, strict=True)) for way in others]
            lines.append(f"| {shown} | {kind} ({values['queries']}) | {' | '.join(cells)} |")
            shown = ""
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, or put the table into place."""
    parser = parser_of(PROGRAM, __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", default=[], metavar="FILE", help="haystacks: JSON lines, also gzip'd")
    add("--out", type=Path, required=True, metavar="RESULTS.json")
    args = parser.parse_args(given)
    try:
        if args.data:
            record = {"format": "coarse 1", "files": {path.name: measured(path) for path in args.data}}
            args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        text = table(json.loads(args.out.read_text(encoding="utf-8")))
        print(text)
        if args.write or args.check:
            settle(PROGRAM, {PAGE: placed(PAGE.read_text(encoding="utf-8"), text, *MARKS)}, args.write)
    except (TinymemError, InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")


if __name__ == "__main__":
    main()

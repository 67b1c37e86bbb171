"""The share of recalled text that holds no more: lines of files that were edited since, and facts that changed.

    python -m benchmarks.stale --data FILE... --before BEFORE.jsonl --after AFTER.jsonl --out STALE.summary.json
    python -m benchmarks.stale --write | --check      # the tables in tables/stale.md

BEFORE and AFTER are results of `benchmarks.recall` on these files, of two versions of the code. What is measured of
each file is `benchmarks/stale/scoring.py`'s: stale lines where `NAME.stale.jsonl.gz` stands beside `NAME.jsonl.gz`, and
changed facts where its queries have values that are new and old.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.data import sha256
from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.stale.scoring import facts, has_facts, lines, spans_beside
from tinymem.errors import InputError

__all__ = ["RESULTS", "figures", "main", "tables"]

BENCHMARK = "stale"
PROGRAM = "benchmarks.stale"
RESULTS = Path(__file__).parents[1] / "results" / "stale.summary.json"
PAGE = Path(__file__).parents[1] / "tables" / "stale.md"
MARKS = "<!-- stale: python -m benchmarks.stale --write -->", "<!-- end of stale -->"
DIGITS = 6
LINES = {
    "unmarked": "texts with an unmarked stale line",
    "stale": "stale tokens of 1,000",
    "needles": "needles",
}
FACTS = {"new": "newest in", "old": "an old one in", "clean": "clean"}
WHEN = ("before", "after")

Figures = dict[str, dict[str, float]]  # by budget and name


def figures(data: Path, results: Path) -> dict[str, Figures]:
    """Return the figures of stale lines, and of changed facts, as far as the file has them."""
    found: dict[str, Figures] = {}
    if spans_beside(data).exists():
        found["lines"] = {
            str(budget): {
                "queries": len(rows),
                "unmarked": _share([row.is_unmarked for row in rows]),
                "stale": round(sum(row.stale for row in rows) / max(1, sum(row.tokens for row in rows)), DIGITS),
                "needles": _share([row.found for row in rows if row.found is not None]),
            }
            for budget, rows in sorted(lines(data, results).items())
        }
    if has_facts(data):
        found["facts"] = {
            str(budget): {
                "queries": len(rows),
                "new": _share([row.is_new for row in rows]),
                "old": _share([row.is_old for row in rows if row.has_old]),
                "clean": _share([row.is_clean for row in rows if row.has_old]),
            }
            for budget, rows in sorted(facts(data, results).items())
        }
    return found


def _share(values: Sequence[bool | None]) -> float:
    return round(sum(map(bool, values)) / max(1, len(values)), DIGITS)


def tables(record: Mapping[str, Any]) -> str:
    """The figures as Markdown: stale lines, and facts that changed."""
    parts = []
    for kind, title, names in (("lines", "Lines of files", LINES), ("facts", "Facts", FACTS)):
        heads = [f"{name}, {when}" for name in names.values() for when in WHEN]
        rows = [f"| set | tokens | {' | '.join(heads)} |", f"| --- | ---: |{' ---: |' * len(heads)}"]
        rows += _rows(record, kind, [*names])
        parts.append(f"**{title}**\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _rows(record: Mapping[str, Any], kind: str, names: Sequence[str]) -> Iterator[str]:
    for one in record["sets"]:
        before, after = (one[when].get(kind, {}) for when in WHEN)
        for budget in after:
            cells = [_cell(name, found[budget][name]) for name in names for found in (before, after)]
            yield f"| {one['data'].partition('.')[0]} | {budget} | {' | '.join(cells)} |"


def _cell(name: str, value: float) -> str:
    """Return a cell.

    >>> _cell("unmarked", 0.042), _cell("stale", 0.0131), _cell("new", 1.0)
    ('.042', '13.1', '1.000')
    """
    return f"{1_000 * value:.1f}" if name == "stale" else f"{value:.3f}".removeprefix("0")


def measure(data: Sequence[Path], before: Path, after: Path) -> dict[str, Any]:
    """Return the record of the two results on these files."""
    commits = {when: read_summary(path)["commit"] for when, path in zip(WHEN, (before, after), strict=True)}
    sets = [
        {"data": path.name, "sha256": sha256(path), "before": figures(path, before), "after": figures(path, after)}
        for path in data
    ]
    return {"benchmark": BENCHMARK, **circumstances(), "commits": commits, "sets": sets}


def main(given: Sequence[str] | None = None) -> None:
    """Measure and write, or print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", metavar="FILE", help="haystacks; without it, only tables are made")
    add("--before", type=Path, metavar="RESULTS", help="results of benchmarks.recall by the code before")
    add("--after", type=Path, metavar="RESULTS", help="and by that of now")
    add("--out", type=Path, default=RESULTS, metavar="SUMMARY", help="the file to write (default: %(default)s)")
    add("--results", type=Path, default=RESULTS, help="what tables are made of (default: %(default)s)")
    add("--page", type=Path, default=PAGE)
    args = parser.parse_args(given)
    if not args.data:
        deliver(PROGRAM, args, lambda: tables(read_summary(args.results)), *MARKS)
        return
    if args.before is None or args.after is None:
        parser.error("--data needs --before and --after")
    try:
        record = measure(args.data, args.before, args.after)
        write_summary(args.out, record)
        print(tables(record))
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")

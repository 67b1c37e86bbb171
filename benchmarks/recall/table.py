"""The tables of benchmarks/tables/recall.md and of the first page, from the summaries beside the results.

python -m benchmarks.recall.table [RESULTS...]           print the tables (default: all of benchmarks/results)
python -m benchmarks.recall.table --write | --check      put them into both, or exit with 1 if they hold others
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.data import set_name
from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.methods import AS_CALLED, METHODS, PEERS
from benchmarks.harness.summary import read_summary
from tinymem.errors import InputError

__all__ = ["Entry", "entries", "main", "overview", "tables"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.recall.table"
MARKS = "<!-- tables: python -m benchmarks.recall.table --write -->", "<!-- end of tables -->"
ORDER = (*METHODS, *PEERS)
OVERVIEW = {
    "chromadb": "Chroma",
    "mempalace": "MemPalace",
    "mem0": "mem0",
    "langgraph": "LangGraph",
    "bm25-passages": "BM25",
}
TITLES = {
    "recall": "Recall: mean share of the evidence that comes back",
    "all": "All: share of queries with every piece of evidence whole",
}
INTERVALS = "Recall: 95 % confidence intervals, by a bootstrap over haystacks and the queries of each"
SPENT = "What a default call spends, beside budgets that are filled: of 1,000 tokens, those that were needed"
COST_BUDGET = 1024  # the budget whose costs are shown, where it was measured


@dataclass(frozen=True)
class Entry:
    """One row: what was measured on one set, or why it was not; `figures` by budget, as the summary has them."""

    data: str
    method: str
    adapter: str
    figures: dict[int, dict[str, Any]]
    version: str = ""
    failed: str = ""
    queries: int = 0

    @property
    def label(self) -> str:
        """The method, of a peer with its version, and its embedder, or why there are no figures."""
        name = f"{self.method} {self.version}".rstrip()
        if self.failed:
            return f"{name}, not measured: {self.failed.replace('|', '/')}"
        return f"{name}, {self.adapter}" if self.adapter else name

    @property
    def costs(self) -> tuple[int, dict[str, Any]]:
        """The budget whose costs are shown, and its figures."""
        budget = COST_BUDGET if COST_BUDGET in self.figures else min(self.figures)
        return budget, self.figures[budget]


def entries(summaries: Iterable[dict[str, Any]]) -> list[Entry]:
    """The rows of all summaries: sets in alphabetical order, in each the methods in theirs."""
    found = []
    for summary in summaries:
        if "benchmark" in summary:  # of something else than recall
            continue
        limit = f" (first {summary['limit']})" if "limit" in summary else ""
        store = summary.get("store", "chroma")
        adapter = summary.get("embedder", "") + (f", {store}" if store != "chroma" else "")
        version = next(iter(summary.get("peer", {}).values()), "")
        for one in summary["sets"]:
            figures = {int(budget): values for budget, values in one["figures"].items()}
            name = set_name(one["data"]) + limit
            rest = (one.get("failed", ""), _asked(one))
            found.append(Entry(name, summary["method"], adapter, figures, version, *rest))
    return sorted(found, key=lambda entry: (entry.data, ORDER.index(entry.method), entry.adapter))


def _asked(one: Mapping[str, Any]) -> int:
    """Return the number of queries that the means are over: adversarial ones are apart."""
    every = [figures.get("types") for figures in one["figures"].values()]
    types: Mapping[str, tuple[float, int]] = next(filter(None, every), {})
    return sum(count for _, count in types.values()) or int(one.get("queries", 0))


def tables(rows: Sequence[Entry]) -> str:
    """The tables as Markdown: recall, all evidence, intervals, costs, and what a default call spends."""
    called = {row.data for row in rows if row.method == AS_CALLED}
    spending = [row for row in rows if row.data in called and row.figures and "needed" in row.costs[1]]
    rows = [row for row in rows if row.method != AS_CALLED]
    budgets = sorted({budget for row in rows for budget in row.figures})
    measured = [row for row in rows if not row.failed]
    parts = []
    for key, title in TITLES.items():
        shown = rows if key == "recall" else measured  # what was not measured is said once
        cells = [[_figure(row.figures.get(budget, {}).get(key)) for budget in budgets] for row in shown]
        parts.append(f"**{title}**\n\n" + _table(shown, [f"@{budget}" for budget in budgets], cells))
    with_interval = [row for row in rows if any(found.get("interval") for found in row.figures.values())]
    cells = [[_interval(row.figures.get(budget, {}).get("interval")) for budget in budgets] for row in with_interval]
    parts.append(f"**{INTERVALS}**\n\n" + _table(with_interval, [f"@{budget}" for budget in budgets], cells))
    costs = [_costs(row) for row in measured]
    heads = ["budget", "tokens used", "a needle", "adversarial"]
    parts.append("**What it costs**\n\n" + _table(measured, heads, costs))
    heads = ["budget", "recall", "tokens used", "a needle", "needed of 1,000", "got nothing"]
    parts.append(f"**{SPENT}**\n\n" + _table(spending, heads, [_spent(row) for row in spending]))
    return "\n\n".join(parts)


def overview(rows: Sequence[Entry]) -> str:
    """The table of the front page: recall at one budget, of each set that other memories were measured on."""
    heads = ["questions", "**tinymem**", "95 %", "tokens per needle", *OVERVIEW.values()]
    lines = [f"| data | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    found = {(row.data, row.method): row for row in rows if row.adapter in ("", "static") or row.method in PEERS}
    for (data, method), row in found.items():
        others = [found.get((data, name)) for name in OVERVIEW]
        if method == "tinymem" and any(other and other.method in PEERS for other in others):
            cells = [_figure(other.figures.get(COST_BUDGET, {}).get("recall") if other else None) for other in others]
            own = row.figures[COST_BUDGET]
            measured = [f"**{_figure(own['recall'])}**", _interval(own.get("interval")), _price(own)]
            shown = [f"{row.queries}", *measured, *cells]
            lines.append(f"| {data} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _costs(row: Entry) -> list[str]:
    budget, found = row.costs
    return [str(budget), f"{found['tokens']:.0f}", _price(found), _figure(found["adversarial"])]


def _spent(row: Entry) -> list[str]:
    budget, found = row.costs
    worth = 1_000 * found["needed"] / max(found["tokens"], 1)
    return [
        f"{budget:,}",
        f"{found['recall']:.3f}",
        f"{found['tokens']:.0f}",
        _price(found),
        f"{worth:.0f}",
        f"{1 - found['answered']:.3f}",
    ]


def _price(found: Mapping[str, Any]) -> str:
    """Return the tokens that a whole piece of evidence costs: all that is used, by all that comes back."""
    return f"{found['tokens'] / found['recall']:,.0f}" if found["recall"] else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(found: Sequence[float] | None) -> str:
    return "" if found is None else f"{found[0]:.3f} to {found[1]:.3f}"


def _table(rows: Sequence[Entry], heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [f"| set | method | {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * len(heads)}"]
    shown = ""
    for row, values in zip(rows, cells, strict=True):
        where = f"{row.data}, {row.queries:,} queries"
        lines.append(f"| {'' if row.data == shown else where} | {row.label} | {' | '.join(values)} |")
        shown = row.data
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the tables."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULTS", help="results or their summaries")
    parser.add_argument(
        "--page", type=Path, default=HERE / "tables" / "recall.md", help="the document that holds the tables"
    )
    parser.add_argument("--front", type=Path, default=HERE.parent / "README.md", help="the one with the overview")
    args = parser.parse_args(given)
    try:
        paths = args.results or sorted((HERE / "results").glob("*.summary.json"))
        rows = entries(read_summary(path) for path in paths)
        if not args.write and not args.check:
            print(tables(rows))
            return
        shown = {args.page: tables(rows), args.front: overview(rows)}
        wanted = {path: placed(path.read_text(encoding="utf-8"), text, *MARKS) for path, text in shown.items()}
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    settle(PROGRAM, wanted, args.write)


if __name__ == "__main__":
    main()

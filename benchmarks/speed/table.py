"""The table of what a memory costs, from benchmarks/results/speed.summary.json.

python -m benchmarks.speed.table [SUMMARY]            print the table
python -m benchmarks.speed.table --write | --check    put it into tables/speed.md, or exit with 1 if that holds another
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import read_summary

__all__ = ["main", "table"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.speed.table"
START, END = "<!-- speed: python -m benchmarks.speed.table --write -->", "<!-- end of speed -->"


def table(record: dict[str, Any]) -> str:
    """The table as Markdown: a row for each cost, a column for each size."""
    sizes = record["sizes"]
    heads = [f"{one['size']:,} steps" if _is_beside(one) else f"{one['size']:,} steps, {one['store']}" for one in sizes]
    lines = [f"| | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    lines += [f"| {name} | {' | '.join(show(one) for one in sizes)} |" for name, show in ROWS]
    starts = ", ".join(f"`{name}` {milliseconds:,.0f} ms" for name, milliseconds in record["starts_ms"].items())
    machine, versions = record["machine"], record["versions"]
    about = (
        f"{machine['cores']} cores ({machine['architecture']}), Python {versions['python']}, chromadb "
        f"{versions['chromadb']}."
    )
    return "\n".join([*lines, "", f"Cold starts, from start to end: {starts}.", "", f"Measured on {about}"])


def _is_beside(one: dict[str, Any]) -> bool:
    """Return whether plain Chroma was measured beside the memory."""
    return "opened_chroma" in one


def _pair(key: str, other: str = "") -> Callable[[dict[str, Any]], str]:
    """Median and 95th percentile in milliseconds, and the median of `other` as a multiple of this one."""

    def show(one: dict[str, Any]) -> str:
        text = f"{one[key]['p50']:,.2f} / {one[key]['p95']:,.2f}"
        return f"{text} ({one[key]['p50'] / one[other]['p50']:.2g})" if other and _is_beside(one) else text

    return show


def _throughput(one: dict[str, Any]) -> str:
    text = f"{one['archive']['steps_per_second']:,.0f}"
    return f"{text} ({median(one['archive']['ratios']):.2f})" if _is_beside(one) else text


def _opening(key: str, other: str) -> Callable[[dict[str, Any]], str]:
    def show(one: dict[str, Any]) -> str:
        if key not in one["opened"]:  # a summary from before it was measured
            return "-"
        mine = one["opened"][key]
        return f"{mine:,.0f} ({mine / one['opened_chroma'][other]:.2f})" if _is_beside(one) else f"{mine:,.0f}"

    return show


def _disk(one: dict[str, Any]) -> str:
    disk = one["disk_mib"]
    text = f"{disk['memory']:,.1f}"
    return f"{text} ({disk['memory'] / disk['chroma']:.2f})" if _is_beside(one) else text


def _forgetting(one: dict[str, Any]) -> str:
    return f"{one['forget']['p50']:,.0f}" if "forget" in one else "-"  # a summary from before it was measured


def _circumstances(one: dict[str, Any]) -> str:
    before, after = one["load"]
    return f"{one['date']}, {before:.1f} to {after:.1f}"


ROWS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("passages", lambda one: f"{one['passages']:,.0f}"),
    ("`add`, ms, p50 / p95 (x Chroma's own p50)", _pair("add", "chroma_add")),
    ("`add`, ms, mean, with the batches that are embedded meanwhile", lambda one: f"{one['add']['mean']:,.2f}"),
    ("`add`, ms, the longest", lambda one: f"{one['add']['max']:,.0f}"),
    ("archived, index included, steps/s (x Chroma's speed; at least 0.8 is wanted)", _throughput),
    ("`context`, ms, p50 / p95 (x a search of Chroma's; at most 10)", _pair("context", "chroma_query")),
    ("`recall`, ms, p50 / p95 (x a search of Chroma's; at most 6)", _pair("recall", "chroma_query")),
    ("`forget` one step, ms, p50", _forgetting),
    ("open, ms (x Chroma)", _opening("open", "open")),
    ("open and first `recall`, ms (x Chroma's first search; at most 1.5)", _opening("first_recall", "first_query")),
    ("`tinymem recall`, ms, start to end", lambda one: f"{one['cli_recall_ms']:,.0f}"),
    ("resident, MiB (x Chroma)", _opening("reading", "reading")),
    ("private, MiB (x Chroma; at most 1.2)", _opening("private", "private")),
    ("on disk, MiB (x Chroma)", _disk),
    ("of that the journal", lambda one: f"{one['disk_mib']['journal']:,.1f}"),
    ("measured on, at a load of the machine from - to", _circumstances),
)


def main(given: Sequence[str] | None = None) -> None:
    """Print, write or check the table."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("summary", nargs="?", type=Path, default=HERE / "results" / "speed.summary.json")
    parser.add_argument(
        "--page", type=Path, default=HERE / "tables" / "speed.md", help="the document that holds the table"
    )
    args = parser.parse_args(given)
    deliver(PROGRAM, args, lambda: table(read_summary(args.summary)), START, END)


if __name__ == "__main__":
    main()

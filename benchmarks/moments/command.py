"""The command line of a benchmark of single prompts: measure, print, and put the table into place."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.data import Haystack, read_haystacks
from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.recall.run import progress
from tinymem.errors import InputError

__all__ = ["RECORDED", "Benchmark", "runs_of"]

BENCHMARKS = Path(__file__).parents[1]
RECORDED = {"type": Path, "nargs": "+", "default": [], "metavar": "RUNS", "help": "haystacks of recorded runs"}


def runs_of(files: Sequence[Path]) -> Iterator[Haystack]:
    """Yield the runs of agents in these files."""
    return (run for file in files for run in read_haystacks(file) if run.is_agent_run)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark whose table stands in tables/moments.md.

    Attributes:
        name: Its name.
        about: What its help says.
        measure: Returns what its options ask for.
        rows: Gives the lines of the table, in Markdown.
        options: What it takes, by the name of each option.
    """

    name: str
    about: str | None
    measure: Callable[[Namespace], dict[str, Any]]
    rows: Callable[[Mapping[str, Any]], Iterable[str]]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def table(self, record: Mapping[str, Any]) -> str:
        """The figures as Markdown."""
        if record.get("benchmark") != self.name:
            raise InputError(f"these are results of {record.get('benchmark')!r}, not of {self.name!r}")
        return "\n".join(self.rows(record))

    def main(self, given: Sequence[str] | None = None) -> None:
        """Measure, or put the table into place."""
        program, results = f"benchmarks.moments.{self.name}", BENCHMARKS / "results" / f"{self.name}.summary.json"
        parser = parser_of(program, self.about)
        add = parser.add_argument
        for name, option in self.options.items():
            add(f"--{name}", **option)
        add("--out", type=Path, metavar="SUMMARY", help="the file to write (default: figures only)")
        add("--results", type=Path, default=results, help="the file whose figures are put into place")
        add("--page", type=Path, default=BENCHMARKS / "tables" / "moments.md", help="the document that holds the table")
        args = parser.parse_args(given)
        if args.write or args.check:
            marks = f"<!-- {self.name}: python -m {program} --write -->", f"<!-- end of {self.name} -->"
            deliver(program, args, lambda: self.table(read_summary(args.results)), *marks)
            return
        record = {"benchmark": self.name, **circumstances(), **self.measure(args)}
        progress("")
        print(self.table(record))
        if args.out:
            write_summary(args.out, record)

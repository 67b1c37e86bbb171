"""The command line of a benchmark of agent runs: measure files at budgets, and put table and plot into place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import circumstances
from benchmarks.recall.run import budgets
from tinymem.errors import InputError, TinymemError

__all__ = ["Benchmark"]

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of agent runs.

    Attributes:
        program: Its name behind `python -m`.
        about: What its help says.
        form: The name of the form of its results.
        budgets: The tokens at which it measures unless others are given.
        results: The file of its results.
        page: The page of its table.
        marks: What the table stands between there.
        measure: Returns the figures of files at budgets, a record for each file.
        table: Returns the figures as Markdown.
        draw: Draws the plot.
    """

    program: str
    about: str | None
    form: str
    budgets: Sequence[int]
    results: Path
    page: Path
    marks: tuple[str, str]
    measure: Callable[[Sequence[Path], Sequence[int]], list[Record]]
    table: Callable[[Record], str]
    draw: Callable[[Record], None]

    def run(self, given: Sequence[str] | None = None) -> None:
        """Measure, or put table and plot into place."""
        parser = parser_of(self.program, self.about)
        add = parser.add_argument
        add("--data", type=Path, nargs="+", default=[], metavar="FILE", help="haystacks that are agent runs")
        usual = ", ".join(f"{tokens:,}" for tokens in self.budgets)
        add("--budgets", type=budgets, default=self.budgets, metavar="N,N", help=f"tokens (default: {usual})")
        add("--out", type=Path, default=self.results, metavar="RESULTS.json", help="the file to write")
        args = parser.parse_args(given)
        args.page = self.page
        try:
            if args.data:
                sets = self.measure(args.data, args.budgets)
                record = {"format": self.form, "budgets": [*args.budgets], **circumstances(), "sets": sets}
                args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            record = json.loads(args.out.read_text(encoding="utf-8"))
            if args.write:
                self.draw(record)
        except (TinymemError, InputError, OSError) as error:
            sys.exit(f"{self.program}: {error}")
        deliver(self.program, args, lambda: self.table(record), *self.marks)

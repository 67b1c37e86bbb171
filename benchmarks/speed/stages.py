"""Stages of a recall and of a context: milliseconds of CPU that each takes in the calling thread, by medians.

    python -m benchmarks.speed.stages [--sizes 1000,10000] [--asks 40] [--write]

A memory of made steps is asked as in benchmarks.speed.worker: a step is added, then a context and a recall. A stage is
one function; what it spends in another stage counts there. `--write` puts the table into benchmarks/tables/speed.md.
"""

from __future__ import annotations

import functools
import importlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.documents import command_line, placed
from benchmarks.speed.run import sizes
from benchmarks.speed.steps import questions, steps_from
from benchmarks.speed.worker import BUDGET
from tinymem import HierarchicalMemory

__all__ = ["main", "profile", "table"]

START, END = "<!-- stages: python -m benchmarks.speed.stages --write -->", "<!-- end of stages -->"
PAGE = Path(__file__).parents[1] / "tables" / "speed.md"
TOGETHER = 1_000  # steps that are added at once
# The functions of each stage, by module, class where there is one, and name.
STAGES = {
    "embed the new step": ["archive.embedding:EmbeddingQueue.catch_up"],
    "extend the snapshot": ["archive.archive:Archive.current"],
    "filter": ["stores.filter:Filter.mask"],
    "analyse the question": ["archive.embedding:analyse"],
    "full-text search": ["stores.sqlite.passages:SqlitePassages.search_text"],
    "candidates": ["recall.search:gather"],
    "nearest vectors": ["recall.candidates:products"],
    "features": ["recall.fusion:features"],
    "rank": ["recall.fusion:ScoredCandidates.ranked"],
    "read steps": ["archive.archive:Archive.fetch"],
    "pack": ["recall.search:pack"],
    "near-duplicates": ["recall.selection.packing:Repetitions.take"],
    "render": ["recall.selection.packing:_Packer.render"],
    "window": ["window.sending:MessageRenderer.__call__"],
    "follow the journal": ["archive.durable_window:DurableWindow.catch_up"],
    "the rest": ["memory.hierarchy:HierarchicalMemory.context", "memory.hierarchy:HierarchicalMemory.recall"],
}  # fmt: skip


class Clock:
    """The CPU time of each stage, by name, less what the stages inside of it take."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def timed(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` as one that adds its time to the stage."""

        @functools.wraps(call)
        def timed(*args: Any, **named: Any) -> Any:
            self._inside.append(0.0)
            begun = time.thread_time()
            try:
                return call(*args, **named)
            finally:
                whole = time.thread_time() - begun
                self.spent[stage] += whole - self._inside.pop()
                if self._inside:
                    self._inside[-1] += whole

        return timed

    def taken(self) -> dict[str, float]:
        """Return milliseconds by stage, and begin again."""
        taken, self.spent = {stage: 1000 * spent for stage, spent in self.spent.items()}, defaultdict(float)
        return taken


@contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Time all stages inside."""
    undo = []
    for stage, places in STAGES.items():
        for place in places:
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            owner = functools.reduce(getattr, owners, importlib.import_module(f"tinymem.{module}"))
            found = vars(owner)[name]
            is_property = isinstance(found, property)
            made: Any = clock.timed(stage, found.fget if is_property else found)
            undo.append((owner, name, found))
            setattr(owner, name, property(made) if is_property else made)
    try:
        yield
    finally:
        for owner, name, found in undo:
            setattr(owner, name, found)


def profile(size: int, asks: int) -> dict[str, dict[str, float]]:
    """Return for `context` and `recall` the milliseconds of each stage, at so many steps."""
    steps, clock = steps_from(None, size + asks + 1), Clock()
    found: dict[str, list[dict[str, float]]] = {"context": [], "recall": []}
    with (
        tempfile.TemporaryDirectory(prefix="stages-", ignore_cleanup_errors=True) as folder,
        HierarchicalMemory(folder) as memory,
    ):
        while chunk := list(islice(steps, min(TOGETHER, size - memory.stats().steps))):
            memory.add_steps(chunk)
        memory.flush()
        texts = memory.long_term.fetch(range(1, size, max(1, size // 500))).values()
        with watched(clock):
            for text in questions([step.text for step in texts], asks + 1):
                memory.add(next(steps))
                clock.taken()
                memory.context()
                found["context"].append(clock.taken())
                memory.recall(text, BUDGET)
                found["recall"].append(clock.taken())
    return {name: {stage: median(one.get(stage, 0.0) for one in times[1:]) for stage in STAGES}
            for name, times in found.items()}  # fmt: skip


def table(found: dict[int, dict[str, dict[str, float]]]) -> str:
    """The profiles as Markdown: a row for each stage, a column for each call and size."""
    columns = [(call, size) for call in ("context", "recall") for size in found]
    heads = [f"`{call}`, {size:,} steps" for call, size in columns]
    lines = [f"| ms of CPU | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for stage in STAGES:
        values = [found[size][call][stage] for call, size in columns]
        lines.append(f"| {stage} | {' | '.join(f'{value:.2f}' for value in values)} |")
    totals = [sum(found[size][call].values()) for call, size in columns]
    return "\n".join([*lines, f"| all | {' | '.join(f'{total:.1f}' for total in totals)} |"])


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and print the table or put it into place."""
    parser = command_line("benchmarks.speed.stages", __doc__)
    parser.add_argument("--sizes", type=sizes, default=(1_000, 10_000), metavar="N,N", help="steps of the memories")
    parser.add_argument("--asks", type=int, default=40, help="contexts and recalls at each size")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/tables/speed.md")
    args = parser.parse_args(given)
    text = table({size: profile(size, args.asks) for size in args.sizes})
    print(text)
    if args.write:
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), text, START, END), encoding="utf-8")


if __name__ == "__main__":
    main()

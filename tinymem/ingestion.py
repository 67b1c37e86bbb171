"""Adds the runs of files to a memory, with a progress bar for people who watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

from tinymem.base import Step
from tinymem.errors import InputError
from tinymem.progress import bar
from tinymem.readers import read_runs

if TYPE_CHECKING:
    from tinymem.hierarchy import HierarchicalMemory

__all__ = ["Ingested", "ingest_files", "progress"]

BATCH = 64  # steps that are added in one transaction
Advance: TypeAlias = Callable[[int], object]


@dataclass
class Ingested:
    """How far a file came: runs begun, steps added, and what ended it before its end (None: nothing)."""

    file: str
    runs: int = 0
    steps: int = 0
    error: str | None = None


def ingest_files(
    memory: HierarchicalMemory, files: Sequence[Path], advance: Advance = lambda steps: None
) -> list[Ingested]:
    """Add all runs of all files; `advance` hears of every batch of steps that is safe.

    A damaged file ends where the damage is: what stands before it is kept, `error` says where it is, and the next file
    goes on.
    """
    return [_ingest(memory, file, advance) for file in files]


def _ingest(memory: HierarchicalMemory, file: Path, advance: Advance) -> Ingested:
    done = Ingested(str(file))
    try:
        for run in read_runs(file):
            done.runs += 1
            for batch in _batches(run.steps):
                memory.add_steps(batch)
                done.steps += len(batch)
                advance(len(batch))
    except InputError as error:
        done.error = str(error)
    return done


def _batches(steps: Iterator[Step]) -> Iterator[list[Step]]:
    """Batches of BATCH steps; those before a damaged one come first."""
    batch: list[Step] = []
    try:
        for step in steps:
            batch.append(step)
            if len(batch) == BATCH:
                yield batch
                batch = []
    except InputError:
        yield batch
        raise
    yield batch


@contextmanager
def progress(files: Sequence[Path], stream: TextIO) -> Iterator[Advance]:
    """A bar on `stream`, if that is a terminal; the files are then read once before, to know how long it will be."""
    with bar(stream, "ingesting", "steps") as show:
        total = _count(files) if stream.isatty() else None
        done = 0

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            show(done, total)

        yield advance


def _count(files: Sequence[Path]) -> int | None:
    """How many steps the files hold, each up to where it is damaged; None for what can be read only once."""
    if not all(file.is_file() for file in files):
        return None
    total = 0
    for file in files:
        try:
            for run in read_runs(file):
                total += sum(1 for _ in run.steps)
        except InputError:
            continue  # it will be told when it is ingested
    return total

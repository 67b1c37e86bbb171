"""Ingestion of files into a memory, less what it holds already."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tinymem.cli.ingestion.readers import Run, read_runs
from tinymem.errors import InputError
from tinymem.messages.chains import Chained, Chains, Known, known_of, unknown
from tinymem.steps.step import Step
from tinymem.upkeep.progress import Progress, unseen

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Ingested", "ingest_files"]

BATCH = 64  # steps that are added in one transaction
STDIN = Path("-")
Reader: TypeAlias = Callable[[], Iterator[Run]]  # reads the runs of a file from the first one on


@dataclass
class Ingested:
    """The outcome for one file: runs begun, steps added, steps known before, and the error that ended it early."""

    file: str
    runs: int = 0
    steps: int = 0
    known: int = 0
    error: str | None = None


def ingest_files(memory: HierarchicalMemory, files: Sequence[Path], progress: Progress = unseen) -> list[Ingested]:
    """Add all runs of all files; `-` is standard input.

    If a file was added before, or a shorter version of it, only what is new is added, session by session; so an
    interrupted ingestion goes on where it stopped. What was forgotten of a session stays forgotten as long as a later
    step of the session is there. A damaged file is read up to the damage, which `error` names; then comes the next
    file.
    """
    done: list[Ingested] = []
    for file in files:
        done.append(Ingested(str(file)))
        try:
            for _ in _ingest(memory, file, done[-1]):
                progress(sum(one.steps + one.known for one in done), None)
        except InputError as error:
            done[-1].error = str(error)
    return done


def _ingest(memory: HierarchicalMemory, file: Path, done: Ingested) -> Iterator[None]:
    """Add a file, and yield whenever a batch of steps is safe."""
    with _readable(file) as runs:
        known = _known(memory, runs)
        chains = Chains(memory.as_kept)
        for run in runs():
            done.runs += 1
            for batch in _batches(run.steps):
                added = _add(memory, list(unknown(map(chains.place, batch), known)))
                done.steps += added
                done.known += len(batch) - min(added, len(batch))
                yield


def _known(memory: HierarchicalMemory, runs: Reader) -> Known:
    """Find how far the memory holds each session of a file already."""
    journal = memory.long_term.journal
    return known_of(_chain(memory, runs), journal.held) if journal.next_number() > 1 else Known()


def _chain(memory: HierarchicalMemory, runs: Reader) -> Iterator[Chained]:
    """Yield the steps of all runs up to the first damage, with their links."""
    chains = Chains(memory.as_kept)
    try:
        for run in runs():
            yield from map(chains.place, run.steps)
    except InputError:
        return  # reported once the steps before it are added


def _add(memory: HierarchicalMemory, steps: list[Step]) -> int:
    """Add steps, less those that another process adds at the same time; return how many."""
    while steps:
        try:
            return len(memory.add_steps(steps))
        except InputError:
            held = memory.long_term.journal.held([step.id for step in steps])
            if not held:
                raise
            steps = [step for step in steps if step.id not in held]
    return 0


def _batches(steps: Iterator[Step]) -> Iterator[list[Step]]:
    """Group steps into batches of BATCH; yield the steps before a damaged one, then fail."""
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
def _readable(file: Path) -> Iterator[Reader]:
    """Return the reader of a file; a pipe, which can be read only once, is copied to a private file first."""
    if file.is_file() or (file.is_dir() and file != STDIN):
        yield partial(read_runs, file)
        return
    with tempfile.TemporaryFile() as copy:
        try:
            if file == STDIN:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with file.open("rb") as stream:
                    shutil.copyfileobj(stream, copy)
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}") from error

        def again() -> Iterator[Run]:
            copy.seek(0)
            return read_runs("stdin" if file == STDIN else file, copy)

        yield again

"""Ingestion of files into a memory, less what it holds already."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

from tinymem.errors import InputError
from tinymem.messages.recognition import Arrival, Node, new_of
from tinymem.protocols.rows import LinkRow
from tinymem.runs.readers import Run, read_runs
from tinymem.steps.progress import Progress, no_progress

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Ingested", "add_run", "ingest_files", "is_being_written", "is_json"]

BATCH = 64  # steps that are added in one transaction
STDIN = Path("-")


@dataclass
class Ingested:
    """The outcome for one file.

    Attributes:
        file: Its name.
        runs: The runs begun.
        steps: The steps added.
        known: The steps known before.
        error: The error that ended it early.
        skipped: The lines without a message, by their type.
    """

    file: str
    runs: int = 0
    steps: int = 0
    known: int = 0
    error: str | None = None
    skipped: dict[str, int] = field(default_factory=dict)


def ingest_files(memory: HierarchicalMemory, files: Sequence[Path], progress: Progress = no_progress) -> list[Ingested]:
    """Add all runs of all files; `-` is standard input.

    If a file was added before, or a shorter or older version of it, only what is new is added, session by session; so
    an interrupted ingestion goes on where it stopped, and what was forgotten stays forgotten. A file is read to its end
    before a part of it is added: of a damaged one nothing is, and `error` names the damage; then comes the next file.
    Where only a last line is not whole, since it is being written, what stands before it is added.
    """
    outcomes: list[Ingested] = []
    for file in files:
        outcomes.append(Ingested(str(file)))
        try:
            _ingest(memory, file, outcomes[-1], lambda: progress(sum(one.steps + one.known for one in outcomes), None))
        except InputError as error:
            outcomes[-1].error = str(error)
    return outcomes


def _ingest(memory: HierarchicalMemory, file: Path, done: Ingested, tell: Callable[[], object]) -> None:
    """Check a file, then add it, and `tell` whenever a batch of steps is safe."""
    name = "stdin" if file == STDIN else file
    with _copied(file) if file == STDIN or file.is_fifo() else nullcontext() as copy:
        try:
            for run in read_runs(name, copy):
                if run.fault is not None:
                    raise run.fault
        except InputError:
            if not is_being_written(copy or file):
                raise
        if copy is not None:
            copy.seek(0)
        for run in read_runs(name, copy):
            done.skipped |= run.skipped
            add_run(memory, run, done, tell=tell)


@contextmanager
def _copied(pipe: Path) -> Iterator[BinaryIO]:
    """Give what comes out of a pipe as a file that can be read twice."""
    with TemporaryFile() as copy:
        try:
            with nullcontext(sys.stdin.buffer) if pipe == STDIN else pipe.open("rb") as stream:
                shutil.copyfileobj(stream, copy)
            copy.seek(0)
        except OSError as error:
            raise InputError(f"{pipe} cannot be read: {error.strerror or error}") from error
        yield copy


def is_being_written(file: Path | BinaryIO) -> bool:
    """Return True for JSON lines of which only the last one is not whole."""
    try:
        with file.open("rb") if isinstance(file, Path) else nullcontext(file) as stream:
            stream.seek(0)
            first = last = stream.readline()
            for last in stream:
                first = first if first.strip() else last
    except (OSError, ValueError):  # ValueError: a path with NUL
        return False
    return (is_json(first) or first == last) and not last.endswith(b"\n") and not is_json(last)


def is_json(line: bytes) -> bool:
    """Return True for a JSON value other than null."""
    try:
        return json.loads(line) is not None
    except (ValueError, RecursionError):
        return False


def add_run(
    memory: HierarchicalMemory,
    run: Run,
    done: Ingested,
    before: Sequence[Node] = (),
    tell: Callable[[], object] = lambda: None,
) -> str | None:
    """Add what is new of a run, which goes on behind the messages `before`, and `tell` whenever a batch is safe.

    Returns:
        The link of its last message.

    Raises:
        InputError: The run ends early; the steps before that were added.
    """
    done.runs += 1
    new, link = new_of(run.steps, memory.apply_redaction, memory.short_term, before)
    done.known += max(len(run.steps) - len(new), 0)
    for at in range(0, len(new), BATCH):
        batch = new[at : at + BATCH]
        added = _add(memory, batch)
        done.steps += added
        done.known += len(batch) - added
        tell()
    if run.fault is not None:
        raise run.fault
    return link


def _add(memory: HierarchicalMemory, new: Sequence[Arrival]) -> int:
    """Add steps, less those that another process adds at the same time, then keep their links; return how many."""
    added = memory.add_steps([one.step for one in new], on_conflict="skip")
    numbers = {step.id: step.step_number or 0 for step in added}
    links = [(linked, numbers[one.step.id]) for one in new if one.step.id in numbers for linked in one.links]
    memory.long_term.journal.put_links(
        [LinkRow(one.link, one.said, number, number if one.place is None else one.place) for one, number in links]
    )
    return len(added)

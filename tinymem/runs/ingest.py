"""Ingestion of files into a memory, less what it holds already."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tinymem.errors import InputError
from tinymem.messages.recognition import Arrival
from tinymem.runs.exports.folders import files_below, holds_export, unread
from tinymem.runs.lineage import Lineage, name_run
from tinymem.runs.readers import Run, read_runs
from tinymem.steps.progress import Progress, no_progress

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Ingested", "add_run", "ingest_files"]

KINDS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
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
        left_out: The number of lines, messages and notes that were left out, by their kind.
    """

    file: str
    runs: int = 0
    steps: int = 0
    known: int = 0
    error: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)


def ingest_files(memory: HierarchicalMemory, files: Sequence[Path], progress: Progress = no_progress) -> list[Ingested]:
    """Add all runs of all files; `-` is standard input, and a folder means the files of JSON in it and below.

    If a file was added before, or a shorter or older version of it, only what is new is added, session by session; so
    an interrupted ingestion goes on where it stopped, and what was forgotten stays forgotten. A damaged line or message
    is left out and named. Where a file cannot be read any further, `error` says so; then comes the next file.
    """
    outcomes: list[Ingested] = []

    def tell() -> None:
        progress(sum(outcome.steps + outcome.known for outcome in outcomes), None)

    for path in files:
        inside, left = _files_in(path)
        if left:
            outcomes.append(Ingested(str(path), left_out=left))
        for file in inside:
            outcomes.append(done := Ingested(str(file)))
            raw = sys.stdin.buffer if file == STDIN else None
            try:
                for run in read_runs("stdin" if raw else file, raw, done.left_out):
                    add_run(memory, run, done, tell=tell)
            except InputError as error:
                done.error = str(error)
    return outcomes


def _files_in(path: Path) -> tuple[list[Path], Counter[str]]:
    """Return the files of JSON in a folder that is no export, and the count of others; else the path itself."""
    names, links = files_below(path) if path.is_dir() else ([], [])
    found = [name for name in names if name.endswith(KINDS)]
    if not found or holds_export(names):
        return [path], Counter()
    return [path / name for name in found], unread({*names} - {*found}, links)


def add_run(memory: HierarchicalMemory, run: Run, done: Ingested, tell: Callable[[], object] = lambda: None) -> None:
    """Add what is new of a run, and `tell` whenever a batch is safe."""
    done.runs += 1
    run = name_run(memory, run)
    lineage = Lineage(memory, run)
    new = lineage.new
    done.known += max(len(run.steps) - len(new), 0)
    first = 0
    for begin in range(0, len(new), BATCH):
        batch = new[begin : begin + BATCH]
        added = _add(memory, batch, lineage)
        first = first or min(added, default=0)
        done.steps += len(added)
        done.known += len(batch) - len(added)
        tell()
    if rows := [*lineage.rows_of_run(first)]:
        memory.long_term.journal.messages.put(rows)


def _add(memory: HierarchicalMemory, new: Sequence[Arrival], lineage: Lineage) -> list[int]:
    """Add steps, less those that are there already, then keep their messages; return the numbers of what was added."""
    added = memory.add_steps([arrival.step for arrival in new], on_conflict="skip")
    journal = memory.long_term.journal
    numbers = journal.numbers([arrival.step.id for arrival in new])  # also of a process that was killed before this
    rows = [lineage.rows_of(arrival, numbers[arrival.step.id]) for arrival in new if arrival.step.id in numbers]
    journal.messages.put([*chain.from_iterable(rows)])
    return [step.step_number or 0 for step in added]

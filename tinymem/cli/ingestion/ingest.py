"""Ingestion of files into a memory, less what it holds already."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tinymem.cli.ingestion.readers import read_runs
from tinymem.errors import InputError
from tinymem.messages.chains import Chained, Chains, known_of, unknown
from tinymem.steps.step import Step
from tinymem.upkeep.progress import Progress, unseen

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Ingested", "ingest_files"]

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
    held, chains = memory.long_term.journal.held, Chains(memory.as_kept)
    for run in read_runs("stdin", sys.stdin.buffer) if file == STDIN else read_runs(file):
        done.runs += 1
        done.skipped |= run.skipped
        chain: list[Chained] = []
        fault: InputError | None = None
        try:
            for step in run.steps:
                chain.append(chains.place(step))
        except InputError as error:
            fault = error  # reported once the steps before it are added
        known = known_of(chain, held)
        for at in range(0, len(chain), BATCH):
            batch = chain[at : at + BATCH]
            added = _add(memory, list(unknown(batch, known)))
            done.steps += added
            done.known += len(batch) - min(added, len(batch))
            yield
        if fault is not None:
            raise fault


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

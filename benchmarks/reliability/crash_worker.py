"""A process that the crash benchmark kills: it works on a memory, and tells what it began, and what has returned."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tinymem.archive.embedding
import tinymem.archive.indexing.indexing
from tinymem import ActionStep, HierarchicalMemory, MessageStep, Step
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderMismatchError
from tinymem.protocols import Journal
from tinymem.protocols.settings import EMBEDDER, MADE

__all__ = ["EMBEDDERS", "TOKENS", "Ledger", "Worker", "embedded_until", "opened", "read_ledger", "word"]

FILLER = ("It was", "opened", "and", "cleaned", "as", "the manual", "has it.", "Closed", "again", "by", "shift", "four")
TOKENS = 300  # of a context; the window has half of it, so that steps leave it all the time

EMBEDDERS = HashingEmbedder(64), HashingEmbedder(48)  # a memory has one of them


def opened(folder: Path, store: str, **more: Any) -> HierarchicalMemory:
    """The memory in `folder`, as all processes here open it; a Chroma is filled and asked, however little there is."""
    more |= {"store": store, "max_tokens": TOKENS}
    try:
        memory = HierarchicalMemory(folder, embedder=EMBEDDERS[0], **more)
    except EmbedderMismatchError:  # it was reindexed
        memory = HierarchicalMemory(folder, embedder=EMBEDDERS[1], **more)
    memory._scratchpad.most_notes = sys.maxsize  # or the oldest notes would become steps that no ledger has
    return memory


def word(id: str) -> str:
    """The word that only the step with this id says."""
    return f"event{id.replace('-', '')}"


class Worker:
    """A process that works on a memory until it is killed, and its ledger: one JSON list a line, by `write`, which a
    kill cannot undo. `name` begins the ids of its steps."""

    def __init__(self, folder: Path, file: Path, name: str, seed: str) -> None:
        self.folder, self.dice, self._name = folder, random.Random(seed), name
        self._ledger = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._made, self.held = 0, list[str]()
        self.memory: HierarchicalMemory

    def tell(self, *what: Any) -> None:
        """Write a line into the ledger."""
        os.write(self._ledger, (json.dumps(what) + "\n").encode())

    def open(self, store: str) -> None:
        """Open the memory; `held` are the ids of its steps."""
        tinymem.archive.indexing.indexing.WAITING, tinymem.archive.embedding.BATCH = 2_000, 8
        tinymem.archive.indexing.indexing.IDLE = 0.02  # so that the background is nearly always at work
        self.memory = opened(self.folder, store)
        self.held = [row.id for row in self.memory.long_term.journal.rows(limit=1_000_000)]

    def work(self, operation: Callable[[Worker], None]) -> None:
        """Do it until the kill comes."""
        while True:
            self.tell("begin")
            operation(self)
            self.tell("end")

    def id(self) -> str:
        """A new id."""
        self._made += 1
        return f"{self._name}-{self._made:05}"

    def steps(self, count: int) -> list[Step]:
        """New steps of several kinds; one in eight is long enough to have many passages and overflowing pages."""
        return [self._step() for _ in range(count)]

    def _step(self) -> Step:
        id, session = self.id(), f"s{self.dice.randrange(9)}"
        text = f"{word(id)}: pump {self.dice.randrange(50)} reached {self.dice.randrange(977)} bar."
        if self.dice.randrange(8) == 0:
            text += " " + " ".join(self.dice.choices(FILLER, k=700))
        if self.dice.randrange(3) == 0:
            return ActionStep("Look.", tool_name="look", observation=text, id=id, session=session)
        return MessageStep("user", text, id=id, session=session)

    def add(self, steps: Sequence[Step], add: Callable[[Sequence[Step]], Sequence[Step]] | None = None) -> None:
        """Add steps in one transaction: announced before, acknowledged after."""
        self.tell("adding", [step.id for step in steps])
        added = (add or self.memory.add_steps)(steps)
        self.tell("added", {step.id: step.step_number for step in added})
        self.held += [step.id for step in added]


@dataclass
class Ledger:
    """The ledger of one killed process: its lines, and whether the kill interrupted an operation."""

    lines: list[list[Any]]

    @property
    def inside(self) -> bool:
        """True if the kill interrupted an operation."""
        kinds = [line[0] for line in self.lines if line[0] in ("begin", "end")]
        return bool(kinds) and kinds[-1] == "begin"

    def lines_of(self, kind: str) -> list[list[Any]]:
        """The lines of this kind."""
        return [line for line in self.lines if line[0] == kind]

    def of(self, kind: str) -> list[Any]:
        """Return the contents of the lines of this kind."""
        return [line[1] for line in self.lines_of(kind)]


def read_ledger(file: Path) -> Ledger:
    """Read a ledger, without a line that the kill cut off."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    return Ledger([json.loads(line) for line in lines if line.endswith("\n")])


def embedded_until(journal: Journal) -> int:
    """Return the number of the first step that is not embedded whole."""
    waiting = journal.passages(journal.last_passage(), 1, lacking=journal.setting(EMBEDDER) or "")
    return waiting[0].step if waiting else int(journal.setting(MADE) or 1)

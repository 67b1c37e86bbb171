"""What benchmarks.crash kills: one function for each kind of operation, done again and again until SIGKILL comes.

Each tells the ledger what it is about to do, and what has returned: what was told to have returned must be true ever
after. To have another kind killed, write such a function and give it a line in OPERATIONS; if what it promises is not
checked yet, a line in benchmarks/crash_check.py too.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tinymem.archive
import tinymem.indexing
from tinymem import (
    ActionStep,
    ExtractiveSummarizer,
    FinalAnswerStep,
    HierarchicalMemory,
    MessageStep,
    Step,
    TaskStep,
    keep_last_n_steps,
)
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.stores.exact import ExactStore

__all__ = ["OPERATIONS", "Operation", "Worker", "opened", "read_ledger", "word"]

FILLER = ("It was", "opened", "and", "cleaned", "as", "the manual", "has it.", "Closed", "again", "by", "shift", "four")
TOKENS = 300  # of a context; the window has half of it, so that steps leave it all the time


def opened(folder: Path, store: str, **more: Any) -> HierarchicalMemory:
    """The memory in `folder`, as all processes here open it; a Chroma is filled and asked, however little there is."""
    named = ExactStore() if store == "exact" else store  # objects, since names are looked up in installed packages
    adapters: dict[str, Any] = {"embedder": HashingEmbedder(64), "summarizer": ExtractiveSummarizer(), "store": named}
    memory = HierarchicalMemory(folder, max_tokens=TOKENS, **adapters, **more)
    if store == "chroma":
        memory.long_term._exact_up_to = 0
    return memory


def word(id: str) -> str:
    """The word that only the step with this id says."""
    return f"event{id.replace('-', '')}"


class Worker:
    """A process that works on a memory until it is killed, and what it told: one JSON list a line, by `write`, which a
    kill cannot undo. `name` begins the ids of its steps."""

    def __init__(self, folder: Path, ledger: Path, name: str, seed: str) -> None:
        self.folder, self.dice, self._name = folder, random.Random(seed), name
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._made, self.held = 0, list[str]()
        self.memory: HierarchicalMemory

    def tell(self, *what: Any) -> None:
        """Write a line into the ledger."""
        os.write(self._ledger, (json.dumps(what) + "\n").encode())

    def open(self, store: str) -> None:
        """Open the memory; `held` are the ids of its steps."""
        tinymem.archive.WAITING, tinymem.archive.BATCH, tinymem.indexing.BATCH = 2_000, 8, 8
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
        self.tell("added", {step.id: step.number for step in added})
        self.held += [step.id for step in added]


def _add(worker: Worker) -> None:
    worker.add(worker.steps(worker.dice.choice([1, 1, 1, 2, 5])))


def _prune(worker: Worker) -> None:
    """Steps leave the window by a strategy, and some of them are put back."""
    worker.add(worker.steps(6))
    report = worker.memory.short_term.prune(keep_last_n_steps(worker.dice.randrange(1, 5)))
    worker.memory.stats()  # writes the window down
    if worker.dice.randrange(3) == 0:
        worker.memory.restore(report)
    worker.memory.context("pump 7")


def _archive(worker: Worker) -> None:
    """Steps that pass the window by, or do not, get passages, terms and vectors."""
    worker.add(worker.steps(12), worker.memory.archive if worker.dice.randrange(2) else None)
    worker.memory.long_term.embed_pending()
    worker.tell("embedded", worker.memory.long_term.journal.mark.step)


def _index(worker: Worker) -> None:
    """Vectors go into Chroma, batch by batch."""
    worker.add(worker.steps(20))
    worker.memory.long_term.embed_pending()
    worker.memory.long_term.index.follow()
    worker.tell("indexed", worker.memory.long_term.index.watermark)


def _forget(worker: Worker) -> None:
    """Steps are forgotten by their ids or by session; now and then there are new ones to forget."""
    if len(worker.held) < 12:
        worker.add(worker.steps(12))
        worker.memory.long_term.embed_pending()
    if worker.dice.randrange(6) == 0:
        session = f"s{worker.dice.randrange(9)}"
        rows = worker.memory.long_term.journal.rows(limit=1_000_000)
        ids, given = [row.id for row in rows if row.session == session], {"session": session}
    else:
        ids = worker.dice.sample(worker.held, worker.dice.randint(1, 3))
        given = {"ids": ids}  # type: ignore[dict-item]
    worker.tell("forgetting", ids)
    worker.memory.forget(**given)  # type: ignore[arg-type]
    worker.tell("forgotten", ids)
    worker.held = [id for id in worker.held if id not in ids]


def _episodes(worker: Worker) -> None:
    """Tasks are begun and ended, and what they were is summarised."""
    task, answer = (kind(f"{word(id := worker.id())} the pump.", id=id) for kind in (TaskStep, FinalAnswerStep))
    worker.add([task, *worker.steps(worker.dice.randrange(5)), answer])
    worker.memory.short_term.prune(keep_last_n_steps(1))
    worker.memory.stats()
    worker.memory.medium_term.settle()
    worker.tell("summarised", len(list(worker.memory.medium_term)))


def _scratchpad(worker: Worker) -> None:
    """Values and observations are noted."""
    note = worker.id()
    worker.tell("noting", note)
    worker.memory.scratchpad.observe(note)
    worker.tell("noted", note)
    worker.memory.scratchpad.store("newest", {"note": note, "words": ("pump", 7.5)})


def _mark(worker: Worker) -> None:
    """Steps become milestones."""
    if not worker.held:
        worker.add(worker.steps(5))
    id = worker.dice.choice(worker.held)
    worker.memory.mark(id)
    worker.tell("marked", id)


def _make(worker: Worker) -> None:
    """Memories are made, get a step, and are closed, which embeds it."""
    place = worker.folder.with_name(f"made-{worker.id()}")
    worker.tell("making", place.name)
    worker.memory = opened(place, "exact")
    worker.add(worker.steps(1))
    worker.memory.close()
    worker.tell("made", place.name)


class Operation(NamedTuple):
    """What is done, and how many seconds of it may go by before the kill. It is done on a memory of its `store`, opened
    before unless it `opens` one itself."""

    work: Callable[[Worker], None]
    longest: float = 0.06
    store: str = "exact"
    opens: bool = False


OPERATIONS = {
    "add": Operation(_add),
    "prune": Operation(_prune, 0.15),
    "archive": Operation(_archive, 0.15),
    "forget": Operation(_forget, 0.1),
    "summarise episodes": Operation(_episodes, 0.12),
    "update the scratchpad": Operation(_scratchpad, 0.03),
    "mark milestones": Operation(_mark, 0.03),
    "make a memory": Operation(_make, 0.2, opens=True),
    "index": Operation(_index, 0.8, "chroma"),
    "forget with an index": Operation(_forget, 0.8, "chroma"),
}


@dataclass
class Told:
    """What one killed process told: all lines, and whether the kill hit it in the middle of an operation."""

    lines: list[list[Any]]

    @property
    def inside(self) -> bool:
        """Whether an operation had begun that had not ended."""
        kinds = [line[0] for line in self.lines if line[0] in ("begin", "end")]
        return bool(kinds) and kinds[-1] == "begin"

    def of(self, kind: str) -> list[Any]:
        """What was told with lines of this kind."""
        return [line[1] for line in self.lines if line[0] == kind]


def read_ledger(ledger: Path) -> Told:
    """What was told; a line that the kill cut off was not."""
    lines = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
    return Told([json.loads(line) for line in lines if line.endswith("\n")])

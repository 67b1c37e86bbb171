"""The operations that the crash benchmark kills: a function for each, repeated until SIGKILL comes.

Each tells the ledger what it is about to do, and what has returned: what was reported as returned must be true ever
after. To have another kind killed, write such a function and give it a line in OPERATIONS; if what it promises is not
checked yet, a line in benchmarks/reliability/crash_check.py too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from benchmarks.reliability.crash_worker import EMBEDDERS, Worker, embedded_until, opened, word
from tinymem import FinalAnswerStep, Retention, TaskStep, keep_last_n_steps
from tinymem.upkeep import import_memory, reindex
from tinymem.upkeep.diagnosis import rebuild

__all__ = ["OPERATIONS", "Operation"]


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
    worker.memory.long_term.queue.embed_pending()
    worker.tell("embedded", embedded_until(worker.memory.long_term.journal))


def _index(worker: Worker) -> None:
    """Vectors go into Chroma, batch by batch."""
    worker.add(worker.steps(20))
    worker.memory.long_term.queue.embed_pending()
    worker.memory.long_term.index.follow()
    worker.tell("indexed", worker.memory.long_term.index.notes.passage)


def _flush(worker: Worker) -> None:
    """The background embeds, summarises and indexes while steps come, and is then waited for."""
    for _ in range(worker.dice.randrange(1, 5)):
        worker.add(worker.steps(worker.dice.randrange(1, 12)))
    if worker.dice.randrange(2):
        time.sleep(worker.dice.random() / 10)  # it is alone at work
    worker.memory.flush()
    worker.tell("embedded", embedded_until(worker.memory.long_term.journal))
    worker.tell("summarised", len(worker.memory.medium_term.known()))
    worker.tell("indexed", worker.memory.long_term.index.notes.passage)


def _forget(worker: Worker) -> None:
    """Steps are forgotten by their ids or by session; now and then there are new ones to forget."""
    if len(worker.held) < 12:
        worker.add(worker.steps(12))
        worker.memory.long_term.queue.embed_pending()
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
    worker.memory.scratchpad.store("newest", {"note": note, "words": ["pump", 7.5]})


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


def _retain(worker: Worker) -> None:
    """A retention takes what is over its limits."""
    worker.add(worker.steps(12), worker.memory.archive)
    limits = Retention(max_age=timedelta(hours=9), max_steps=40)
    ids = [*worker.memory.retain(limits, dry_run=True).removed]
    worker.tell("forgetting", ids)
    worker.memory.retain(limits)
    worker.tell("forgotten", ids)
    worker.held = [id for id in worker.held if id not in ids]


def _reindex(worker: Worker) -> None:
    """The memory gets another embedder."""
    worker.open("exact")
    worker.add(worker.steps(12))
    worker.memory.close()
    other = EMBEDDERS[worker.memory.long_term.queue.embedder is EMBEDDERS[0]]
    worker.tell("reindexing", other.fingerprint)
    reindex(worker.folder, other, store="exact")
    worker.tell("reindexed", other.fingerprint)


def _rebuild(worker: Worker) -> None:
    """Rebuild Chroma's files."""
    worker.open("chroma")
    worker.add(worker.steps(12))
    worker.memory.close()
    worker.tell("rebuilding")
    rebuild(worker.folder)
    worker.tell("rebuilt")


def _export(worker: Worker) -> None:
    """The memory is written into a file."""
    worker.add(worker.steps(3))
    place = worker.folder.with_name(f"export-{worker.id()}.jsonl")
    worker.tell("exporting", place.name, len(worker.held))
    worker.memory.export(place)
    worker.tell("exported", place.name)


def _import(worker: Worker) -> None:
    """The memory becomes another one, through a file."""
    worker.add(worker.steps(3))
    place = worker.folder.with_name(f"import-{worker.id()}")
    worker.memory.export(file := place.with_suffix(".jsonl"))
    worker.tell("importing", place.name, len(worker.held))
    import_memory(place, file, embedder=EMBEDDERS[0])
    worker.tell("imported", place.name)


class Operation(NamedTuple):
    """A kind of work, and the most seconds of it before the kill. It runs on a memory with its `store`, opened
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
    "flush": Operation(_flush, 0.8, "chroma"),
    "forget with an index": Operation(_forget, 0.8, "chroma"),
    "retain": Operation(_retain, 0.15),
    "reindex": Operation(_reindex, 0.25, opens=True),
    "rebuild": Operation(_rebuild, 1.2, "chroma", opens=True),
    "export": Operation(_export, 0.1),
    "import": Operation(_import, 0.2),
}

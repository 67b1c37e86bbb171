"""The crash benchmark's checks of a memory whose process was killed: all that was reported as done is there."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.crash_copies import of_copies
from benchmarks.reliability.crash_worker import TOKENS, Ledger, embedded_until, opened, word
from tinymem import HierarchicalMemory, MessageStep
from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.mirror import hold_folder
from tinymem.archive.rows import has_archived
from tinymem.errors import InputError, TinymemError
from tinymem.messages import problems
from tinymem.protocols import Journal
from tinymem.recall.passages import passages_of
from tinymem.steps.step import load_step
from tinymem.stores import ChromaStore

__all__ = ["Expected", "check"]

ALL = 1_000_000
SAMPLE = 5  # steps that are recalled, and forgotten ones that are looked for, after each kill
NEIGHBOURS = 20  # vectors that the index is asked for,
PATIENCE = 60.0  # seconds for the process of a program that was killed to let go of the index
FOUND = 0.8  # and how many of them it must find: it is approximate


@dataclass
class Expected:
    """The expected state of a memory, by all ledgers so far, and by its contents after earlier kills."""

    steps: dict[str, int] = field(default_factory=dict)  # id -> number, in the order they were acknowledged
    gone: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    marked: set[str] = field(default_factory=set)
    last: Ledger = field(default_factory=lambda: Ledger([]))  # by the process that was killed just now

    def read(self, ledger: Ledger) -> None:
        """Add the ledger of the next killed process."""
        self.last = ledger
        if ledger.of("making"):
            return  # of other memories
        for some in ledger.of("added"):
            self.steps |= some
        self.gone += [id for ids in ledger.of("forgotten") for id in ids]
        for id in self.gone:
            self.steps.pop(id, None)
        self.notes += ledger.of("noted")
        self.marked |= {*ledger.of("marked")}

    def begun(self, begin: str, end: str) -> Any:
        """Return the operation that was begun and not acknowledged, or None."""
        begun, ended = self.last.of(begin), self.last.of(end)
        return begun[-1] if len(begun) > len(ended) else None

    def see(self, held: dict[str, int], notes: list[str]) -> None:
        """Hold fast what was found: a step that is there, or is gone, without an answer to say so."""
        self.gone += [id for id in self.steps if id not in held]
        self.steps, self.notes = held, notes


def check(folder: Path, store: str, expected: Expected, seed: str) -> tuple[list[str], dict[str, int], list[str]]:
    """Check the memory in `folder`; return what is wrong, its steps, and the notes of its scratchpad."""
    if (made := expected.last.of("making")) and (place := folder.with_name(made[-1])):
        return list(_of_made(place, expected)), {}, []
    wrong = list(_left_of(expected.gone[-50:], folder))
    with opened(folder, store) as memory:
        journal, dice = memory.long_term.journal, random.Random(seed)
        for found in (
            _of_steps(journal, expected), _of_passages(memory, expected), _of_window(memory),
            _of_marks(journal, expected), _of_notes(memory, expected), _of_episodes(memory, expected),
            _of_index(memory, store, expected, dice), _of_recall(memory, expected, dice), _of_files(journal),
            _of_embedder(memory, expected), of_copies(folder, expected.last),
        ):  # fmt: skip
            try:
                wrong += found
            except TinymemError as error:
                wrong.append(f"{type(error).__name__}: {error}")
        held = {row.id: row.number for row in journal.rows(limit=ALL)}
        return wrong, held, [*memory.scratchpad.observations]


def _of_steps(journal: Journal, expected: Expected) -> Iterator[str]:
    """Each acknowledged step once, under its number, in order; of what was under way, all or nothing."""
    ids = [row.id for row in journal.rows(limit=ALL)]
    held = {row.id: row.number for row in journal.rows(limit=ALL)}
    if len(held) < len(ids):
        yield "a step is there twice"
    adding, forgetting = expected.begun("adding", "added") or [], expected.begun("forgetting", "forgotten") or []
    for what, some in (("added", adding), ("forgotten", [id for id in forgetting if id in expected.steps])):
        if len({id in held for id in some}) > 1:
            yield f"a batch was {what} in part: {some}"
    for id, number in expected.steps.items():
        if held.get(id) != number and id not in forgetting:
            yield f"step {id} had number {number}, and now {held.get(id)}"
    if strange := [id for id in held if id not in expected.steps and id not in adding]:
        yield f"steps that nobody added, or that were forgotten: {strange[:9]}"
    order = [id for id in ids if id in expected.steps]
    if order != [id for id in expected.steps if id in held]:
        yield "steps are not in the order in which they were added"
    if held and journal.next_number() <= max(held.values()):
        yield f"number {journal.next_number()} would be given twice"


def _of_window(memory: HierarchicalMemory) -> Iterator[str]:
    """It shows what the journal says, in order, and gives a context that the chat APIs take."""
    rows = [row.number for row in memory.long_term.journal.rows(limit=ALL) if row.window]
    shown = [step.step_number for step in memory.short_term.steps]
    if shown != rows:
        yield f"the window shows {shown}, and the journal has {rows}"
    context = memory.context("pump 7")
    if context.tokens > TOKENS:
        yield f"a context has {context.tokens} tokens"
    yield from problems(context.messages)


def _of_marks(journal: Journal, expected: Expected) -> Iterator[str]:
    for row in journal.rows(limit=ALL):
        if row.id in expected.marked and not row.milestone:
            yield f"step {row.id} was made a milestone, and is none"


def _of_notes(memory: HierarchicalMemory, expected: Expected) -> Iterator[str]:
    notes, under_way = memory.scratchpad.observations, expected.begun("noting", "noted")
    if notes not in (expected.notes, [*expected.notes, under_way]):
        yield f"the scratchpad has {notes[-3:]}, not {expected.notes[-3:]}"
    newest = memory.scratchpad.recall("newest")
    if newest is not None and newest != {"note": newest["note"], "words": ["pump", 7.5]}:
        yield f"a value of the scratchpad is {newest}"


def _of_passages(memory: HierarchicalMemory, expected: Expected) -> Iterator[str]:
    """Passages, full text and vectors are those of the steps: each once, in order, those embedded and then all."""
    archive = memory.long_term
    journal = archive.journal
    steps = [load_step(row.record) for row in journal.rows(limit=ALL)]
    passages = [(step.step_number or 0, passage) for step in steps for passage in passages_of(step)]
    until, told = embedded_until(journal), expected.last.of("embedded")
    if told and until < told[-1]:
        yield "what was embedded is not any more"
    places = [(number, p.part, p.start, p.end) for number, p in passages]
    before = [place for place in places if place[0] < until]
    if [row[1:5] for row in journal.passages(limit=ALL)][: len(before)] != before:
        yield "the passages that are embedded are not those of the steps"
    archive.queue.embed_pending()
    rows = journal.passages(limit=ALL)
    if [row[1:5] for row in rows] != places:
        yield "passages are not those of the steps"
    if (terms := journal.maintenance.check_terms()).fault or terms.passages != len(rows):
        yield f"full text and passages differ: {terms}"
    vectors = archive.queue.embedder.embed_documents([p.text for _, p in passages]).astype("<f2")
    if b"".join(row.vector for row in rows) != vectors.tobytes():
        yield "vectors are not those of the passages"
    if len(archive.current()) != len(rows) or memory.stats().waiting_steps:
        yield "something is not embedded"


def _of_episodes(memory: HierarchicalMemory, expected: Expected) -> Iterator[str]:
    """Summaries do not overlap, none is lost, and none is made twice."""
    before = memory.long_term.journal.summaries.all()
    memory.medium_term.settle()
    after = memory.long_term.journal.summaries.all()
    if not set(before) <= set(after):
        yield "a summary was replaced"
    for one, other in pairwise(after):
        if one.last >= other.first:
            yield f"two summaries tell of step {other.first}"
    known = expected.last.of("summarised")
    if known and len([row for row in before if row.text]) < known[-1]:
        yield "a summary is lost"


def _of_index(memory: HierarchicalMemory, store: str, expected: Expected, dice: random.Random) -> Iterator[str]:
    """It goes on, and holds each vector once."""
    archive = memory.long_term
    if store != "chroma" or not has_archived(archive.journal):
        return  # it begins with the first archived step, which a kill between an add and its pruning leaves undone
    memory.flush()
    catalog = archive.current()
    rows = dice.sample(range(len(catalog)), min(NEIGHBOURS, len(catalog)))
    archive.index.close()
    with hold_folder(archive.folder / INDEX, PATIENCE), closing(ChromaStore(archive.folder / INDEX)) as index:
        held = index._get_collection().get(include=["embeddings"])
        nearest = [index.query(catalog.vectors[row], 1)[1] for row in rows]
    vectors = dict(zip(map(int, held["ids"]), held["embeddings"], strict=True))
    if len(held["ids"]) != len(catalog) or sorted(vectors) != catalog.id.tolist():
        yield f"the index holds {len(held['ids'])} vectors, and there are {len(catalog)} passages"
    elif not all(np.allclose(vectors[id], catalog.vectors[row], atol=1e-2) for row, id in enumerate(catalog.id)):
        yield "the index holds other vectors than the journal"
    if rows and np.mean([len(cosines) and np.isclose(cosines[0], 1, atol=1e-2) for cosines in nearest]) < FOUND:
        yield f"of passages {rows}, too many do not find themselves in the index"


def _of_recall(memory: HierarchicalMemory, expected: Expected, dice: random.Random) -> Iterator[str]:
    """Acknowledged steps are found by what only they say, and forgotten ones by nothing."""
    known = memory.long_term.journal.numbers([*expected.steps])
    held = [id for id in expected.steps if id in known]
    for id in {*dice.sample(held, min(SAMPLE, len(held))), *held[-1:]}:
        when = memory.get(id).timestamp
        found = memory.recall(word(id), 1_500, since=when, until=when)
        if id not in [excerpt.step.id for excerpt in found.items]:
            yield f"step {id} is not recalled"
        ids = {place.id for place in memory.long_term.journal.passages(step=memory.get(id).step_number or 0)}
        if not {*memory.long_term.journal.search_text(word(id)).ids.tolist()} & ids:
            yield f"step {id} is not in the full text"
    for id in dice.sample(expected.gone, min(SAMPLE, len(expected.gone))):
        if len(memory.long_term.journal.search_text(word(id)).ids):
            yield f"step {id} was forgotten, and is in the full text"
        try:
            memory.get(id)
            yield f"step {id} was forgotten, and is there"
        except InputError:
            continue


def _of_embedder(memory: HierarchicalMemory, expected: Expected) -> Iterator[str]:
    """A memory that was reindexed has the new embedder; one that was being so, the old one or the new one."""
    ended, begun = expected.last.of("reindexed")[-1:], expected.begun("reindexing", "reindexed")
    if ended and memory.long_term.queue.embedder.fingerprint not in (*ended, begun):
        yield f"the memory has the embedder {memory.long_term.queue.embedder.name}, and was given another one"


def _left_of(gone: Iterable[str], folder: Path) -> Iterator[str]:
    """Nothing of forgotten steps is in any file: asked before the memory is opened, which may tidy up."""
    for file in filter(Path.is_file, folder.rglob("*")):
        with suppress(FileNotFoundError):  # the index's process sees that its parent is gone, and tidies up as it ends
            content = file.read_bytes()
            yield from (f"{file.name} still has the text of {id}" for id in gone if word(id).encode() in content)


def _of_files(journal: Journal) -> Iterator[str]:
    if found := journal.maintenance.check_files():
        yield f"the journal is damaged: {found}"
    if fault := journal.maintenance.check_terms().fault:
        yield f"the full text is damaged: {fault}"


def _of_made(place: Path, expected: Expected) -> Iterator[str]:
    """A memory that was being made opens, has what was added to it, and takes more."""
    with opened(place, "exact") as memory:
        added = {id for some in expected.last.of("added")[len(expected.last.of("made")) :] for id in some}
        held = {row.id for row in memory.long_term.journal.rows()}
        if not added <= held or len(held) > 1:
            yield f"the new memory has {held}, not {added}"
        number = memory.add(MessageStep("user", "Still here.")).step_number
        if number != 1 + len(held) or not memory.recall("still here", 100):
            yield f"the new memory does not go on: {number}"

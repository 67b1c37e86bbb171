"""Lineage of runs: the history that a resumed, forked or copied session repeats, and files that are one run.

The memory's messages tell it (see `tinymem.messages.recognition`). Beside its own key, a message of a session file is
kept by what its line is known by, an id or a time, whatever session it comes in. A run that is known by its file alone
is kept by the name of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat, takewhile
from typing import TYPE_CHECKING

from tinymem.memory.context.fitting import as_message
from tinymem.messages.conversion import in_order, message_places
from tinymem.messages.recognition import (
    Arrival,
    MessageKey,
    arrivals,
    bodies_of,
    content_hash,
    hash_of,
    keys_in,
    name_hash,
    rows_by_key,
)
from tinymem.protocols import MessageRow
from tinymem.runs.harness import AGENT
from tinymem.runs.readers import Run
from tinymem.steps.standins import is_from_user
from tinymem.steps.step import Step
from tinymem.steps.types import SystemPromptStep
from tinymem.upkeep.forgetting import repeated_by

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Lineage", "name_run"]

FORKS = 64  # of a session, that are kept


class Lineage:
    """The messages of a run that stand in the memory already, in this session or in another one.

    A message is known by its key, or by what its line is known by. In a run that goes on only the line tells, since its
    messages come behind others.

    Args:
        memory: The memory.
        run: The run.

    Attributes:
        new: What is new of the run.
    """

    def __init__(self, memory: HierarchicalMemory, run: Run) -> None:
        self._memory, self._run, self._journal = memory, run, memory.long_term.journal
        kept = [memory.apply_redaction(step) for step in run.steps]
        bodies = [bodies_of(step) for step in kept]
        places = message_places(kept, bodies)
        self._bodies = in_order(bodies, places)
        lines = zip(chain(run.marks, repeat("")), self._bodies, strict=False)
        self._lines = [_line_hash(mark, body) for mark, body in lines]
        self._holders = {row.said: row.step for row in self._journal.messages.find({*self._lines} - {""}, 1)}
        keys = self._keys_in(kept[0].session if kept else run.name)
        self._marks = dict(zip(keys, self._lines, strict=True))
        step_keys = [[*map(keys.__getitem__, step_places)] for step_places in places]
        steps = [_as_models(step) if run.is_spawned else step for step in run.steps]
        self.new = arrivals(steps, step_keys, places, self._known(keys))

    def _known(self, keys: Sequence[MessageKey]) -> Collection[tuple[str, int]]:
        """Return the keys of messages that stand in the memory, and note where they stand in other runs."""
        known = {*rows_by_key(self._journal.messages, keys)}
        self._begins = not (self._run.goes_on or known.issuperset(keys[:1]))
        shared = zip(self._lines, self._shared() if self._begins else (), strict=False)
        self._copied = {line: step for line, step in shared if line}  # from a run that this one comes from
        holders = {**self._copied, **self._holders}
        by_line = [key for key, line in self._marks.items() if key not in known and line in holders]
        self._repeated = {holders[self._marks[key]] for key in by_line}
        return known.union(by_line)

    def _keys_in(self, session: str | None) -> list[MessageKey]:
        """Return the keys of the messages of a session; the 0th of those that it has already, in a run that goes on."""
        if not self._run.goes_on:
            return keys_in(session, self._bodies, Counter())
        hashes = [content_hash(session, body) for body in self._bodies]
        times = Counter(self._journal.messages.count({*hashes}))
        keys: list[MessageKey] = []
        for said, line in zip(hashes, self._lines, strict=True):
            is_new = line not in self._holders
            times[said] += is_new
            keys.append(MessageKey(said, times[said] if is_new else 0))
        return keys

    def rows_of(self, arrival: Arrival, number: int) -> Iterator[MessageRow]:
        """Give the messages of a step that was added, and what their lines are known by."""
        yield from arrival.rows(number)
        for key in arrival.keys:
            if mark := self._marks[key]:
                yield MessageRow(mark, 1, number, False)

    def rows_of_run(self, first: int) -> Iterator[MessageRow]:
        """Give the rows that tell whose history the run repeats, and whom it comes from; `first` is its first step."""
        for line, step in self._copied.items():
            yield MessageRow(line, 1, step, False)
        if self._repeated and not self._run.goes_on:  # one that goes on knows its own messages so, too
            yield from self._not_yet(repeated_by(self._run.name), {min(self._repeated), max(self._repeated)})
        for parent in self._run.parents if first and self._begins else ():
            yield from self._not_yet(_forks(parent), {first})

    def _not_yet(self, said: str, numbers: Collection[int]) -> Iterator[MessageRow]:
        """Give rows of this hash for the steps that have none yet."""
        kept = [row.step for row in self._journal.messages.find([said], FORKS)]
        for nth, number in enumerate(sorted({*numbers} - {*kept}), len(kept) + 1):
            yield MessageRow(said, nth, number, False)

    def _shared(self) -> list[int]:
        """Return the numbers of the steps that hold what the run begins with, in a run that it comes from or a fork."""
        numbers = [row.step for row in self._journal.messages.find([_forks(self._run.name)], FORKS)]
        forks = self._memory.long_term.fetch(numbers).values()
        names = [*self._run.parents, *(step.session for step in forks)]
        return max(map(self._begun, dict.fromkeys(names)), key=len, default=[])

    def _begun(self, session: str | None) -> list[int]:
        """Return the numbers of the steps of a session that hold what the run begins with."""
        keys = keys_in(session, self._bodies, Counter())
        steps = rows_by_key(self._journal.messages, keys)
        return [steps[key].step for key in takewhile(steps.__contains__, keys)]


def name_run(memory: HierarchicalMemory, run: Run) -> Run:
    """Return a run that is known by its file alone under a name that no file of another folder has.

    It is the run's own name. Where a file of the same name in another folder has that, a hash of the folder stands
    before it; but a file that says nothing new was moved or copied, and keeps the name.
    """
    if run.file is None or not run.steps:
        return run
    messages = memory.long_term.journal.messages
    owned = hash_of(f"file {name_hash(run.name)}")
    owner = hash_of(f"{owned} {name_hash(str(run.file.resolve().parent))}")
    owners = {row.said for row in messages.find([owned, owner], 1)}
    if owners == {owned} and not _is_known(memory, run):
        name = f"{owner[:8]}/{run.name}"
        return replace(run, name=name, steps=[step.evolve(session=name) for step in run.steps])
    messages.put([MessageRow(said, 1, 0, False) for said in (owned, owner)])
    return run


def _is_known(memory: HierarchicalMemory, run: Run) -> bool:
    """Return True if the memory has all that a run says, the system prompt apart, under its own name."""
    steps = [memory.apply_redaction(step) for step in run.steps if not isinstance(step, SystemPromptStep)]
    keys = keys_in(run.name, chain.from_iterable(map(bodies_of, steps)), Counter())
    return rows_by_key(memory.long_term.journal.messages, keys).keys() >= {*keys}


def _as_models(step: Step) -> Step:
    """Return what a subagent was asked as the words of the agent that asked: only a person gives rules and tasks."""
    if not is_from_user(step):
        return step
    return as_message(step).evolve(role="assistant", speaker=AGENT, metadata=step.metadata, overlay=())


def _line_hash(mark: str, body: str) -> str:
    """Return the hash of a message by what its line is known by, in whatever session; "" for nothing."""
    return hash_of(f"line {mark.encode('ascii', 'backslashreplace').decode()} {body}") if mark else ""


def _forks(session: str) -> str:
    """Return the hash by which the first steps of a session's forks are kept."""
    return hash_of(f"forks {name_hash(session)}")

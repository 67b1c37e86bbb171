"""The outcome of a strategy: a valid window made of the steps that it returned, so that nothing is lost.

A strategy may return any iterable of steps. Order is restored, a duplicate is dropped, a call and its results stay if
one of them stays, and system prompt, current task and pinned steps are put back. A new step covers all that was removed
(`tinymem.steps.standins`), in the place of the last of it; of several, each but the first covers one step, in order.
Where nothing was removed, it is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from tinymem.errors import InputError, describe_callable, describe_type
from tinymem.messages.conversion import groups
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import COVERS, REVISION, SEEN, covered_ids, covers_of, rank, sources_of
from tinymem.steps.step import Step, are_same
from tinymem.steps.types import MessageStep, SummaryStep
from tinymem.window.strategy import critical

__all__ = ["Outcomes", "check_window", "steps_of"]

logger = logging.getLogger(__name__)

WORTH_SAYING = ("lost", "changed", "added")  # repairs after which the window differs from what the strategy wanted


class Outcomes:
    """A maker of windows from the results of strategies, which logs its repairs once for each strategy."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def __call__(self, before: Sequence[Step], returned: object, strategy: Callable[..., object]) -> list[Step]:
        """Return the window that `strategy` makes of `before`; InputError unless it returns steps."""
        outcome = _Outcome(before, steps_of(returned))
        name = describe_callable(strategy)
        for kind, said in outcome.repairs.items():
            if kind in WORTH_SAYING and (name, kind) not in self._said:
                self._said.add((name, kind))
                logger.warning("the strategy %s %s (this is said once)", name, said)
        return outcome.window


def steps_of(returned: object) -> list[Step]:
    """Return a strategy's result as a list; InputError if it has anything but steps."""
    if isinstance(returned, Iterable) and not isinstance(returned, (str, bytes)):
        found = list(returned)
        if all(issubclass(kind, Step) for kind in {*map(type, found)}):  # a window has few kinds, and many steps
            return found
    raise InputError(f"a strategy must return a list of steps, not {describe_type(returned)}")


def check_window(before: Sequence[Step], after: object) -> None:
    """Raise InputError if a memory would have to repair `after`, which a strategy made of `before`; for tests of it.

    >>> from tinymem import TaskStep
    >>> check_window([TaskStep("Ship it", id="task")], [])
    Traceback (most recent call last):
    tinymem.errors.InputError: the strategy took out what must stay, TaskStep task: it is put back
    """
    for said in _Outcome(before, steps_of(after)).repairs.values():
        raise InputError(f"the strategy {said}")


class _Outcome:
    """The `window` that was made of steps and of what a strategy `returned` for them, and the `repairs`, by kind."""

    def __init__(self, before: Sequence[Step], returned: list[Step]) -> None:
        self.repairs: dict[str, str] = {}
        self.window = returned
        if are_same(before, returned):
            return  # nothing changed, as on most adds
        self._before = before
        self._places = {step.id: place for place, step in enumerate(before)}
        self._kept: dict[int, Step] = {}  # by place
        self._new: list[Step] = []
        self._sort_out(returned)
        self._put_back()
        shown = self._kept | self._stand_ins()
        self.window = [shown[place] for place in sorted(shown)]

    def _note_repair(self, kind: str, said: str) -> None:
        self.repairs.setdefault(kind, said)

    def _sort_out(self, returned: list[Step]) -> None:
        """Find the steps that are kept, as they were or with shorter texts, and those that are new."""
        by_id = {step.id: step for step in reversed(returned)}
        if len(by_id) < len(returned):
            self._note_repair("twice", "returned a step twice")
        following = len(self._before)
        for step in by_id.values():  # from the last to the first
            place = self._places.get(step.id)
            if place is None:
                self._new.append(step)
                continue
            if place > following:
                self._note_repair("order", f"returned step {step.id} after a step that came later")
            following = place
            self._take_version(place, step)
        self._new.reverse()

    def _take_version(self, place: int, step: Step) -> None:
        """Keep a step in the version that came back; one with other calls, results or covers is new."""
        old = self._before[place]
        if (old.step_number, old.pinned) != (step.step_number, step.pinned):
            self._note_repair("changed", f"changed more of step {old.id} than its texts: its number and pin stay")
            step = step.evolve(step_number=old.step_number, pinned=old.pinned)
        if step is not old and _shape(step) != _shape(old):
            self._new.append(step)
        else:
            self._kept[place] = old if step == old else _with_rank(old, step)

    def _put_back(self) -> None:
        """Keep the steps that must stay, and the whole of every group that keeps a step."""
        for step in critical(self._before, "current"):
            if self._places[step.id] not in self._kept:
                self._kept[self._places[step.id]] = step
                self._note_repair("lost", f"took out what must stay, {type(step).__name__} {step.id}: it is put back")
        for group in groups(self._before):
            missing = [step for step in group if self._places[step.id] not in self._kept]
            if 0 < len(missing) < len(group):
                self._kept.update((self._places[step.id], step) for step in missing)
                self._note_repair("split", f"split a call from its results: step {missing[0].id} is put back")

    def _stand_ins(self) -> dict[int, Step]:
        """Return the new steps by their places. Together they cover all that was removed."""
        gone = [place for place in range(len(self._before)) if place not in self._kept]
        new = [step for step in self._new if self._places.get(step.id) not in self._kept]
        if len(new) < len(self._new):
            self._note_repair("changed", "changed more of a step that must stay than its texts: it stays as it was")
        if len(new) > len(gone):
            surplus = f"{len(new) - len(gone)} new steps for which nothing was taken out"
            self._note_repair("added", f"returned {surplus}: add steps to the memory")
        removed = covered_ids([self._before[place] for place in gone])
        seen: dict[str, None] = {}
        for step in self._before:
            seen |= dict.fromkeys((*sources_of(step), step.id))
        found: dict[int, Step] = {}
        first = max(0, len(gone) - len(new))
        for step, place in zip(new, gone[first:], strict=False):
            covered = [place] if found else gone[: first + 1]
            covers = covered_ids([self._before[index] for index in covered])
            found[place] = _stand_in(step, self._before[place], covers, removed, seen)
        return found


def _stand_in(step: Step, old: Step, covers: dict[str, None], removed: dict[str, None], seen: dict[str, None]) -> Step:
    """Return a new step as a stand-in for the steps that it covers, under the id and number of `old`, one of them."""
    if step.id == old.id and removed.keys() >= {*covers_of(step)} >= {*covers_of(old), old.id}:
        return _with_rank(old, step)  # as our own strategies make them
    metadata = {key: value for key, value in step.metadata.items() if key not in (COVERS, SEEN, REVISION)}
    metadata[SEEN] = [id for id in seen if id not in covers]
    if isinstance(step, SummaryStep):
        step = step.evolve(covers=[*covers])
    else:
        metadata[COVERS] = [*covers]
    place = {"id": old.id, "step_number": old.step_number, "session": step.session or old.session}
    return _with_rank(old, step.evolve(**place, pinned=False, metadata=metadata))


def _with_rank(old: Step, new: Step) -> Step:
    """`new`, marked so that `restore` tells it from `old`, which it was made of, where its text does not show it."""
    if rank(old) < rank(new):
        return new
    return new.evolve(metadata={**new.metadata, REVISION: rank(old)[1] + 1})


def _shape(step: Step) -> tuple[object, ...]:
    """Return the parts that shortening must not change: calls, results, and the ids that a stand-in covers."""
    calls = [(call.id, call.answered) for call in step.tool_calls] if isinstance(step, ActionStep) else []
    answers = (step.role, step.tool_call_id) if isinstance(step, MessageStep) else ()
    return type(step), calls, answers, covers_of(step)

"""The outcome of a strategy: a valid window made of the steps that it returned, so that nothing is lost.

A strategy may return any iterable of steps. Order is restored, a duplicate is dropped, a call and its results stay if
one of them stays, and system prompt, current task and pinned steps are put back. A new step replaces the steps that
were removed before it (`tinymem.steps.standins`); if none were, it is left out.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tinymem.errors import InputError, describe_callable, describe_type
from tinymem.messages.conversion import groups
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import COVERS, REVISION, SEEN, covers_of, is_stand_in, rank, sources_of
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
        for kind in WORTH_SAYING:
            if kind in outcome.repairs and (key := (describe_callable(strategy), kind)) not in self._said:
                self._said.add(key)
                logger.warning(
                    "the strategy %s %s (this is said once)", describe_callable(strategy), outcome.repairs[kind]
                )
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


@dataclass
class _New:
    """A step that is new to the window.

    `following` is the place of the step that the strategy returned after it, `own` that of the step with its id.
    """

    step: Step
    following: int
    own: int | None = None


@dataclass
class _Outcome:
    """The `window` that was made of `before` and what a strategy `returned`, and the `repairs` of it, by kind."""

    before: Sequence[Step]
    returned: list[Step]
    window: list[Step] = field(init=False)
    repairs: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.window = self.returned
        if are_same(self.before, self.returned):
            return  # nothing changed, as on most adds
        self._kept: dict[int, Step] = {}  # by place
        self._places = {step.id: at for at, step in enumerate(self.before)}
        new = self._classify()
        self._put_back()
        gone = [at for at in range(len(self.before)) if at not in self._kept]
        shown = self._kept | self._stand_ins(gone, self._place(new, gone))
        self.window = [shown[at] for at in sorted(shown)]

    def _note_repair(self, kind: str, said: str) -> None:
        self.repairs.setdefault(kind, said)

    def _classify(self) -> list[_New]:
        """Note the kept steps, and return the new ones in the order of their return."""
        once = {step.id: step for step in reversed(self.returned)}
        if len(once) < len(self.returned):
            self._note_repair("twice", "returned a step twice")
        new: list[_New] = []
        following = len(self.before)
        for step in once.values():  # from the last to the first
            if (at := self._places.get(step.id)) is None:
                new.append(_New(step, following))
                continue
            if at > following:
                self._note_repair("order", f"returned step {step.id} after a step that came later")
            following, old = at, self.before[at]
            version = step if step is old else self._numbered(old, step)
            if version is not old and _shape(version) != _shape(old):
                new.append(_New(version, at, at))
            else:
                self._kept[at] = old if version == old else _with_rank(old, version)
        return new[::-1]

    def _numbered(self, old: Step, new: Step) -> Step:
        """`new` with the number and the pin of `old`, whose id it has."""
        if (new.step_number, new.pinned) == (old.step_number, old.pinned):
            return new
        self._note_repair("changed", f"changed more of step {old.id} than its texts: its number and pin stay")
        return new.evolve(step_number=old.step_number, pinned=old.pinned)

    def _put_back(self) -> None:
        """Keep the steps that must stay, and the whole of every group that keeps a step."""
        must = {step.id for step in critical(self.before, "current")}
        for at, step in enumerate(self.before):
            if step.id in must and at not in self._kept:
                self._kept[at] = step
                self._note_repair("lost", f"took out what must stay, {type(step).__name__} {step.id}: it is put back")
        for group in groups(self.before):
            missing = [step for step in group if self._places[step.id] not in self._kept]
            if 0 < len(missing) < len(group):
                self._kept |= {self._places[step.id]: step for step in missing}
                self._note_repair("split", f"split a call from its results: step {missing[0].id} is put back")

    def _place(self, new: list[_New], gone: list[int]) -> dict[int, Step]:
        """Return the new steps by their places, which are among those that are `gone`."""
        free = list(gone)
        placed: dict[int, Step] = {}
        others: list[_New] = []
        for one in new:
            if one.own is None:
                others.append(one)
            elif one.own in free:
                free.remove(one.own)
                placed[one.own] = one.step
            else:
                self._note_repair("changed", f"changed more of step {one.step.id} than its texts: it stays as it was")
        if len(others) > len(free):
            surplus = len(others) - len(free)
            self._note_repair(
                "added", f"returned {surplus} new steps for which nothing was taken out: add steps to the memory"
            )
        for one in reversed(others[: len(free)]):
            at = bisect_left(free, one.following) - 1
            if at < 0:  # nothing is gone before it: the end of the first stretch that is
                at = next(i for i, place in enumerate(free) if place + 1 not in free[i + 1 : i + 2])
            placed[free.pop(at)] = one.step
        return placed

    def _stand_ins(self, gone: Sequence[int], placed: dict[int, Step]) -> dict[int, Step]:
        """The `placed` steps as stand-ins for what is `gone`."""
        if not placed:
            return {}
        away = _ids_of(self.before[at] for at in gone)
        seen = list(dict.fromkeys(id for step in self.before for id in (*sources_of(step), step.id)))
        found: dict[int, Step] = {}
        start = 0
        for at in sorted(placed):
            end = bisect_left(gone, at) + 1
            found[at] = self._stand_in(placed[at], at, _ids_of(self.before[i] for i in gone[start:end]), away, seen)
            start = end
        return found

    def _stand_in(self, step: Step, at: int, gap: dict[str, None], away: dict[str, None], seen: Sequence[str]) -> Step:
        """Return `step` as a stand-in at the place of `before[at]`.

        It covers the ids in `gap`, or those of its own ids that are `away`.
        """
        old = self.before[at]
        own = _ids_of([old])
        if is_stand_in(step) and step.id == old.id and away.keys() >= {*covers_of(step)} >= own.keys():
            return _with_rank(old, step)  # as our own strategies make them
        named = {*step.covers} & away.keys() if isinstance(step, SummaryStep) else set()
        covers = [id for id in away if id in named or id in own] if named else list(gap)
        if isinstance(step, SummaryStep):
            if step.covers and named != {*step.covers}:
                self._note_repair(
                    "covers", f"returned a summary of what was not taken out, in the place of step {old.id}"
                )
            step = step.evolve(covers=covers)
        metadata = {key: value for key, value in step.metadata.items() if key not in (COVERS, SEEN, REVISION)}
        metadata |= {} if isinstance(step, SummaryStep) else {COVERS: covers}
        metadata[SEEN] = [id for id in seen if id not in {*covers}]
        place = {"id": old.id, "step_number": old.step_number, "session": step.session or old.session}
        return _with_rank(old, step.evolve(**place, pinned=False, metadata=metadata))


def _ids_of(steps: Iterable[Step]) -> dict[str, None]:
    """Ids of the steps, and of what they stand for, in order."""
    return dict.fromkeys(id for step in steps for id in (*covers_of(step), step.id))


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

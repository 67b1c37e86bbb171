"""The outcome of a strategy: a valid window made of the steps that it returned, so that nothing is lost.

A strategy may return any iterable of steps. Order is restored, a duplicate is dropped, a call and its results stay if
one of them stays, and system prompt, current task and pinned steps are put back. A new step covers all that was removed
(`tinymem.steps.standins`), in the place of the last of it; of several, each but the first covers one step, in order.
Where nothing was removed, it is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

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
        repairs: dict[str, str] = {}
        window = _window_of(before, steps_of(returned), repairs)
        name = describe_callable(strategy)
        for kind in WORTH_SAYING:
            if kind in repairs and (name, kind) not in self._said:
                self._said.add((name, kind))
                logger.warning("the strategy %s %s (this is said once)", name, repairs[kind])
        return window


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
    repairs: dict[str, str] = {}
    _window_of(before, steps_of(after), repairs)
    for said in repairs.values():
        raise InputError(f"the strategy {said}")


def _window_of(before: Sequence[Step], returned: list[Step], repairs: dict[str, str]) -> list[Step]:
    """Return the window that is made of `before` and of what a strategy `returned` for it; note `repairs`, by kind."""
    if are_same(before, returned):
        return returned  # as on most adds
    kept, new = _sort_out(before, returned, repairs)
    _put_back(before, kept, repairs)
    stand_ins = _stand_ins(before, kept, new, repairs)
    shown = kept | stand_ins
    return [shown[step.id] for step in before if step.id in shown]


def _sort_out(
    before: Sequence[Step], returned: list[Step], repairs: dict[str, str]
) -> tuple[dict[str, Step], list[Step]]:
    """Return the steps that are kept, as they were or with shorter texts, by their ids, and those that are new."""
    originals = {step.id: step for step in before}
    by_id: dict[str, Step] = {}
    for step in returned:
        by_id.setdefault(step.id, step)
    if len(by_id) < len(returned):
        repairs["twice"] = "returned a step twice"
    if [id for id in by_id if id in originals] != [id for id in originals if id in by_id]:
        repairs["order"] = "returned steps in another order"
    kept: dict[str, Step] = {}
    new: list[Step] = []
    for step in by_id.values():
        old = originals.get(step.id)
        step = step if old is None else _in_place(old, step, repairs)
        if old is None or (step is not old and _shape(step) != _shape(old)):
            new.append(step)
        else:
            kept[step.id] = old if step == old else _with_rank(old, step)
    return kept, new


def _in_place(old: Step, step: Step, repairs: dict[str, str]) -> Step:
    """Return a step with the number and the pin of the one in whose place it comes."""
    if (old.step_number, old.pinned) == (step.step_number, step.pinned):
        return step
    repairs.setdefault("changed", f"changed more of step {old.id} than its texts: its number and pin stay")
    return step.evolve(step_number=old.step_number, pinned=old.pinned)


def _put_back(before: Sequence[Step], kept: dict[str, Step], repairs: dict[str, str]) -> None:
    """Keep the steps that must stay, and the whole of every group that keeps a step."""
    for step in critical(before, "current"):
        if step.id not in kept:
            kept[step.id] = step
            repairs.setdefault("lost", f"took out what must stay, {type(step).__name__} {step.id}: it is put back")
    for group in groups(before):
        missing = [step for step in group if step.id not in kept]
        if 0 < len(missing) < len(group):
            kept.update((step.id, step) for step in missing)
            repairs["split"] = f"split a call from its results: step {missing[0].id} is put back"


def _stand_ins(
    before: Sequence[Step], kept: Mapping[str, Step], returned: Sequence[Step], repairs: dict[str, str]
) -> dict[str, Step]:
    """Return the new steps by the ids that they get. Together they cover all that was removed."""
    gone = [step for step in before if step.id not in kept]
    new = [step for step in returned if step.id not in kept]
    if len(new) < len(returned):
        repairs.setdefault("changed", "changed more of a step that must stay than its texts: it stays as it was")
    surplus = len(new) - len(gone)
    if surplus > 0:
        repairs["added"] = f"returned {surplus} new steps for which nothing was taken out: add steps to the memory"
    removed = covered_ids(gone)
    seen = dict.fromkeys(chain.from_iterable((*sources_of(step), step.id) for step in before))
    first = max(0, -surplus) + 1  # the steps that the first one covers
    covered = [gone[:first], *([step] for step in gone[first:])] if gone else []
    found = [_stand_in(step, steps, removed, seen) for step, steps in zip(new, covered, strict=False)]
    return {step.id: step for step in found}


def _stand_in(step: Step, covered: Sequence[Step], removed: dict[str, None], seen: dict[str, None]) -> Step:
    """Return a new step as a stand-in for the steps that it covers, under id and number of the last."""
    old, covers = covered[-1], covered_ids(covered)
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

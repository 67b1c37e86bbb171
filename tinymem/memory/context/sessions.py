"""Sessions: the steps that the prompt of one conversation shows, where several share a memory.

The sessions of a memory share one window, and a strategy keeps that short. So that no session shows what was said in
another one, each has the steps of its own and those without a session. What the others take up of the window is given
back to it: as many tokens of its own steps as have left the window, the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.window_rows import CLEARED
from tinymem.protocols import StepRow
from tinymem.steps.content import clean
from tinymem.steps.standins import covers_of, find_stand_ins, is_request
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep, SystemPromptStep, TaskStep
from tinymem.window.window import is_result, steps_of_session

__all__ = ["Sessions"]

PAGE = 100  # steps of a session that are read at once


class Sessions:
    """The windows of a memory's sessions. The lock of the memory must be held."""

    def __init__(self, window: DurableWindow, archive: Archive) -> None:
        self._window, self._archive = window, archive

    def steps(self, session: str | None) -> tuple[Sequence[Step], bool]:
        """Return what the window of a session shows, and whether other sessions have steps in the window they share.

        Without a session it is that of the newest step that has one.
        """
        shown = self._window.steps
        name = session
        if session is None:
            name = next((step.session for step in reversed(shown) if step.session is not None), None)
        own = [step for step in steps_of_session(shown, name) if not self._is_mixed(step, name)]
        if name is None or len(own) == len(shown):
            return shown, False
        stays = {step.id for step in own}
        room = sum(self._archive.prices.count(step) for step in shown if step.id not in stays)
        found = {step.step_number: step for step in [*self._earlier(name, own, room), *own]}
        return [found[number] for number in sorted(found, key=lambda number: number or 0)], True

    def _is_mixed(self, step: Step, session: str | None) -> bool:
        """Return whether a step is a summary that tells of other sessions too."""
        if not (ids := covers_of(step)):
            return False
        covered = [*self._archive.fetch([*self._archive.journal.numbers(ids).values()]).values()]
        return len(steps_of_session(covered, session)) < len(covered)

    def _earlier(self, session: str, own: Sequence[Step], room: int) -> list[Step]:
        """Return the steps of a session that have left the window: the newest, last request, prompt and task."""
        shown = {id for step in [*own, *find_stand_ins(own)] for id in (step.id, *covers_of(step))}
        named = [step for step in own if step.session == session]
        found: list[Step] = []
        has_request = any(map(_asks, named))
        for row in self._newest(session):
            if row.id in shown or row.type == SystemPromptStep.type:
                continue
            room -= row.tokens
            if room < 0 and has_request:
                break
            step = self._archive.load(row.record)
            if room >= 0 or _asks(step):
                found.append(step)
            has_request = has_request or _asks(step)
        for kind in (SystemPromptStep, TaskStep):
            if not any(isinstance(step, kind) for step in [*named, *found]):
                found += [self._archive.load(row.record) for row in [*self._newest(session, kind.type)][:1]]
        return _with_calls(found, own)

    def _newest(self, session: str, type: str | None = None) -> Iterator[StepRow]:
        """Yield the steps of a session since the window was cleared, the newest first."""
        journal, before = self._archive.journal, self._window.next_number
        cleared = journal.setting(CLEARED) or ""
        begin = int(cleared) if cleared.isdecimal() else 0
        while rows := journal.newest(PAGE if type is None else 1, before, type=type, session=session):
            for row in rows:
                if row.number < begin:
                    return
                if row.session == clean(session):  # a name that ends in * finds others too
                    yield row
            before = rows[-1].number


def _asks(step: Step) -> bool:
    return is_request(step) or isinstance(step, TaskStep)


def _with_calls(steps: Sequence[Step], others: Collection[Step]) -> list[Step]:
    """Return the steps less the results whose calls are not among them."""
    called = {call.id for step in [*steps, *others] if isinstance(step, ActionStep) for call in step.tool_calls}
    return [step for step in steps if not is_result(step) or step.tool_call_id in called]

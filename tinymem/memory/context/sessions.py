"""Sessions: the steps that the prompt of one conversation shows, where several share a memory.

The sessions of a memory share one window, and a strategy keeps that short. So that no session shows what was said in
another one, each has the steps of its own and those without a session. What the others take up of the window is given
back to it: as many tokens of its own steps as have left the window, the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tinymem.archive.archive import Archive
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.window_rows import CLEARED
from tinymem.messages.answers import without_lone_results
from tinymem.protocols import StepRow
from tinymem.steps.standins import covered_ids, covers_of, is_from_user
from tinymem.steps.step import Step
from tinymem.steps.types import SystemPromptStep, TaskStep
from tinymem.window.window import steps_of_session

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
        in_window = [step for step in steps_of_session(shown, name) if not self._is_mixed(step, name)]
        if name is None or len(in_window) == len(shown):
            return shown, False
        stays = {step.id for step in in_window}
        room = sum(self._archive.prices.count(step) for step in shown if step.id not in stays)
        found = {step.step_number: step for step in [*self._earlier(name, in_window, room), *in_window]}
        return [found[number] for number in sorted(found, key=lambda number: number or 0)], True

    def _is_mixed(self, step: Step, session: str | None) -> bool:
        """Return whether a step is a summary that tells of other sessions too."""
        ids = covers_of(step)
        if not ids:
            return False
        covered = [*self._archive.fetch([*self._archive.journal.numbers(ids).values()]).values()]
        return len(steps_of_session(covered, session)) < len(covered)

    def _earlier(self, session: str, in_window: Sequence[Step], room: int) -> list[Step]:
        """Return the steps of a session that have left the window: the newest, last request, prompt and task."""
        shown = covered_ids(in_window)
        named = [step for step in in_window if step.session == session]
        found: list[Step] = []
        has_request = any(map(is_from_user, named))
        for row in self._newest(session):
            if row.id in shown or row.type == SystemPromptStep.type:
                continue
            room -= row.tokens
            if room < 0 and has_request:
                break
            step = self._archive.load(row.record)
            if room >= 0 or is_from_user(step):
                found.append(step)
            has_request = has_request or is_from_user(step)
        for kind in (SystemPromptStep, TaskStep):
            if not any(isinstance(step, kind) for step in [*named, *found]):
                newest = islice(self._newest(session, kind.type), 1)
                found += [self._archive.load(row.record) for row in newest]
        return without_lone_results(found, in_window)

    def _newest(self, session: str, type: str | None = None) -> Iterator[StepRow]:
        """Yield the steps of a session since the window was cleared, the newest first."""
        journal, before = self._archive.journal, self._window.next_number
        cleared = journal.setting(CLEARED) or ""
        begin = int(cleared) if cleared.isdecimal() else 0
        most = PAGE if type is None else 1
        while rows := journal.rows(limit=most, before=before, type=type, session=session, newest=True):
            for row in rows:
                if row.number < begin:
                    return
                yield row
            before = rows[-1].number

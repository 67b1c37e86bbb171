"""Sessions: the steps that the prompt of one conversation shows, where several share a memory.

The sessions of a memory share one window, and a strategy keeps that short. So that no session shows what was said in
another one, each has the steps of its own and those without a session. What others drove out of the window is recalled;
but a session always has its newest system prompt, task and request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tinymem.archive.archive import Archive
from tinymem.archive.window_rows import CLEARED
from tinymem.steps.standins import covered_ids, covers_of, is_from_user
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep, SystemPromptStep, TaskStep
from tinymem.window.window import steps_of_session

__all__ = ["session_steps"]

LOOKED = 100  # messages of a session among which its newest request is looked for


def session_steps(shown: Sequence[Step], archive: Archive, session: str | None) -> tuple[Sequence[Step], bool]:
    """Return what the prompt of a session shows of a window, and whether other sessions have steps there.

    Without a session it is that of the newest step that has one.
    """
    newest = (step.session for step in reversed(shown) if step.session is not None)
    name = next(newest, None) if session is None else session
    in_window = [step for step in steps_of_session(shown, name) if not _is_mixed(step, name, archive)]
    if name is None or len(in_window) == len(shown):
        return shown, False
    return sorted([*_driven_out(name, in_window, archive), *in_window], key=lambda step: step.step_number or 0), True


def _is_mixed(step: Step, session: str | None, archive: Archive) -> bool:
    """Return whether a step is a summary that tells of other sessions too."""
    ids = covers_of(step)
    if not ids:
        return False
    covered = [*archive.fetch([*archive.journal.numbers(ids).values()]).values()]
    return len(steps_of_session(covered, session)) < len(covered)


def _driven_out(session: str, in_window: Sequence[Step], archive: Archive) -> Iterator[Step]:
    """Yield a session's newest system prompt, task and request that left the window since it was cleared."""
    journal, covered = archive.journal, covered_ids(in_window)
    cleared = journal.setting(CLEARED) or ""
    begin = int(cleared) if cleared.isdecimal() else 1
    for kind in (SystemPromptStep, TaskStep, MessageStep):
        if not any(_is_wanted(step, kind) for step in in_window if step.session == session):
            rows = journal.rows(begin - 1, LOOKED, type=kind.type, session=session, newest=True)
            steps = (archive.load(row.record) for row in rows if row.id not in covered)
            yield from islice((step for step in steps if _is_wanted(step, kind)), 1)


def _is_wanted(step: Step, kind: type[Step]) -> bool:
    return isinstance(step, kind) and (kind is not MessageStep or is_from_user(step))

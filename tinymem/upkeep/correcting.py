"""Correcting: the step that corrects another one."""

from __future__ import annotations

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.steps.checks import check_instance
from tinymem.steps.content import is_empty
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, MessageStep

__all__ = ["correction_of"]


def correction_of(old: Step, correction: str | Step, past: Archive) -> Step:
    """Return the step that corrects `old` and its correction so far. Errors as in `correct`."""
    text = correction if isinstance(correction, str) else check_instance("correction", correction, Step).text
    if is_empty(text):
        raise InputError("the correction is empty: say what is true instead")
    number = old.step_number or 0
    stale = [step.id for step in past.fetch([number, past.corrections.get(number, number)]).values()]
    if isinstance(correction, str):
        role = old.role if isinstance(old, MessageStep) and old.role in ("user", "assistant") else "user"
        correction = MessageStep(role, correction, session=old.session, speaker=old.speaker)
    return correction.evolve(metadata={"milestone": True, **correction.metadata, CORRECTS: stale}, step_number=None)

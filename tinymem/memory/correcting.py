"""Correcting: the step that corrects another one, and all that make the same claim."""

from __future__ import annotations

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.recall.corrections import says_the_same
from tinymem.recall.search import Search
from tinymem.steps.checks import check_instance
from tinymem.steps.content import is_empty
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, MessageStep

__all__ = ["correction_of"]

LOOKED_AT = 4_000  # tokens of recalled steps among which others with the same claim are looked for
LONGEST_CLAIM = 1_000  # characters of a claim that others may repeat


def correction_of(old: Step, correction: str | Step, past: Archive, search: Search) -> Step:
    """Return the step that corrects `old`, its correction so far, and what says the same. Errors as in `correct`."""
    text = correction if isinstance(correction, str) else check_instance("correction", correction, Step).text
    if is_empty(text):
        raise InputError("the correction is empty: say what is true instead")
    numbers = [old.step_number or 0]
    if (newer := past.corrections.get(numbers[0])) is not None:
        numbers.append(newer)
    stale = [step.id for step in past.fetch(numbers).values()]
    if len(old.text) <= LONGEST_CLAIM:
        found = search.recall(old.text, LOOKED_AT, utc_now(), diversity=0, min_relevance=0)
        stale += [item.step.id for item in found.items if says_the_same(item.step.text, old.text)]
    if isinstance(correction, str):
        role = old.role if isinstance(old, MessageStep) and old.role in ("user", "assistant") else "user"
        correction = MessageStep(role, correction, session=old.session, speaker=old.speaker)
    return correction.evolve(
        metadata={"milestone": True, **correction.metadata, CORRECTS: [*dict.fromkeys(stale)]}, step_number=None
    )

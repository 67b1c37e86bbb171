"""Correcting: the step that corrects another one, and the names of those that say about the same."""

from __future__ import annotations

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.recall.search import Search
from tinymem.steps.checks import check_instance
from tinymem.steps.content import is_empty
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, SIMILAR, MessageStep
from tinymem.stores.words import words

__all__ = ["correction_of"]

LOOKED_AT = 4_000  # tokens of recalled steps among which those that say about the same are looked for
LONGEST_CLAIM = 1_000  # characters of a claim that others may repeat
ALIKE = 0.5  # Jaccard index of the words of two texts from which on one is named as similar
NAMED = 5  # similar steps that are named at most


def correction_of(old: Step, correction: str | Step, past: Archive, search: Search) -> Step:
    """Return the step that corrects `old` and its correction so far. Errors as in `correct`."""
    text = correction if isinstance(correction, str) else check_instance("correction", correction, Step).text
    if is_empty(text):
        raise InputError("the correction is empty: say what is true instead")
    numbers = [old.step_number or 0]
    newer = past.corrections.get(numbers[0])
    if newer is not None:
        numbers.append(newer)
    stale = [step.id for step in past.fetch(numbers).values()]
    similar = [id for id in _similar(old, search) if id not in stale][:NAMED]
    if isinstance(correction, str):
        role = old.role if isinstance(old, MessageStep) and old.role in ("user", "assistant") else "user"
        correction = MessageStep(role, correction, session=old.session, speaker=old.speaker)
    metadata = {"milestone": True, **correction.metadata, CORRECTS: stale}
    return correction.evolve(metadata=metadata | ({SIMILAR: similar} if similar else {}), step_number=None)


def _similar(old: Step, search: Search) -> list[str]:
    """Return the ids of the steps that say about the same as a claim."""
    said = {*words(old.text)}
    if not said or len(old.text) > LONGEST_CLAIM:
        return []
    recalled = search.recall(old.text, LOOKED_AT, utc_now(), diversity=0, min_relevance=0)
    shares = {item.step.id: _overlap(said, {*words(item.step.text)}) for item in recalled.items}
    return [id for id, share in shares.items() if share >= ALIKE]


def _overlap(said: set[str], others: set[str]) -> float:
    return len(said & others) / len(said | others)

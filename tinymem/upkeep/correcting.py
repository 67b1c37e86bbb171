"""Correcting: the step that corrects another one, and all that make the same claim."""

from __future__ import annotations

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.recall.diversity import wording
from tinymem.recall.search import Search
from tinymem.steps.checks import check_instance
from tinymem.steps.content import is_empty
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, MessageStep

__all__ = ["correction_of", "says_the_same"]

LOOKED_AT = 4_000  # tokens of recalled steps among which others with the same claim are looked for
LONGEST_CLAIM = 1_000  # characters of a claim that others may repeat
SAME = 0.7  # Jaccard index of the words of two texts that say the same
SHORT_WORD = 3  # characters of a word that says little of what a text is about


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


def says_the_same(one: str, other: str) -> bool:
    """Return whether two texts make the same claim: nearly the same words, and the same numbers in them.

    >>> says_the_same("The vault's code is 4711-Q.", "Noted: the code of the vault is 4711-Q")
    True
    >>> says_the_same("The vault's code is 4711-Q.", "The garage's code is 4711-Q.")
    False
    """
    words, others = _words(one), _words(other)
    if not words or {word for word in words ^ others if _has_digit(word)}:
        return False
    return len(words & others) >= SAME * len(words | others)


def _words(text: str) -> frozenset[str]:
    words = (word.strip(":;,").removesuffix("'s").removesuffix("’s") for word in wording(text).split())
    return frozenset(word for word in words if len(word) > SHORT_WORD or _has_digit(word))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))

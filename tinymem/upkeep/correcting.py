"""Correcting: the step that corrects another one, and the copies of that claim by the same source."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.errors import InputError
from tinymem.recall.search import Search
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_instance
from tinymem.steps.content import is_empty
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, SIMILAR, MessageStep
from tinymem.stores.filter import Filter

__all__ = ["correction_of", "says_the_same"]

LOOKED_AT = 4_000  # tokens of recalled steps among which others with the same claim are looked for
LONGEST_CLAIM = 1_000  # characters of a claim that others may repeat
ALIKE = 0.5  # Jaccard index of the words of two texts from which on one is named as similar
NAMED = 5  # similar steps that are named at most
ARTICLES = frozenset({"a", "an", "the"})
# words before a claim that say nothing of it
OPENINGS = frozenset({"also", "and", "fyi", "note", "noted", "ok", "okay", "please", "remember", "right", "so", "sure",
                      "that", "understood", "well", "yes"})  # fmt: skip
VERBS = frozenset({"are", "can", "had", "has", "have", "is", "may", "must", "should", "was", "were", "will", "would"})
AROUND = ".,;:!?\"'()[]“”‘’«»。，！？"  # punctuation around a word; signs, units and currencies are part of it
FIRST_PERSON = frozenset({"i", "i'm", "me", "mine", "my", "our", "ours", "us", "we", "we're"})
MARKS = frozenset({"milestone", CORRECTS, SIMILAR})  # metadata that says nothing of who is meant


def correction_of(old: Step, correction: str | Step, past: Archive, search: Search) -> Step:
    """Return the step that corrects `old`, its correction so far, and its copies. Errors as in `correct`."""
    text = correction if isinstance(correction, str) else check_instance("correction", correction, Step).text
    if is_empty(text):
        raise InputError("the correction is empty: say what is true instead")
    numbers = [old.step_number or 0]
    newer = past.corrections.get(numbers[0])
    if newer is not None:
        numbers.append(newer)
    stale = [*past.fetch(numbers).values()]
    others = [step for step in _alike(old, search) if step not in stale]
    copies = [step for step in others if _is_same_source(step, old) and says_the_same(step.text, old.text)]
    similar = [step.id for step in others if step not in copies][:NAMED]
    if isinstance(correction, str):
        role = old.role if isinstance(old, MessageStep) and old.role in ("user", "assistant") else "user"
        correction = MessageStep(role, correction, session=old.session, speaker=old.speaker)
    metadata = {"milestone": True, **correction.metadata, CORRECTS: [step.id for step in [*stale, *copies]]}
    return correction.evolve(metadata=metadata | ({SIMILAR: similar} if similar else {}), step_number=None)


def _alike(old: Step, search: Search) -> list[Step]:
    """Return the steps that say about the same as a claim, those of its session first."""
    if len(old.text) > LONGEST_CLAIM:
        return []
    filters = [Filter(session=old.session)] * (old.session is not None) + [None]
    found: dict[str, Step] = {}
    for only in filters:
        recalled = search.recall(old.text, LOOKED_AT, utc_now(), only=only, diversity=0, min_relevance=0)
        found.update((item.step.id, item.step) for item in recalled.items)
    words = {*_words(old.text)}
    return [step for step in found.values() if _overlap({*_words(step.text)}, words) >= ALIKE]


def _overlap(words: set[str], others: set[str]) -> float:
    return len(words & others) / (len(words | others) or 1)


def _is_same_source(step: Step, old: Step) -> bool:
    """Return whether a step is of the same session, speaker and agent; an assistant repeats what others say."""
    if step.session != old.session or _facts(step) != _facts(old):
        return False
    if isinstance(step, ActionStep) != isinstance(old, ActionStep):
        return False
    if _role(step) == _role(old):
        return step.speaker == old.speaker
    is_repeated = any(_role(said) == "assistant" and said.speaker is None for said in (step, old))
    return is_repeated and FIRST_PERSON.isdisjoint(_words(old.text))


def _facts(step: Step) -> dict[str, Any]:
    """Return the metadata that says who is meant."""
    return {name: value for name, value in step.metadata.items() if name not in MARKS}


def _role(step: Step) -> str:
    return step.role if isinstance(step, MessageStep) else "user"


def says_the_same(text: str, other: str) -> bool:
    """Return whether two texts make the same claim: the same words in the same order.

    Articles, words as "Noted:" before the claim and the form of a genitive may differ, nothing else.

    >>> says_the_same("The vault's code is 4711-Q.", "Noted: the code of the vault is 4711-Q")
    True
    >>> says_the_same("Tom is allergic to peanuts.", "Eve is allergic to peanuts.")
    False
    """
    words = _words(text)
    return bool(words) and words == _words(other) and text.rstrip().endswith("?") == other.rstrip().endswith("?")


def _words(text: str) -> list[str]:
    """Return the words of a claim, a genitive with "of" as one with "'s": "code of the vault" is "vault code"."""
    words = [word.strip(AROUND) for word in unicodedata.normalize("NFKC", text).split()]
    words = [word for word in words if word]
    folded = [word.casefold().replace("’", "'").removesuffix("'s") for word in words]
    begin = len([*takewhile(OPENINGS.__contains__, folded)])
    pairs = zip(words[begin:], folded[begin:], strict=True)
    said = [fold for place, (word, fold) in enumerate(pairs) if fold not in ARTICLES or (place and word.isupper())]
    return _without_of(said)


def _without_of(words: Sequence[str]) -> list[str]:
    if "of" not in words:
        return [*words]
    place = words.index("of")
    owner = [*takewhile(lambda word: word not in VERBS, words[place + 1 :])]
    if not VERBS.isdisjoint(words[:place]):
        return [*words]
    return [*owner, *words[:place], *words[place + 1 + len(owner) :]]

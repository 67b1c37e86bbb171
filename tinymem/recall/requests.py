"""Requests: what was asked before in the words of the question is no answer to it.

An agent in a loop, or a person beside it, asks again and again in the same words, of another thing each time. Such a
request is closer to the question than its answer is, and lifts the results that stand beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import numpy as np

from tinymem.protocols import Ids
from tinymem.recall.candidates import Candidates, highest
from tinymem.recall.catalog import ACT, SAID, Catalog
from tinymem.recall.opened import Opened

__all__ = ["asks_alike", "asks_for_another", "find_requests"]

Opening: TypeAlias = Mapping[int, Opened]

LEAST = 5  # words of a question that can be known by its form
ALIKE = 0.6  # share of the words of both that a request has in common with the question
LONGER = 2  # times as long as the question at most
LOOKED_AT = 64  # passages that are read at most, the best by words
TERMS = 32  # bits for the words of a question
_WORD = re.compile(r"\w+")


def asks_alike(text: str, question: str) -> bool:
    """Return True if a text begins as the question does and has most of its words: its answer seldom does.

    >>> question = "I need the ticket of module alder, please."
    >>> asks_alike("I need the ticket of module birch, please.", question)
    True
    >>> asks_alike("The ticket of module alder is T-17.", question)
    False
    """
    said, asked = _words(text), _words(question)
    both = {*said} & {*asked}
    return len(asked) >= LEAST and said[:1] == asked[:1] and len(both) >= ALIKE * len({*said, *asked})


def asks_for_another(text: str, question: str) -> bool:
    """Return True if a text asks alike, of something else; a number that differs is no other thing."""
    missing = {*_words(question)} - {*_words(text)}
    return any(word.isalpha() for word in missing) and asks_alike(text, question)


def find_requests(
    question: str, found: Candidates, catalog: Catalog, hidden: Collection[int], open_steps: Callable[..., Opening]
) -> Ids:
    """Return the rows of texts that ask alike: of something else, or among the steps `hidden` of anything.

    What is asked stands in a prompt already, and is hidden like the rest of that. Texts of steps are read by
    `open_steps`, from their numbers.
    """
    if len(_words(question)) < LEAST:
        return np.empty(0, np.int64)
    rows = _find_short(found, catalog, LONGER * len(question), hidden)
    numbers = catalog.step[rows].tolist()
    opened = open_steps({*numbers})
    asks: list[bool] = []
    for number, place in zip(numbers, catalog.places[rows].tolist(), strict=True):
        said = opened[number].said(*place[:3]).text if number in opened else ""
        asks.append((asks_alike if number in hidden else asks_for_another)(said, question))
    return rows[np.array(asks, np.bool_)]


def _find_short(found: Candidates, catalog: Catalog, length: int, hidden: Collection[int]) -> Ids:
    """Return the rows of short texts that somebody said, or the agent: the best by words, and the newest `hidden`."""
    rows = found.rows[highest(found.bm25[found.rows], LOOKED_AT)]
    terms = np.unpackbits(found.terms[rows].view(np.uint8)).reshape(-1, TERMS).sum(axis=1)
    rows = rows[terms * 2 >= max(len(found.rarity), 1)]  # half of the words, or they are not most of them
    if hidden:
        rows = np.union1d(rows, np.flatnonzero(np.isin(catalog.step, [*hidden]))[-LOOKED_AT:])
    places = catalog.places[rows]
    is_said = (places["kind"] == SAID) | (places["kind"] == ACT)
    short: Ids = rows[is_said & (places["end"] - places["start"] <= length)]
    return short


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())

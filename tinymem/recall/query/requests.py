"""Requests: what was asked before in the words of the question is no answer to it.

An agent in a loop, or a person beside it, asks again and again in the same words, of another thing each time. Such a
request is closer to the question than its answer is, and lifts the results that stand beside it.
"""

from __future__ import annotations

import re

__all__ = ["LEAST_WORDS", "asks_alike", "asks_for_another", "request_words"]

LEAST_WORDS = 5  # of a question that can be known by its form
ALIKE = 0.6  # share of the words of both that a request has in common with the question
_WORD = re.compile(r"\w+")


def asks_alike(text: str, question: str) -> bool:
    """Return True if a text begins as the question does and has most of its words: its answer seldom does.

    >>> question = "I need the ticket of module alder, please."
    >>> asks_alike("I need the ticket of module birch, please.", question)
    True
    >>> asks_alike("The ticket of module alder is T-17.", question)
    False
    """
    said, asked = request_words(text), request_words(question)
    both = {*said} & {*asked}
    return len(asked) >= LEAST_WORDS and said[:1] == asked[:1] and len(both) >= ALIKE * len({*said, *asked})


def asks_for_another(text: str, question: str) -> bool:
    """Return True if a text asks alike, of something else; a number that differs is no other thing."""
    missing = {*request_words(question)} - {*request_words(text)}
    return any(word.isalpha() for word in missing) and asks_alike(text, question)


def request_words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(text.lower())

"""Needles: what an agent copies from far back into its next call, and must still have in front of it then.

A call copies identifiers (a path, a date, an id, a long name) and whole lines, as the old text of an edit. One of them
counts when it stands in an earlier message that the agent was sent, in RARE messages at most, and last DISTANCE tokens
or more before the call: what is nearer stands in any window, and what is everywhere needs no memory.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tinymem.messages.calls import name_and_arguments, raw_calls
from tinymem.steps.content import as_text
from tinymem.steps.step import Message

__all__ = ["DISTANCE", "IDENTIFIER", "RARE", "Needles", "text_of", "typed_in", "values_in"]

DISTANCE = 2_000  # tokens from the newest message that has a needle to the call
RARE = 3  # messages that may have it
LINE = range(24, 400)  # characters of a line that counts as copied
IDENTIFIER = re.compile(
    r"(?<![\w.-])[\w.-]+(?:/[\w.-]+)*/[\w-]+\.\w+"  # a path
    r"|\b\d{4}-\d\d-\d\d\b"
    r"|\b(?=\w{6})(?=\w*\d)[A-Za-z]\w*"  # HAT136, gift_card_1646646
    r"|\b(?=\w{8})[A-Za-z]\w*_\w*[A-Za-z]"  # check_framework
    r"|\b(?=\w{8})[A-Z][a-z]+(?:[A-Z]\w*)+"  # TranslationCheckTests
)
WORD = re.compile(r"\w+")


class Needles:
    """The messages of a run so far, by their words, to find what a call copies from them."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._is_said: list[bool] = []  # by somebody else than the agent
        self._ends: list[int] = [0]  # tokens up to the end of each message
        self._places: defaultdict[str, list[int]] = defaultdict(list)  # of the messages with a word

    def add(self, message: Message, tokens: int) -> None:
        """Add the next message, which has so many tokens."""
        text, place = text_of(message), len(self._texts)
        self._texts.append(text)
        self._is_said.append(message["role"] != "assistant")
        self._ends.append(self._ends[-1] + tokens)
        for word in set(WORD.findall(text)):
            self._places[word].append(place)

    def copied(self, message: Message) -> list[str]:
        """Return the needles of the calls in the agent's next message."""
        return [needle for needle in typed_in(message) if self._is_far(self._holding(needle))]

    def _is_far(self, holding: Sequence[int]) -> bool:
        if not 0 < len(holding) <= RARE or not any(self._is_said[place] for place in holding):
            return False
        return self._ends[-1] - self._ends[holding[-1] + 1] >= DISTANCE

    def _holding(self, needle: str) -> list[int]:
        """Return the places of the messages with `needle`; of one that many messages may have, some."""
        places = [self._places.get(word, []) for word in WORD.findall(needle)]
        rarest = min(places, key=len, default=[])
        return [place for place in rarest if needle in self._texts[place]]


def text_of(message: Message) -> str:
    """Return all that a message says: its text, and what its calls are given."""
    return "\n".join([as_text(message.get("content")), *values_in(message)])


def typed_in(message: Message) -> list[str]:
    """Return the identifiers and the lines in what the calls of a message are given, each once."""
    found: dict[str, None] = {}
    for value in values_in(message):
        found |= dict.fromkeys(match[0] for match in IDENTIFIER.finditer(value))
        found |= dict.fromkeys(line.strip() for line in value.splitlines() if len(line.strip()) in LINE)
    return [*found]


def values_in(message: Message) -> Iterator[str]:
    """Yield the texts in the arguments of a message's calls, which are JSON as a rule."""
    for call in raw_calls(message):
        _, arguments = name_and_arguments(call)
        try:
            left = [json.loads(arguments) if isinstance(arguments, str) else arguments]
        except (ValueError, RecursionError):
            left = [arguments]
        while left:
            value = left.pop(0)
            if isinstance(value, str):
                yield value
            elif isinstance(value, (dict, list)):
                left += value.values() if isinstance(value, dict) else value

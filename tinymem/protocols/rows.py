"""Rows of a journal: what it is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols.adapters import Ids, Vectors

__all__ = ["EmbeddedPassage", "Lexical", "MessageRow", "PassageRow",
           "StepRow", "SummaryRow", "TermCheck"]  # fmt: skip


@dataclass(frozen=True)
class StepRow:
    """A step as the journal keeps it: `record` is its JSON, `time` is in seconds since 1970.

    `tokens` is what it costs when sent, `position` what all steps before it cost, since the memory began. `view`
    is the JSON of the shortened step that the window shows instead, if a strategy shortened it. A `milestone` ranks a
    little higher. `archived` is the time when it left the window, None while it is in it. `labels` are names and values
    (JSON) of its metadata; they are written, and not read back.
    """

    number: int
    id: str
    type: str
    session: str | None
    speaker: str | None
    time: float
    tokens: int
    position: int
    record: str
    window: bool = True
    view: str | None = None
    milestone: bool = False
    archived: float | None = None
    labels: Sequence[tuple[str, str]] = field(default=(), compare=False)


class MessageRow(NamedTuple):
    """A message that came with a history of its session, see `tinymem.messages.recognition`.

    Attributes:
        said: A hash of the session and of what it says.
        nth: The number of times that this was said up to then, from 1.
        step: The number of the step that holds it.
        is_last: Whether the step ends with it.
    """

    said: str
    nth: int
    step: int
    is_last: bool


class SummaryRow(NamedTuple):
    """A summary of the archived steps from `first` to `last`."""

    first: int
    last: int
    session: str | None
    text: str


@dataclass(frozen=True)
class PassageRow:
    """A slice `[start, end)` of a step's part, with its text: the unit that is embedded, searched and excerpted.

    `kind` says what the part is (see `tinymem.steps.step.Part`); `asks`, whether the step's text ends in a question;
    `identifiers` are those of the text, as `tinymem.recall.query.identifiers.hashes` gives them; `tools`, the names of
    the tools that the step calls, a line each.
    """

    part: int
    start: int
    end: int
    kind: str
    asks: bool
    text: str
    identifiers: bytes = b""
    tools: str = ""


class EmbeddedPassage(NamedTuple):
    """A passage as the journal gives it back, without its text.

    It has its vector (float16, little-endian; empty where it is not embedded yet) and what recall asks about its step.
    It is a tuple since all passages of a memory are read: 100,000 take 0.08 s more than without names.
    """

    id: int
    step: int
    part: int
    start: int
    end: int
    kind: str
    asks: bool
    vector: bytes
    type: str
    session: str | None
    speaker: str | None
    time: float
    identifiers: bytes
    tools: str
    milestone: bool


class Lexical(NamedTuple):
    """The result of a full-text search.

    Attributes:
        ids: The passages, best first.
        scores: Their BM25, divided by the sum of the inverse document frequencies: about 1 for a passage of average
            length with every term once, whatever the query and the collection.
        terms: A bit for each of the rarest terms of the query that a passage has: bit i for the term of `rarity[i]`;
            uint32.
        rarity: The inverse document frequency of each of these terms, rarest first: `(terms,)`, at most 32.
        unseen: The share of the rarity of all words asked that is of words which stand nowhere, 0 to 1.
    """

    ids: Ids
    scores: Vectors
    terms: npt.NDArray[np.uint32]
    rarity: Vectors
    unseen: float


class TermCheck(NamedTuple):
    """The number of passages in the full-text index, and what is wrong with it, if something is."""

    passages: int
    fault: str | None

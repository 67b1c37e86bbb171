"""Rows of a journal: what it is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols.adapters import Ids, Vectors

if TYPE_CHECKING:
    from tinymem.stores.filter import Filter

__all__ = ["ALL_PASSAGES", "Change", "EmbeddedPassage", "Facts", "FileNote", "FiledStep", "MessageRow",
           "PassageColumns", "PassageRow", "Place", "Slice", "Sought", "StepOutline", "StepRow", "SummaryRow", "Tally",
           "TermCheck", "VectorCheck"]  # fmt: skip


ALL_PASSAGES = 0  # in place of a passage that has changed: something was forgotten, or all vectors are others


class Change(NamedTuple):
    """A passage that has changed since an index may have got it, or is gone; or `ALL_PASSAGES`."""

    number: int
    passage: int


@dataclass(frozen=True)
class StepRow:
    """A step as the journal keeps it: `record` is its JSON, `time` is in seconds since 1970.

    `tokens` is what it costs when sent, `position` what all steps before it cost, since the memory began. `view`
    is the JSON of the shortened step that the window shows instead, if a strategy shortened it. A `milestone` ranks a
    little higher. `archived` is the time when it left the window, None while it is in it. `labels` are names and values
    (JSON) of its metadata, `files` what it did to files; they are written, and not read back.
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
    files: Sequence[FileNote] = field(default=(), compare=False)


class FileNote(NamedTuple):
    """A note of what a step did to a file: `kind`, hashes of lines in it and of lines that are gone, 4 bytes each.

    Where a piece of lines was replaced in all of them, `gone` has that piece and `lines` what it became, as characters.
    `place` counts the notes of a step, `call` is the place of the call that did it; see `tinymem.recall.files`. A note
    of how a command ended has the hash of its end for a path and, where it passed, its text for lines.
    """

    step: int
    place: int
    call: int
    path: str
    kind: int
    lines: bytes
    gone: bytes


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


class StepOutline(NamedTuple):
    """A step without its text."""

    number: int
    id: str
    type: str
    session: str | None
    tokens: int
    window: bool


class Tally(NamedTuple):
    """The steps of one session and type: how many there are, their tokens, the times of the first and the last."""

    session: str | None
    type: str
    steps: int
    tokens: int
    first: float
    last: float


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


@dataclass(frozen=True)
class PassageColumns:
    """Passages as columns of `n` values, in order, and their steps as columns of `m`, which passages share.

    Attributes:
        id, part, start, end: As in `EmbeddedPassage`, `(n,)` each, and so are `kind`, `asks` and `tools`.
        of_step: The place of each passage's step in `steps`: `(n,)`.
        vectors: `(n, dimensions)`, in half precision.
        identifiers: Their identifiers, one passage after the other; `identifier_bytes` says how many bytes each has.
        steps: The numbers of the steps, `(m,)`, and so are `type`, `session`, `speaker`, `time` and `milestone`.
    """

    id: Ids
    of_step: Ids
    part: Ids
    start: Ids
    end: Ids
    kind: Sequence[str]
    asks: npt.NDArray[np.bool_]
    tools: Sequence[str]
    vectors: npt.NDArray[np.float16]
    identifiers: bytes
    identifier_bytes: Ids
    steps: Ids
    type: Sequence[str]
    session: Sequence[str | None]
    speaker: Sequence[str | None]
    time: npt.NDArray[np.float64]
    milestone: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Sequence[Any]) -> PassageColumns:
        """Return the columns of rows, with a step for each; ValueError, TypeError or OverflowError for what is none."""
        (ids, step, part, start, end, kind, asks, vector, type, session, speaker, time, identifiers, tools,
         milestone) = zip(*rows, strict=True)  # fmt: skip
        return cls(
            _numbers(ids), np.arange(len(ids)), _numbers(part), _numbers(start), _numbers(end),
            kind, np.array(asks, np.bool_), tools, np.frombuffer(b"".join(vector), "<f2").reshape(len(ids), -1),
            b"".join(identifiers), _numbers([len(each) for each in identifiers]),
            _numbers(step), type, session, speaker, np.array(time, np.float64), np.array(milestone, np.bool_),
        )  # fmt: skip


def _numbers(values: Sequence[int]) -> Ids:
    return np.array(values, np.int64)


class Facts(NamedTuple):
    """Figures of all steps that a question is analysed with: passages, newest step, first and last time, speakers."""

    passages: int
    last_step: int
    since: float
    until: float
    speakers: Sequence[str]


@dataclass(frozen=True)
class Sought:
    """The passages that an engine is to find.

    Attributes:
        topic: The words of the best by BM25.
        vectors: `(m, dimensions)`, of the nearest.
        named: Identifiers, of which all passages are wanted unless they are more than `most_named`.
        spans: Spans of time, start and end in seconds, whose nearest are wanted as well.
        only: The filter that steps must be within; None for all.
        hidden: Numbers of steps that are not wanted.
        best: The number of passages that each signal is to give,
        around: and of those of them whose steps before and after are wanted too.
        most_named: See `named`.
        is_stretch: True where it counts which passages have an identifier first.
    """

    topic: str
    vectors: Vectors
    named: npt.NDArray[np.uint32]
    spans: Sequence[tuple[float, float]] = ()
    only: Filter | None = None
    hidden: Sequence[int] = ()
    best: int = 240
    around: int = 60
    most_named: int = 500
    is_stretch: bool = False


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


@dataclass(frozen=True)
class Slice:
    """The passages of some steps, all of each, and what is to be known of the others.

    Attributes:
        passages: The passages; those of steps that are only around others have no identifiers. None if there are none.
        lexical: Passages by BM25, as `Journal.search_text` gives them.
        share: The share of all passages whose steps are within the limits.
        named: The number of all passages that have each identifier, by it.
        seen: By identifier, the id of the first passage that has it, and of the first that the agent typed it in.
    """

    passages: PassageColumns | None
    lexical: Lexical
    share: float
    named: Mapping[int, int]
    seen: Sequence[tuple[int, int, int | None]]


class Place(NamedTuple):
    """The place of a passage, `id`: a slice `[start, end)` of a part of a step."""

    id: int
    step: int
    part: int
    start: int
    end: int


class FiledStep(NamedTuple):
    """A step's JSON with what is filed beside it, unchecked: its number, its id, the places of its passages."""

    number: int
    id: str
    record: str
    places: Sequence[Place]


class TermCheck(NamedTuple):
    """The number of passages in the full-text index, and what is wrong with it, if something is."""

    passages: int
    fault: str | None


class VectorCheck(NamedTuple):
    """Numbers of vectors of each length in bytes, of those that are not finite, and of identifiers cut short."""

    lengths: Mapping[int, int]
    not_finite: int
    cut_short: int

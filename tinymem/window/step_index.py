"""Scoring the passages of a plain list of steps: the stages of recall, without a journal.

Whatever is made of a step (passages, vectors, words) is made once and kept as long as there is room; a
passage that several steps share, because an agent opened a file again, is embedded once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Embedder, Ids, Vectors
from tinymem.recall.candidates import gather
from tinymem.recall.catalog import Catalog
from tinymem.recall.diversity import hashed, overlap
from tinymem.recall.features import features
from tinymem.recall.fusion import published, weighed_as
from tinymem.recall.passages import is_question, kind_of_passage
from tinymem.recall.query.analysis import Query, analyse, embedded
from tinymem.recall.query.identifiers import hashes
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step
from tinymem.steps.types import is_milestone
from tinymem.window.excerpts import pieces

__all__ = ["Listed", "StepIndex"]

KEPT = 4_096  # steps whose vectors are kept; more where one window has more
QUERIES = 16  # analysed queries that are kept
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Text:
    """A passage's text as vectors; shared by all steps that hold that text."""

    __slots__ = ("__weakref__", "identifiers", "vector", "words")

    def __init__(self, vector: bytes, words: npt.NDArray[np.uint32], identifiers: bytes) -> None:
        self.vector, self.words, self.identifiers = vector, words, identifiers


@dataclass(frozen=True)
class _Entry:
    """A step's passages: (part, start, end, kind, asks), and the vectors of each."""

    places: list[tuple[int, int, int, str, bool]]
    texts: list[_Text]


@dataclass(frozen=True)
class Listed:
    """Passages worth looking at, in order: which step of the list, which part, where, and log-odds.

    `texts` are the parts' texts of every step of the list.
    """

    step: Ids
    part: Ids
    start: Ids
    end: Ids
    scores: Vectors
    texts: list[list[str]]


class StepIndex:
    """Vectors of steps, by id and content. Safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()
        self._texts: WeakValueDictionary[str, _Text] = WeakValueDictionary()
        self._query = lru_cache(QUERIES)(self._analysed)
        self._lock = threading.Lock()

    def score(self, steps: Sequence[Step], text: str) -> Listed:
        """Score the passages of `steps`, in order of time, by their relevance to `text`: those that are candidates."""
        parts = [step.parts() for step in steps]
        texts = [[part.text for part in found] for found in parts]
        with self._lock:
            entries = self._entries_of(steps, parts)
            query = self._query(text)
        catalog = Catalog(self._embedder.dimensions)
        catalog.extend(_rows(steps, entries))
        if not len(catalog):
            none: Ids = np.empty(0, np.int64)
            return Listed(none, none, none, none, np.empty(0, np.float32), texts)
        lexical = overlap(query.topic, catalog.id, [held.words for entry in entries for held in entry.texts])
        found = gather(query, catalog, lexical, np.ones(len(catalog), np.bool_), None)
        matrix = features(query, found, catalog)
        rows = found.rows
        kinds = weighed_as(catalog.kind[rows], query.is_stretch)
        scores = published().score(matrix, kinds)
        place = (catalog.step[rows], catalog.part[rows], catalog.start[rows], catalog.end[rows])
        return Listed(*place, scores, texts)

    def _analysed(self, text: str) -> Query:
        return analyse(text, self._embedder, EPOCH)

    def _entries_of(self, steps: Sequence[Step], parts: Sequence[Sequence[Part]]) -> list[_Entry]:
        keys = [(step.id, *found) for step, found in zip(steps, parts, strict=True)]
        new = {key: (at, _passages(parts[at])) for at, key in enumerate(keys) if key not in self._entries}
        made = self._made(text for at, found in new.values() for text, _ in found)
        for key, (_, found) in new.items():
            self._entries[key] = _Entry([place for _, place in found], [made[text] for text, _ in found])
        for key in keys:
            self._entries.move_to_end(key)
        entries = [self._entries[key] for key in keys]
        while len(self._entries) > max(KEPT, len(keys)):
            self._entries.popitem(last=False)
        return entries

    def _made(self, texts: Any) -> dict[str, _Text]:
        """Return each of `texts` as vectors; those that are new are embedded, all at once."""
        made = {text: self._texts.get(text) for text in texts}
        missing = [text for text, known in made.items() if known is None]
        if missing:
            vectors = embedded(self._embedder, missing).astype("<f2")
            for text, vector in zip(missing, vectors, strict=True):
                made[text] = self._texts[text] = _Text(vector.tobytes(), hashed(text), hashes(text))
        return {text: known for text, known in made.items() if known is not None}


def _passages(parts: Sequence[Part]) -> list[tuple[str, tuple[int, int, int, str, bool]]]:
    """The passages of a step's parts: text, and where it stands."""
    texts = [clean(part.text) for part in parts]
    asks = bool(texts) and is_question(texts[-1])
    return [
        (said, (index, start, end, kind_of_passage(part, said), asks))
        for index, (part, text) in enumerate(zip(parts, texts, strict=True))
        for start, end in pieces(text)
        if not (said := text[start:end]).isspace()
    ]


def _rows(steps: Sequence[Step], entries: Sequence[_Entry]) -> list[Any]:
    """Passages as the catalog takes them in."""
    found = chain.from_iterable(
        ((at, step, place, text) for place, text in zip(entry.places, entry.texts, strict=True))
        for at, (step, entry) in enumerate(zip(steps, entries, strict=True))
    )
    return [
        (
            *(row, at, *place, text.vector, step.type, step.session, step.speaker, 0.0),
            *(text.identifiers, "", is_milestone(step)),
        )
        for row, (at, step, place, text) in enumerate(found, 1)
    ]

"""A search over a plain list of steps: the stages of recall, without a journal.

Whatever is made of a step (passages, vectors, words) is made once and kept as long as there is room; a
passage that several steps share, because an agent opened a file again, is embedded once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Embedder, PassageRow
from tinymem.recall.candidates import gather
from tinymem.recall.fusion import ScoredCandidates
from tinymem.recall.passages import passages_of
from tinymem.recall.query.analysis import analyse, embed_texts
from tinymem.recall.snapshot import Snapshot
from tinymem.steps.step import Step
from tinymem.steps.types import is_milestone
from tinymem.stores.bm25 import hash_words, search_words
from tinymem.window.excerpts import cut_pieces

__all__ = ["StepIndex"]

KEPT = 4_096  # steps whose vectors are kept; more where one window has more
QUERIES = 16  # analysed queries that are kept
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Text:
    """A passage's text as a vector, as words and as identifiers; shared by all steps that hold that text."""

    __slots__ = ("__weakref__", "identifiers", "vector", "words")

    def __init__(self, vector: bytes, words: npt.NDArray[np.uint32], identifiers: bytes) -> None:
        self.vector, self.words, self.identifiers = vector, words, identifiers


class _Passage(NamedTuple):
    place: tuple[int, int, int, str, bool]  # part, start, end, kind, asks
    text: _Text


class StepIndex:
    """Vectors of steps, by id and content. Safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._entries: dict[tuple[Any, ...], list[_Passage]] = {}  # in the order in which they were asked for last
        self._texts: WeakValueDictionary[str, _Text] = WeakValueDictionary()
        self._query = lru_cache(QUERIES)(partial(analyse, embedder=embedder, now=EPOCH))
        self._lock = threading.Lock()

    def score(self, steps: Sequence[Step], text: str) -> ScoredCandidates:
        """Score the passages of `steps`, in order of time, by their relevance to `text`: those that are candidates.

        The numbers of the steps in the snapshot are their places in `steps`.
        """
        with self._lock:
            entries = self._entries_of(steps)
            query = self._query(text)
        rows: list[tuple[Any, ...]] = []
        words = []
        for number, (step, passages) in enumerate(zip(steps, entries, strict=True)):
            origin, milestone = (step.type, step.session, step.speaker, 0.0), is_milestone(step)
            for place, said in passages:
                rows.append((len(rows) + 1, number, *place, said.vector, *origin, said.identifiers, "", milestone))
                words.append(said.words)
        snapshot = Snapshot(self._embedder.dimensions).with_tail(rows)
        lexical = search_words(query.topic, snapshot.id, words)
        found = gather(query, snapshot, lexical, np.ones(len(snapshot), np.bool_))
        return ScoredCandidates.of(query, snapshot, found)

    def _entries_of(self, steps: Sequence[Step]) -> list[list[_Passage]]:
        keys = [(step.id, *step.parts()) for step in steps]
        found = {key: self._entries.pop(key) for key in keys if key in self._entries}  # put behind the others again
        new = {
            key: passages_of(step, pieces=cut_pieces) for key, step in zip(keys, steps, strict=True) if key not in found
        }
        texts = self._texts_of([*chain.from_iterable(new.values())])
        for key, rows in new.items():
            found[key] = [_Passage((row.part, row.start, row.end, row.kind, row.asks), texts[row.text]) for row in rows]
        self._entries |= found
        for key in list(self._entries)[: -max(KEPT, len(keys))]:
            del self._entries[key]
        return [found[key] for key in keys]

    def _texts_of(self, rows: Sequence[PassageRow]) -> dict[str, _Text]:
        """Return the texts of passages by what they say; those that are new are embedded, all at once."""
        identifiers = {row.text: row.identifiers for row in rows}
        texts = {text: self._texts[text] for text in identifiers if text in self._texts}
        missing = [text for text in identifiers if text not in texts]
        vectors = embed_texts(self._embedder, missing).astype("<f2") if missing else ()
        for text, vector in zip(missing, vectors, strict=True):
            texts[text] = self._texts[text] = _Text(vector.tobytes(), hash_words(text), identifiers[text])
        return texts

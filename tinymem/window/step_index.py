"""A search over a plain list of steps: the stages of recall, without a journal.

Whatever is made of a step (passages, vectors, words) is made once and kept as long as there is room; a
passage that several steps share, because an agent opened a file again, is embedded once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Embedder, PassageRow
from tinymem.recall.candidates import gather
from tinymem.recall.catalog import Catalog
from tinymem.recall.fusion import Scored
from tinymem.recall.passages import passages_of
from tinymem.recall.query.analysis import analyse, embedded
from tinymem.steps.step import Step
from tinymem.steps.types import is_milestone
from tinymem.stores.bm25 import hash_words, search_words
from tinymem.window.excerpts import cut_pieces

__all__ = ["StepIndex"]

KEPT = 4_096  # steps whose vectors are kept; more where one window has more
QUERIES = 16  # analysed queries that are kept
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Text:
    """A passage's text as a vector and as words; shared by all steps that hold that text."""

    __slots__ = ("__weakref__", "vector", "words")

    def __init__(self, vector: bytes, words: npt.NDArray[np.uint32]) -> None:
        self.vector, self.words = vector, words


class _Passage(NamedTuple):
    row: PassageRow
    text: _Text


class StepIndex:
    """Vectors of steps, by id and content. Safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._entries: OrderedDict[tuple[Any, ...], list[_Passage]] = OrderedDict()
        self._texts: WeakValueDictionary[str, _Text] = WeakValueDictionary()
        self._query = lru_cache(QUERIES)(partial(analyse, embedder=embedder, now=EPOCH))
        self._lock = threading.Lock()

    def score(self, steps: Sequence[Step], text: str) -> Scored:
        """Score the passages of `steps`, in order of time, by their relevance to `text`: those that are candidates.

        The numbers of the steps in the catalog are their places in `steps`.
        """
        with self._lock:
            entries = self._entries_of(steps)
            query = self._query(text)
        catalog = Catalog(self._embedder.dimensions)
        every = [(at, step, one) for at, step in enumerate(steps) for one in entries[at]]
        catalog.extend([_catalog_row(id, at, step, one) for id, (at, step, one) in enumerate(every, 1)])
        lexical = search_words(query.topic, catalog.id, [one.text.words for _, _, one in every])
        return Scored.of(query, catalog, gather(query, catalog, lexical, np.ones(len(catalog), np.bool_), None))

    def _entries_of(self, steps: Sequence[Step]) -> list[list[_Passage]]:
        keys = [(step.id, *step.parts()) for step in steps]
        new = {
            key: passages_of(step, pieces=cut_pieces)
            for key, step in zip(keys, steps, strict=True)
            if key not in self._entries
        }
        texts = self._texts_of(row.text for rows in new.values() for row in rows)
        self._entries |= {key: [_Passage(row, texts[row.text]) for row in rows] for key, rows in new.items()}
        for key in keys:
            self._entries.move_to_end(key)
        entries = [self._entries[key] for key in keys]
        while len(self._entries) > max(KEPT, len(keys)):
            self._entries.popitem(last=False)
        return entries

    def _texts_of(self, texts: Iterable[str]) -> dict[str, _Text]:
        """Return each of `texts` as vector and words; those that are new are embedded, all at once."""
        known = {text: self._texts.get(text) for text in texts}
        missing = [text for text, held in known.items() if held is None]
        if missing:
            vectors = embedded(self._embedder, missing).astype("<f2")
            for text, vector in zip(missing, vectors, strict=True):
                known[text] = self._texts[text] = _Text(vector.tobytes(), hash_words(text))
        return {text: held for text, held in known.items() if held is not None}


def _catalog_row(id: int, at: int, step: Step, passage: _Passage) -> tuple[Any, ...]:
    row = passage.row
    place = id, at, row.part, row.start, row.end, row.kind, row.asks
    return (
        *place,
        passage.text.vector,
        step.type,
        step.session,
        step.speaker,
        0.0,
        row.identifiers,
        "",
        is_milestone(step),
    )

"""A search over a plain list of steps: the stages of recall, without a journal.

The texts of passages are embedded once, whichever steps hold them. When there are too many, those of the window at hand
are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.protocols import EmbeddedPassage, Embedder, PassageRow
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

STEPS = 4_096  # whose passages are kept
KEPT = 16_384  # passages whose vectors are kept; once there are more, those of one window
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Text(NamedTuple):
    """A passage's text as a vector, and as words."""

    vector: bytes
    words: npt.NDArray[np.uint32]


class StepIndex:
    """Vectors of the texts in steps. Safe to use from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._cut = lru_cache(STEPS)(partial(passages_of, pieces=cut_pieces))
        self._texts: dict[str, _Text] = {}
        self._lock = threading.Lock()

    def score(self, steps: Sequence[Step], text: str) -> ScoredCandidates:
        """Score the passages of `steps`, in order of time, by their relevance to `text`: those that are candidates.

        The numbers of the steps in the snapshot are their places in `steps`.
        """
        passages: list[tuple[int, PassageRow]] = []
        for number, step in enumerate(steps):
            passages += [(number, row) for row in self._cut(step)]
        with self._lock:
            texts = self._texts_of([*dict.fromkeys(row.text for _, row in passages)])
        query = analyse(text, self._embedder, EPOCH)
        rows = [
            _embedded(id, number, steps[number], row, texts[row.text].vector)
            for id, (number, row) in enumerate(passages, 1)
        ]
        snapshot = Snapshot(self._embedder.dimensions).with_tail(rows)
        lexical = search_words(query.topic, snapshot.id, [texts[row.text].words for _, row in passages])
        found = gather(query, snapshot, lexical, np.ones(len(snapshot), np.bool_))
        return ScoredCandidates.of(query, snapshot, found)

    def _texts_of(self, wanted: Sequence[str]) -> dict[str, _Text]:
        """Return texts of passages by what they say; those that are new are embedded, all at once."""
        missing = [text for text in wanted if text not in self._texts]
        vectors = embed_texts(self._embedder, missing).astype("<f2") if missing else ()
        new = {text: _Text(row.tobytes(), hash_words(text)) for text, row in zip(missing, vectors, strict=True)}
        known = self._texts | new
        found = {text: known[text] for text in wanted}
        self._texts = known if len(known) <= KEPT else found
        return found


def _embedded(id: int, number: int, step: Step, row: PassageRow, vector: bytes) -> EmbeddedPassage:
    """Return a passage of a step as a journal gives it."""
    place, origin = (row.part, row.start, row.end, row.kind, row.asks), (step.type, step.session, step.speaker)
    return EmbeddedPassage(id, number, *place, vector, *origin, 0.0, row.identifiers, "", is_milestone(step))

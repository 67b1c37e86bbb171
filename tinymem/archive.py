"""Long-term memory: the journal, its vectors and an index, as one archive that is written in batches and recalled from.

The journal is the truth. Vectors are made once and kept in it; the vector store follows behind, up to a watermark, and
can be rebuilt without embedding again. While a namespace is small, search is exact over the journal's own vectors,
which is faster than an index and needs none (`EXACT_UP_TO` passages).
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tinymem.base import Step
from tinymem.content import clean
from tinymem.errors import ClosedError, EmbedderMismatchError, FormatError, StepError, StorageError
from tinymem.protocols import Embedder, StepRow, TokenCounter, TokenEmbedder, VectorStore
from tinymem.recall.candidates import Nearest, gather
from tinymem.recall.catalog import SAID, Catalog
from tinymem.recall.features import Steps, features
from tinymem.recall.fusion import Fusion, published
from tinymem.recall.packing import pack
from tinymem.recall.passages import passages_of
from tinymem.recall.query import analyse, embedded
from tinymem.recall.results import Recall
from tinymem.recall.scoring import Filter, Scored
from tinymem.registry import token_embedder_from
from tinymem.serialization import dump_step, load_step
from tinymem.stores.sqlite import SqliteJournal
from tinymem.tokens import count_message

__all__ = ["Archive"]

logger = logging.getLogger(__name__)

BATCH = 256  # passages that are embedded at once, and from which on it is worth while
INDEX_BATCH = 2_000  # vectors that are written to the index at once
EXACT_UP_TO = 100_000  # passages up to which search is exact
REST = 20  # times as long as a failure of the index took, it is left alone,
LONGEST_REST = 60.0  # but not longer than so many seconds


class Archive:
    """A namespace's long-term memory in `folder`.

    `open_store` makes the vector store when it is first needed. `fusion` are other weights than the published ones.
    """

    def __init__(
        self,
        folder: Path,
        embedder: Embedder,
        open_store: Callable[[], VectorStore],
        counter: TokenCounter,
        *,
        create: bool = True,
        fusion: Fusion | None = None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        self.embedder, self.counter = embedder, counter
        self._open_store = open_store
        self._fusion, self._exact_up_to = fusion, exact_up_to
        self._catalog: Catalog | None = None
        self._steps: tuple[int, Steps] | None = None
        self._store: VectorStore | None = None
        self._rest_until = 0.0
        self.journal = SqliteJournal(folder / "journal.db", create)
        try:
            self.key = bytes.fromhex(self._fence_key())
        except BaseException:
            self.journal.close()
            raise

    def _fence_key(self) -> str:
        """The key from when the memory was made; the embedder must be the one from then."""
        given = self.embedder.fingerprint
        if self.journal.setting("embedder") is None:  # of two processes that make a memory at once, one decides
            settings = {"embedder": given, "fence_key": secrets.token_hex(16), "indexed": "0"}
            self.journal.keep(settings, replace=False)
        if (stored := self.journal.setting("embedder") or "") != given:
            raise EmbedderMismatchError(stored, given)
        return self.journal.setting("fence_key") or ""

    # -- in -----------------------------------------------------------------------------------------------------------

    def write(self, steps: Sequence[Step]) -> dict[str, int]:
        """Journal numbered steps, durably, all or none; the position of each, by id."""
        positions: dict[str, int] = {}
        end = self.journal.end()
        rows = []
        for step in steps:
            tokens = sum(count_message(message, self.counter) for message in step.to_messages())
            positions[step.id] = end
            rows.append((_row(step, tokens, end), passages_of(step)))
            end += tokens
        self.journal.add(rows)
        return positions

    def embed_pending(self, at_least: int = 1) -> int:
        """Embed what has no vector yet, in batches, when there are `at_least` so many passages; how many there were."""
        done = 0
        while self.journal.waiting(at_least) >= at_least:
            pending = self.journal.pending(BATCH)
            texts = self._texts([row[1:] for row in pending])
            vectors = embedded(self.embedder, texts)
            self.journal.put_vectors([row[0] for row in pending], vectors, self.token_embedder.token_ids(texts))
            done += len(pending)
        return done

    def _texts(self, places: Sequence[Sequence[int]]) -> list[str]:
        """The texts of passages at (step, part, start, end)."""
        parts = {n: step.parts() for n, step in self.fetch(sorted({step for step, *_ in places})).items()}
        return [clean(parts[step][part].text[start:end]) for step, part, start, end in places]

    @cached_property
    def token_embedder(self) -> TokenEmbedder:
        """What late interaction uses."""
        return token_embedder_from(self.embedder)

    def index_pending(self, at_least: int = 1) -> int:
        """Bring the vector store up to the journal, in batches; how many vectors it got."""
        done, begun = 0, time.monotonic()
        try:
            while not self._resting and self.journal.last_passage() - self._indexed >= at_least:
                store = self.store  # opened first, since that may move the watermark
                if not (rows := self.journal.passages(self._indexed, INDEX_BATCH)):
                    break
                vectors = np.frombuffer(b"".join(row[7] for row in rows), "<f2").reshape(len(rows), -1)
                store.upsert([row[0] for row in rows], vectors.astype(np.float32))
                self.journal.keep({"indexed": str(rows[-1][0])})
                done += len(rows)
        except ClosedError:
            raise
        except StorageError as error:  # another process holds the index: the journal is searched without it
            self._rest(begun)
            logger.info("the index stays behind: %s", error)
        return done

    def _rest(self, begun: float) -> None:
        """Leave alone an index that has failed, since `begun`: one that hangs must not cost its time-out every time."""
        self._rest_until = time.monotonic() + min(REST * (time.monotonic() - begun), LONGEST_REST)

    @property
    def _resting(self) -> bool:
        return time.monotonic() < self._rest_until

    @property
    def _indexed(self) -> int:
        """The watermark: the last passage that the vector store holds."""
        return int(self.journal.setting("indexed") or 0)

    @property
    def store(self) -> VectorStore:
        """The vector store, opened when it is first needed; it is filled anew if it holds less than it should."""
        if self._store is None:
            store = self._open_store()
            try:
                if store.count() < self.journal.embedded(self._indexed):  # another store, or its files were deleted
                    self.journal.keep({"indexed": "0"})
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store

    # -- out ----------------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The arrays over all embedded passages, brought up to the journal."""
        if self._catalog is None:
            self._catalog = Catalog(self.embedder.dimensions, len(self.token_embedder.token_table))
        while rows := self.journal.passages(self._catalog.last_id):
            try:
                self._catalog.extend(rows)
            except ValueError as error:  # a vector of another length
                self._catalog = None
                raise FormatError(f"{self.journal.path} is damaged: {error}") from error
        return self._catalog

    def fetch(self, numbers: Sequence[int]) -> dict[int, Step]:
        """The steps with these numbers."""
        try:
            return {n: load_step(record) for n, record in self.journal.steps(numbers).items()}
        except StepError as error:
            raise FormatError(f"{self.journal.path} is damaged: {error}") from error

    def recall(
        self, text: str, budget: int, now: datetime, *, hidden: Collection[int] = (), only: Filter | None = None
    ) -> Recall:
        """What of the namespace bears on `text`, in at most `budget` tokens; the steps `hidden` are left out."""
        self.embed_pending()
        catalog = self.catalog
        allowed = (only or Filter()).allowed(catalog, hidden)
        if not text.strip() or not allowed.any():
            return Recall("", 0, ())
        scored = self.score(text, now, allowed)
        return pack(scored.ranked(budget), self.fetch, self.counter, budget, self.key)

    def score(self, text: str, now: datetime, allowed: Any) -> Scored:
        """The candidates for `text` among the `allowed` rows of the catalog, with their features and scores."""
        catalog = self.catalog
        query = analyse(text, self.embedder, self.token_embedder, now)
        lexical = self.journal.search_text(query.text)
        begun = time.monotonic()
        try:
            found = gather(query, catalog, lexical, allowed, self._nearest(catalog, allowed))
        except StorageError as error:  # the index fails, or another process holds it: the journal has all vectors
            self._rest(begun)
            logger.info("searching without the index: %s", error)
            found = gather(query, catalog, lexical, allowed, None)
        matrix = features(query, found, catalog, self._stepwise(catalog), self.token_embedder.token_table)
        # A question is answered by whatever says it; a stretch of a run wants other things of a tool than of a person.
        kinds = catalog.kind[found.rows] if query.is_stretch else np.full(len(found.rows), SAID, np.int8)
        return Scored(catalog, found.rows, kinds, matrix, self._fusion or published())

    def _nearest(self, catalog: Catalog, allowed: Any) -> Nearest | None:
        """The search of the index, where it is worth asking and holds everything; None: search exactly."""
        if self._resting or np.count_nonzero(allowed) <= self._exact_up_to:
            return None
        store = self.store
        self.index_pending()
        return store.query if self._indexed >= catalog.last_id else None

    def _stepwise(self, catalog: Catalog) -> Steps:
        if self._steps is None or self._steps[0] != catalog.last_id:
            self._steps = (catalog.last_id, Steps(catalog))
        return self._steps[1]

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove steps for good: texts, vectors and terms, from the journal and from the index's files."""
        texts = {number: self._texts(self.journal.places(number)) for number in numbers}
        self.journal.keep({"indexed": "0"})  # first, so that a crash from here on means a rebuild
        # An index keeps deleted rows in its files, so it is made anew. Where it cannot be, since another process holds
        # it, nothing is forgotten; the other way round, nobody would clear it later.
        self.store.clear()
        try:
            self.journal.delete(texts)
        finally:
            self._catalog = self._steps = None
        self.index_pending()

    def close(self) -> None:
        """Embed and index what is left, and release the files."""
        try:
            self.embed_pending()
            self.index_pending()
        finally:
            if self._store is not None:
                self._store.close()
            self.journal.close()


def _row(step: Step, tokens: int, position: int) -> StepRow:
    assert step.number is not None
    speaker = None if step.speaker is None else clean(step.speaker)
    session = None if step.session is None else clean(step.session)
    time = step.timestamp.timestamp()
    return StepRow(step.number, step.id, step.type, session, speaker, time, tokens, position, dump_step(step))

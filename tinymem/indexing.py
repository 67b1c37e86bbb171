"""The vector store behind the journal: filled from it up to a watermark, asked where it is of use, thrown away at will.

Everything it holds is in the journal as well. So what it lacks is searched exactly; and when it fails, or another
process holds it, it is left alone for a while and all is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

import numpy as np

from tinymem.errors import ClosedError, StorageError
from tinymem.protocols import Ids, Vectors, VectorStore
from tinymem.recall.candidates import Nearest
from tinymem.recall.catalog import Catalog
from tinymem.recall.products import products
from tinymem.stores.schema import damaged
from tinymem.stores.sqlite import SqliteJournal

__all__ = ["Index"]

logger = logging.getLogger(__name__)

BATCH = 2_000  # vectors that are written to the store at once
REST = 20  # times as long as a failure took, the store is left alone,
LONGEST_REST = 60.0  # but not longer than so many seconds
WATERMARK = "indexed"  # the setting with the id of the last passage that the store holds
FILLED = "store_filled"  # the setting that says that a store's files may hold vectors: this store's, or another's


class Index:
    """The vector store of `journal`; `open_store` makes it when it is first needed."""

    def __init__(self, journal: SqliteJournal, open_store: Callable[[], VectorStore]) -> None:
        self._journal, self._open_store = journal, open_store
        self._store: VectorStore | None = None
        self._rest_until = 0.0

    @property
    def store(self) -> VectorStore:
        """The store; it is filled anew if it holds less than it should."""
        if self._store is None:
            store = self._open_store()
            try:  # another store than before, or somebody deleted its files
                if store.count() < self._journal.passages_until(self._watermark):
                    self._journal.keep({WATERMARK: "0"})
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store

    @property
    def _watermark(self) -> int:
        kept = self._journal.setting(WATERMARK) or "0"
        try:
            return int(kept)
        except ValueError as error:
            raise damaged(self._journal.path, f"{kept!r:.80} is no watermark") from error

    def follow(self, at_least: int = 1, most: float = inf) -> int:
        """Bring the store up to the journal, in batches, when it lacks about `at_least` vectors; how many it got, of
        about `most`."""
        done = 0
        with self.resting_after_failure():
            while done < most and not self.rests and self._journal.last_passage() - self._watermark >= at_least:
                store = self.store  # opened first, since that may move the watermark
                if not (rows := self._journal.passages(self._watermark, BATCH)):
                    break
                if not self._journal.setting(FILLED):
                    self._journal.keep({FILLED: "yes"})
                store.upsert([row[0] for row in rows], _vectors(rows))
                self._journal.keep({WATERMARK: str(rows[-1][0])})
                done += len(rows)
        return done

    def keep_up(self) -> None:
        """Give the store one batch, if it lacks as much."""
        self.follow(BATCH, most=BATCH)

    def nearest(self, catalog: Catalog) -> Nearest | None:
        """A search of the store, and exactly of what it lacks; None when it lacks too much to be worth asking."""
        self.keep_up()  # one that was lost comes back with every search
        if self.rests:
            return None
        store = self.store
        watermark = self._watermark  # read after the store was opened, since that may move it
        held = int(np.searchsorted(catalog.id, watermark, "right"))
        if held <= len(catalog) // 2:
            return None

        def search(vector: Vectors, k: int) -> tuple[Ids, Vectors]:
            ids, cosines = store.query(vector, k)
            mine = ids <= watermark  # a crash can leave some beyond it
            ids = np.concatenate([ids[mine], catalog.id[held:]])
            beyond = products(catalog.vectors[held:], vector[np.newaxis])[:, 0]
            cosines = np.concatenate([cosines[mine], beyond])
            best = np.argpartition(-cosines, k)[:k] if len(cosines) > k else np.arange(len(cosines))
            best = best[np.argsort(-cosines[best], kind="stable")]
            return ids[best], cosines[best]

        return search

    @property
    def rests(self) -> bool:
        """Whether it is left alone now."""
        return time.monotonic() < self._rest_until

    @contextmanager
    def resting_after_failure(self) -> Iterator[None]:
        """Log a StorageError of the store, and leave the store alone: one that hangs must not cost its time-out every
        time."""
        begun = time.monotonic()
        try:
            yield
        except StorageError as error:
            if isinstance(error, ClosedError):
                self._journal.last_passage()  # raises where it is the journal that is closed, and not the store alone
            self._rest_until = time.monotonic() + min(REST * (time.monotonic() - begun), LONGEST_REST)
            logger.info("going on without the index: %s", error)

    def clear(self) -> None:
        """Remove all vectors from the store's files, if any store of this journal ever had some.

        Raises StorageError where that cannot be.
        """
        if self._store is None and not self._journal.setting(FILLED):
            return
        self._journal.keep({WATERMARK: "0"})  # first, so that a crash from here on means that it is filled anew
        self.store.clear()

    def close(self) -> None:
        """Release the store's files."""
        if self._store is not None:
            self._store.close()


def _vectors(rows: Sequence[Any]) -> Vectors:
    """The vectors of passages as the journal gives them: `(len(rows), dimensions)` float32."""
    return np.frombuffer(b"".join(row[7] for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)

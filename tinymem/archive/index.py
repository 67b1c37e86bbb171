"""The vector store behind the journal, which fills it up to a watermark and can always rebuild it.

Everything in the store is in the journal as well. Passages that the store lacks are searched exactly. If it fails, or
another process holds it, it is left alone for a while and all passages are searched exactly.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path

import numpy as np

from tinymem.errors import ClosedError, StorageError, TinymemError, shown
from tinymem.protocols import EmbeddedPassage, Ids, Journal, Vectors, VectorStore
from tinymem.protocols.settings import EMBEDDER_CHANGES, FILLED, WATERMARK
from tinymem.recall.candidates import Nearest
from tinymem.recall.catalog import Catalog
from tinymem.recall.late import products
from tinymem.registry import erase_store, store_from

__all__ = ["Index"]

logger = logging.getLogger(__name__)

BATCH = 2_000  # vectors that are written to the store at once
REST = 20  # a failed store is left alone this many times as long as the failure took,
LONGEST_REST = 60.0  # but at most this many seconds


class Index:
    """The vector store of `journal`, with its files in `folder`; `open_store` makes it when it is first needed."""

    def __init__(self, journal: Journal, folder: Path, open_store: Callable[[], VectorStore]) -> None:
        self._journal, self._folder, self._open_store = journal, folder, open_store
        self._store: VectorStore | None = None
        self._in_memory: int | None = None  # the watermark of a store that no other process can see
        self._rest_until = 0.0

    @property
    def store(self) -> VectorStore:
        """The store; it is filled again if it holds fewer vectors than it should."""
        if self._store is None:
            store = self._open_store()
            self._in_memory = 0 if getattr(store, "in_memory", False) else None
            try:
                self._clear_of_another_embedder(store)
                # a different store than before, or its files were deleted
                if store.count() < self._journal.passages_until(self.watermark):
                    self._move_to(0)
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store

    def _clear_of_another_embedder(self, store: VectorStore) -> None:
        """Clear a store that holds vectors from before the memory was reindexed, maybe of another length."""
        changes, cleared = self._journal.setting(EMBEDDER_CHANGES), f"{EMBEDDER_CHANGES} {store.name}"
        if changes and self._journal.setting(cleared) != changes:
            store.clear()
            self._move_to(0)
            self._journal.keep({cleared: changes})

    @property
    def watermark(self) -> int:
        """The id of the last passage that the store holds."""
        if self._in_memory is not None:
            return self._in_memory
        kept = self._journal.setting(WATERMARK) or "0"
        if not re.fullmatch("[0-9]{1,18}", kept):
            raise self._journal.damaged(f"the index's watermark is {shown(kept)}, not a number")
        return int(kept)

    def _move_to(self, watermark: int) -> None:
        if self._in_memory is not None:
            self._in_memory = watermark
        else:
            self._journal.keep({WATERMARK: str(watermark)})

    @property
    def is_filled(self) -> bool:
        """True if a store of this journal, in any process, may have vectors in its files."""
        return bool(self._filled)

    @property
    def _filled(self) -> list[str]:
        """The names of the stores that may have vectors in their files."""
        return (self._journal.setting(FILLED) or "").splitlines()

    def follow(self, at_least: int = 1, most: float = inf) -> int:
        """Add missing vectors to the store, in batches.

        Args:
            at_least: Do nothing while the store lacks fewer vectors than about this.
            most: Stop after about this many vectors.

        Returns:
            The number of vectors that were added.
        """
        done = 0
        with self.resting_after_failure():
            while done < most and not self.rests and self._journal.last_passage() - self.watermark >= at_least:
                if not (got := self._advance()):
                    break
                done += got
        return done

    def _advance(self) -> int:
        """Add one batch of missing vectors to the store, and return their number."""
        store = self.store  # opened first, since that may move the watermark
        if self._in_memory is None and store.name not in (filled := self._filled):
            # noted before the vectors are read, so that a process that forgets them meanwhile clears this store too
            self._journal.keep({FILLED: "\n".join([*filled, store.name])})
        if rows := self._journal.passages(self.watermark, BATCH):
            store.upsert([row.id for row in rows], _vectors(rows))
            self._move_to(rows[-1].id)
        return len(rows)

    def renew(self) -> int:
        """Clear and fill the store, and return the number of vectors; errors of the store come through."""
        self.clear()
        done = 0
        while got := self._advance():
            done += got
        return done

    def keep_up(self) -> None:
        """Add one batch to the store, if it lacks as many vectors."""
        self.follow(BATCH, most=BATCH)

    def nearest(self, catalog: Catalog) -> Nearest | None:
        """Return a search of the store and, exactly, of the passages it lacks; None if it lacks most of them."""
        self.keep_up()  # a store that was lost is filled again, one batch for each search
        if self.rests:
            return None
        store = self.store
        watermark = self.watermark  # read after the store was opened, since that may move it
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
        """True while the store is left alone after a failure."""
        return time.monotonic() < self._rest_until

    @contextmanager
    def resting_after_failure(self) -> Iterator[None]:
        """Log a StorageError of the store, and leave the store alone, so that not every call waits for its time-out."""
        begun = time.monotonic()
        try:
            yield
        except StorageError as error:
            if isinstance(error, ClosedError):
                self._journal.last_passage()  # raises where it is the journal that is closed, and not the store alone
            self._rest_until = time.monotonic() + min(REST * (time.monotonic() - begun), LONGEST_REST)
            logger.info("going on without the index: %s", error)

    def clear(self) -> None:
        """Remove all vectors from the files of all stores that this journal ever had; StorageError if one fails."""
        filled = self._filled
        if self._store is None and not filled:
            return
        store = self.store  # first: where another process holds it, nothing may be written
        for name in filled:
            if name != store.name:
                self._clear_other(name)
        self._journal.keep({WATERMARK: "0"})  # written before the store is cleared: after a crash it is filled again
        store.clear()
        self._move_to(0)

    def _clear_other(self, name: str) -> None:
        """Clear a store that the memory used before this one."""
        try:
            if not erase_store(name, self._folder):
                with closing(store_from(name, self._folder)) as store:
                    store.clear()
        except TinymemError as error:
            raise StorageError(
                f"the store {name} also holds vectors of this memory and cannot be cleared: {error}; "
                "open the memory with that store, and try again"
            ) from error

    def reconsider(self) -> None:
        """Empty a store in memory after another process has forgotten steps; that process has cleared store files."""
        if self._store is not None and self._in_memory is not None:
            self._in_memory = 0
            self._store.clear()

    def close(self) -> None:
        """Release the store's files."""
        if self._store is not None:
            self._store.close()


def _vectors(rows: Sequence[EmbeddedPassage]) -> Vectors:
    """Return the vectors of passages, `(len(rows), dimensions)` float32."""
    return np.frombuffer(b"".join(row.vector for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)

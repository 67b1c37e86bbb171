"""The vector store behind the journal: filled from it up to a watermark, asked where it is of use, thrown away at will.

Everything it holds is in the journal as well. So what it lacks is searched exactly; and when it fails, or another
process holds it, it is left alone for a while and all is.
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
REST = 20  # times as long as a failure took, the store is left alone,
LONGEST_REST = 60.0  # but not longer than so many seconds


class Index:
    """The vector store of `journal`, with its files in `folder`; `open_store` makes it when it is first needed."""

    def __init__(self, journal: Journal, folder: Path, open_store: Callable[[], VectorStore]) -> None:
        self._journal, self._folder, self._open_store = journal, folder, open_store
        self._store: VectorStore | None = None
        self._in_memory: int | None = None  # the watermark of a store that no other process can see
        self._rest_until = 0.0

    @property
    def store(self) -> VectorStore:
        """The store; it is filled again if it holds less than it should."""
        if self._store is None:
            store = self._open_store()
            self._in_memory = 0 if getattr(store, "in_memory", False) else None
            try:
                self._clear_of_another_embedder(store)
                # another store than before, or somebody deleted its files
                if store.count() < self._journal.passages_until(self.watermark):
                    self._move_to(0)
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store

    def _clear_of_another_embedder(self, store: VectorStore) -> None:
        """Clear what a store holds from before the memory was reindexed: other vectors, maybe of another length."""
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
            raise self._journal.damaged(f"the index is said to hold passages up to {shown(kept)}")
        return int(kept)

    def _move_to(self, watermark: int) -> None:
        if self._in_memory is not None:
            self._in_memory = watermark
        else:
            self._journal.keep({WATERMARK: str(watermark)})

    @property
    def is_filled(self) -> bool:
        """True if a store of this journal, be it another process's, may have vectors in its files."""
        return bool(self._filled)

    @property
    def _filled(self) -> list[str]:
        """Names of the stores that may."""
        return (self._journal.setting(FILLED) or "").splitlines()

    def follow(self, at_least: int = 1, most: float = inf) -> int:
        """Bring the store up to the journal, in batches, when it lacks about `at_least` vectors; how many it got, of
        about `most`."""
        done = 0
        with self.resting_after_failure():
            while done < most and not self.rests and self._journal.last_passage() - self.watermark >= at_least:
                if not (got := self._advance()):
                    break
                done += got
        return done

    def _advance(self) -> int:
        """Give the store a batch of what it lacks; how many vectors."""
        store = self.store  # opened first, since that may move the watermark
        if self._in_memory is None and store.name not in (filled := self._filled):
            # before anything is read, for who forgets it then
            self._journal.keep({FILLED: "\n".join([*filled, store.name])})
        if rows := self._journal.passages(self.watermark, BATCH):
            store.upsert([row.id for row in rows], _vectors(rows))
            self._move_to(rows[-1].id)
        return len(rows)

    def renew(self) -> int:
        """Fill the store from the beginning; how many vectors it got. Raises what the store raises."""
        self.clear()
        done = 0
        while got := self._advance():
            done += got
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
        """True while it is left alone."""
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
        """Remove all vectors from the files of all stores that this journal ever had.

        Raises StorageError where that cannot be.
        """
        filled = self._filled
        if self._store is None and not filled:
            return
        store = self.store  # first: where another process holds it, nothing may be written
        for name in filled:
            if name != store.name:
                self._clear_other(name)
        self._journal.keep({WATERMARK: "0"})  # before it is cleared, so that after a crash it is filled again
        store.clear()
        self._move_to(0)

    def _clear_other(self, name: str) -> None:
        """Clear a store that the memory had before it was opened with this one."""
        try:
            if not erase_store(name, self._folder):
                with closing(store_from(name, self._folder)) as store:
                    store.clear()
        except TinymemError as error:
            raise StorageError(
                f"vectors of this memory are in the store {name} too, which cannot be cleared: {error}; "
                "open the memory with that store, and do so again"
            ) from error

    def reconsider(self) -> None:
        """Empty a store in memory, since another process has forgotten steps; one with files it has emptied itself."""
        if self._store is not None and self._in_memory is not None:
            self._in_memory = 0
            self._store.clear()

    def close(self) -> None:
        """Release the store's files."""
        if self._store is not None:
            self._store.close()


def _vectors(rows: Sequence[EmbeddedPassage]) -> Vectors:
    """The vectors of passages as the journal gives them: `(len(rows), dimensions)` float32."""
    return np.frombuffer(b"".join(row.vector for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)

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
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeVar

import numpy as np

from tinymem.archive.indexing.background import SHORTLY, IndexLock, is_background, is_held
from tinymem.archive.indexing.records import upsert_options, vectors_of
from tinymem.errors import ClosedError, ReadOnlyError, StorageError, TinymemError, safe_repr
from tinymem.protocols import EmbeddedPassage, Ids, Journal, Vectors, VectorStore
from tinymem.protocols.settings import (
    EMBEDDER_CHANGES,
    FILLED,
    FORGOTTEN,
    INDEX_FAULT,
    INDEX_REQUEST,
    OUTDATED,
    WATERMARK,
)
from tinymem.recall.candidates import Nearest, products
from tinymem.recall.snapshot import Snapshot
from tinymem.registry import erase_store, store_from

__all__ = ["BATCH", "EXACT_UP_TO", "Index"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

EXACT_UP_TO = 100_000  # passages up to which search is exact
BATCH = 1_000  # vectors that are written to the store at once
REST = 20  # times as long as a failure took, the store is left alone,
LONGEST_REST = 60.0  # but not longer than so many seconds
HANDED_OVER = 10.0  # seconds that are waited for another process to close the store
ASK_AGAIN = 0.05  # seconds after which it is looked again if it has


class Index:
    """The vector store of `journal`, with its files in `folder`; `open_store` makes it when it is first needed.

    With `reopens`, `open_store` makes another one each time, so that an idle store can be closed meanwhile. Up to
    `exact_up_to` passages nobody asks the store. Any number of threads may use an index; `alone` keeps the others out.
    """

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        open_store: Callable[[], VectorStore],
        *,
        reopens: bool = False,
        in_memory: bool = False,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        self._journal, self._folder, self._open_store, self._reopens = journal, folder, open_store, reopens
        self.alone, self.exact_up_to = IndexLock(folder), exact_up_to
        self._store: VectorStore | None = None
        self._in_memory = 0 if in_memory else None  # the watermark of a store that no other process can see
        self._is_stale = False  # true of a store in memory that is to be emptied
        self._rest_until = 0.0
        self.asked_at = self.used_at = -inf  # when a search last wanted the store, and anybody used it

    @property
    def store(self) -> VectorStore:
        """The store; it is filled again if it holds less than it should."""
        with self.alone:
            self.used_at = time.monotonic()
            if self._store is None:
                if self._journal.is_read_only:  # a store writes when it is opened
                    raise ReadOnlyError(self._journal.location)
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

    def open(self) -> None:
        """Open the store, unless it is open."""
        self.store.name  # noqa: B018

    @property
    def is_open(self) -> bool:
        """True while the store is open in this process."""
        return self._store is not None

    @property
    def is_in_memory(self) -> bool:
        """True if no other process sees what the store holds."""
        return self._in_memory is not None

    @property
    def is_small_in_memory(self) -> bool:
        """True if the store is in memory only, and so small that nobody will ask it."""
        return self.is_in_memory and self._journal.last_passage() < self.exact_up_to // 2

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
            raise self._journal.damaged(f"the index's watermark is {safe_repr(kept)}, not a number")
        return int(kept)

    def _move_to(self, watermark: int) -> None:
        if self._in_memory is not None:
            self._in_memory = watermark
        else:
            self._journal.keep({WATERMARK: str(watermark)})

    @property
    def _filled(self) -> list[str]:
        """The names of the stores that may have vectors in their files."""
        return (self._journal.setting(FILLED) or "").splitlines()

    # -- in -----------------------------------------------------------------------------------------------------------

    @property
    def lacks(self) -> bool:
        """True if the store has not all that the journal has."""
        return self.is_unclean or self._journal.last_passage() > self.watermark

    @property
    def is_unclean(self) -> bool:
        """True if the store has something that is to go, or to be written again."""
        return bool(self._journal.setting(OUTDATED) or self._is_stale or self._forgotten)

    def follow(self, progress: Callable[[int], object] = id) -> int:
        """Bring the store up to the journal as it is now, in batches; how many vectors it got.

        `progress` hears of how many after each batch. Raises what the store raises.
        """
        self.open()  # which finds out if its files are gone
        until, done = self._journal.last_passage(), 0
        while self.watermark < until or self.is_unclean:
            done += self.advance()
            progress(done)
        return done

    def advance(self) -> int:
        """Give the store a batch of what it lacks; how many vectors. Raises what the store raises."""
        with self.alone:
            self.forget()  # what another process could not
            store = self.store  # opened first, since that may move the watermark
            if self._is_stale:
                self._is_stale, self._in_memory = False, 0
                store.clear()
            if self._in_memory is None and store.name not in (filled := self._filled):
                # before anything is read, for who forgets it then
                self._journal.keep({FILLED: "\n".join([*filled, store.name])})
            self._bring_up_to_date(store)
            if rows := self._journal.passages(self.watermark, BATCH):
                self._write(store, rows)
                self._move_to(rows[-1].id)
            return len(rows)

    def _write(self, store: VectorStore, rows: Sequence[EmbeddedPassage]) -> None:
        store.upsert([row.id for row in rows], vectors_of(rows), **upsert_options(store, rows))

    def outdate(self, ids: Sequence[int]) -> None:
        """Have what stands beside these vectors written again."""
        held = [str(id) for id in ids if id <= self.watermark]
        if held and self._filled:
            self._journal.keep({OUTDATED: " ".join([*(self._journal.setting(OUTDATED) or "").split(), *held])})

    def _bring_up_to_date(self, store: VectorStore) -> None:
        if not (outdated := self._journal.setting(OUTDATED)):
            return
        ids = sorted({int(id) for id in outdated.split() if id.isdecimal()})
        found = [row for id in ids for row in self._journal.passages(id - 1, 1) if row.id == id]
        store.delete(sorted({*ids} - {row.id for row in found}))  # of what was replaced
        for at in range(0, len(found), BATCH):
            self._write(store, found[at : at + BATCH])
        with self._journal.together():
            if self._journal.setting(OUTDATED) == outdated:  # nobody has added one meanwhile
                self._journal.keep({OUTDATED: ""})

    def renew(self, progress: Callable[[int], object] = id) -> int:
        """Clear and fill the store, and return the number of vectors; `progress` and errors are as in `follow`."""
        self.clear()
        return self.follow(progress)

    # -- out ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def asking(self, catalog: Snapshot) -> Iterator[Nearest | None]:
        """Give `nearest`, or None while the store is not open, or another thread is busy with it: nobody waits."""
        self.asked_at = time.monotonic()
        if not self.alone.acquire(blocking=False):
            yield None
            return
        try:
            yield self.nearest(catalog)
        finally:
            self.alone.release()

    def nearest(self, catalog: Snapshot) -> Nearest | None:
        """A search of the store, and exactly of what it lacks; None when it is not open, or lacks half and more."""
        if self.rests or self._is_stale or (store := self._store) is None:
            return None
        watermark = self.watermark
        held = int(np.searchsorted(catalog.id, watermark, "right"))
        if held <= len(catalog) // 2:
            return None

        def search(vector: Vectors, k: int) -> tuple[Ids, Vectors]:
            ids, cosines = store.query(vector, k)
            mine = ids <= watermark  # a crash can leave some beyond it
            ids = np.concatenate([ids[mine], catalog.id[held:]])
            beyond = products(vector[np.newaxis], catalog.vectors[held:])[0]
            cosines = np.concatenate([cosines[mine], beyond])
            best = np.argpartition(-cosines, k)[:k] if len(cosines) > k else np.arange(len(cosines))
            best = best[np.argsort(-cosines[best], kind="stable")]
            return ids[best], cosines[best]

        return search

    # -- failing ------------------------------------------------------------------------------------------------------

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

    @property
    def fault(self) -> str:
        """Why what waits could not be written when it was last tried, by any process; "" where it could."""
        return self._journal.setting(INDEX_FAULT) or ""

    @fault.setter
    def fault(self, fault: str) -> None:
        if fault != self.fault:
            self._journal.keep({INDEX_FAULT: fault})

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Delete the files of all stores that this journal ever had, if passages were deleted since they were filled.

        The background fills the store again. Raises StorageError where that cannot be; then whatever process next fills
        the index begins with it.
        """
        with self.alone:
            if not (ids := self._forgotten):
                return
            self.clear()
            with self._journal.together():
                rest = sorted({*self._forgotten} - {*ids})  # of another process, meanwhile
                self._journal.keep({FORGOTTEN: " ".join(map(str, rest))})

    @property
    def _forgotten(self) -> list[int]:
        """The ids of passages that are deleted, whose vectors may still be in files."""
        return [int(id) for id in (self._journal.setting(FORGOTTEN) or "").split() if id.isdecimal()]

    def clear(self) -> None:
        """Remove all vectors from the files of all stores that this journal ever had.

        Raises StorageError where that cannot be.
        """
        with self.alone:
            filled = self._filled
            if self._store is None and not filled:
                return
            self.rest()
            # before it is cleared, so that after a crash it is filled again
            self._journal.keep({WATERMARK: "0", OUTDATED: ""})
            if self._store is not None or not self._reopens:
                store = self._once_free(lambda: self.store)
                store.clear()
                filled = [name for name in filled if name != store.name]
            for name in filled:
                self._once_free(partial(self._clear_other, name))
            self._move_to(0)

    def _once_free(self, use: Callable[[], T]) -> T:
        """Return what `use` returns; a process that has the store open is asked to close it, and waited for.

        The background thread waits a moment only: it may be the one that closes it, for another memory.
        """
        patience = SHORTLY if is_background() else HANDED_OVER
        until = time.monotonic() + min(patience, HANDED_OVER)
        try:
            while True:
                try:
                    return use()
                except StorageError as error:
                    if not is_held(error) or time.monotonic() > until:
                        raise
                if not self.is_requested:
                    self._journal.keep({INDEX_REQUEST: str(time.time())})
                time.sleep(ASK_AGAIN)
        finally:
            if self._journal.setting(INDEX_REQUEST):
                self._journal.keep({INDEX_REQUEST: ""})

    @property
    def is_requested(self) -> bool:
        """True while another process waits for the store."""
        try:
            return abs(time.time() - float(self._journal.setting(INDEX_REQUEST) or 0)) < HANDED_OVER
        except ValueError:  # damaged
            return False

    def _clear_other(self, name: str) -> None:
        """Clear a store that the memory used before this one."""
        try:
            if not erase_store(name, self._folder):
                with closing(store_from(name, self._folder)) as store:
                    store.clear()
        except TinymemError as error:
            if is_held(error):
                raise
            raise StorageError(
                f"the store {name} also holds vectors of this memory and cannot be cleared: {error}; "
                "open the memory with that store, and try again"
            ) from error

    def reconsider(self) -> None:
        """Have a store in memory emptied, since another process has forgotten steps; one with files it has emptied.

        Nothing is waited for: the caller has the journal, and the thread that fills the store may wait for that.
        """
        self._is_stale = self._in_memory is not None and self._store is not None

    def rest(self) -> None:
        """Close a store that can be opened again, so that it takes no memory, and other processes can have it."""
        with self.alone:
            if self._reopens and self._in_memory is None and self._store is not None:
                store, self._store = self._store, None
                store.close()

    def close(self) -> None:
        """Release the store's files."""
        with self.alone:
            if self._store is not None:
                self._store.close()

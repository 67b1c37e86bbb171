"""The catalog of a namespace as files: columns that only grow, mapped by every process, and derived from the journal.

Nothing of a memory's size is read when it is opened, nor held by a process: the page cache of the system holds what is
used, once for all processes. A process that finds passages in the journal beyond the files appends them, under a lock,
and then replaces the state, which says how much is written. Files that somebody has touched, and those that were
written before the machine was started again, are checked by their checksums; where anything is wrong, all are made
again. When a step is forgotten, all is copied but what was made of it, and the old files are overwritten.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinymem.archive.catalog.columns import Columns, erase
from tinymem.archive.catalog.state import DamagedCatalogError, Origin, State, boot, read_state, write_state
from tinymem.errors import StorageError
from tinymem.protocols import Journal
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_CHANGES, REWRITES
from tinymem.recall.catalog import Catalog
from tinymem.stores.files import FILE, private_folder

__all__ = ["CATALOG", "CatalogFiles", "OutdatedError"]

logger = logging.getLogger(__name__)

CATALOG = "catalog"  # the folder, in a namespace's
STATE, LOCK = "state", "lock"
WAIT = 30.0  # seconds for another process that writes, and gets no further
PAUSE = 0.005


class OutdatedError(Exception):
    """Another process has forgotten something, or changed the embedder, since the snapshot of the journal."""


class CatalogFiles:
    """The files in `folder`, of a namespace's. Any number of threads and processes may use them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = threading.RLock()
        self._columns: Columns | None = None
        self._state: State | None = None
        self._read: tuple[int, int, int] | None = None  # which state was read
        self._catalog: Catalog | None = None
        self._is_off = False
        self._is_compared = False
        self._turns = 0

    @property
    def exist(self) -> bool:
        """True if there are files, or were."""
        return self._folder.exists()

    def catalog(self, journal: Journal, dimensions: int, vocabulary: int) -> Catalog | None:
        """Return the catalog of all passages of the journal, and maybe of some that came after its snapshot; the same
        object as long as nothing changes.

        None where files cannot serve, and it must be read into memory. OutdatedError where something was forgotten or
        changed since the snapshot of the journal.
        """
        if self._is_off:
            return None
        origin = _origin(journal, dimensions, vocabulary)
        try:
            with self._thread:
                if not self._is_current(journal, origin):
                    with self._locked(), journal.reading() as now:
                        if _origin(now, dimensions, vocabulary) != origin:
                            raise OutdatedError
                        self._bring_up(now, origin)
                return self._catalog
        except TimeoutError as error:
            logger.info("going on without the files of the catalog: %s", error)
        except (OSError, ImportError) as error:
            self._is_off = True
            logger.info("the catalog is held in memory, since its files cannot be used: %s", error)
        self._let_go()
        return None

    def _let_go(self) -> None:
        self._is_compared = False
        self._columns = self._state = self._read = self._catalog = None

    def _is_current(self, journal: Journal, origin: Origin) -> bool:
        """Map what the state says is written, if that can be believed, and the journal has no more than that."""
        try:
            self._look()
            state, catalog = self._state, self._catalog
            if state is None or catalog is None or state.origin != origin:
                return False
            self._compare(journal)
            assert self._columns is not None
            return self._columns.stamps(state) == state.stamps and journal.last_passage() <= catalog.last_id
        except DamagedCatalogError:
            return False

    def _look(self) -> None:
        """Read the state, if it is another than before, and map what it tells of, if that is as it was written."""
        if (stamp := self._stamp()) == self._read and stamp:
            return
        self._read, self._catalog = None, None
        state = read_state(self._folder / STATE)
        columns = self._of(state)
        if state.boot != boot() or not boot() or columns.stamps(state) != state.stamps:
            raise DamagedCatalogError("to be checked")
        if any(path.stem.isdecimal() and path.name != str(state.generation) for path in self._folder.iterdir()):
            raise DamagedCatalogError("to be cleaned")  # something was forgotten, half way
        self._take(state)
        self._read = stamp

    def _of(self, state: State) -> Columns:
        """The columns that the state is about: those that are mapped already, if it is about them."""
        folder = self._folder / str(state.generation)
        if self._columns is None or self._columns.folder != folder:
            self._columns = Columns(folder, state.origin.dimensions)
        return self._columns

    def _take(self, state: State) -> None:
        self._catalog, self._state = self._of(state).catalog(state), state

    # -- under the lock -----------------------------------------------------------------------------------------------

    def _bring_up(self, journal: Journal, origin: Origin) -> None:
        """Bring the files up to the journal as it is now. Raises ValueError where it is damaged."""
        try:
            self._trust(journal, origin)
        except DamagedCatalogError as error:
            logger.info("the catalog in %s is made from the journal: %s", self._folder, error)
            self._begin(origin)
        assert self._catalog is not None
        try:
            while rows := journal.passages(self._catalog.last_id):
                piece = self._catalog.following()
                piece.extend(rows)
                assert self._state is not None
                self._keep(self._of(self._state).append(self._state, piece))
        except BaseException:
            self._let_go()  # names of passages that were not written
            raise

    def _trust(self, journal: Journal, origin: Origin) -> None:
        """Take the state and the files, once they are checked if need be. Raises DamagedCatalogError."""
        self._read = None
        try:
            self._look()
            assert self._state is not None
            state = self._state
            if self._of(state).stamps(state) != state.stamps:
                raise DamagedCatalogError("touched")
        except DamagedCatalogError:
            state = read_state(self._folder / STATE)
            self._let_go()  # what was mapped may have been cut short
            columns = self._of(state)
            if state.origin == origin:
                columns.check(state)
                self._keep(columns.see_again(state))
        if state.origin != origin:
            self._refuse_to_take_turns(state.origin, origin)
            raise DamagedCatalogError("something was forgotten, or the embedder changed")
        self._compare(journal)
        self._clean(keep=state.generation)

    def _refuse_to_take_turns(self, held: Origin, origin: Origin) -> None:
        """Raise OSError when these files are made again and again, by processes whose token tables differ."""
        if replace(held, dimensions=origin.dimensions, vocabulary=origin.vocabulary) == origin:
            self._turns += 1
            if self._turns > 1:
                raise OSError("another process has another table of tokens")

    def _compare(self, journal: Journal) -> None:
        """Raise DamagedCatalogError unless the newest passage is the journal's: that may be a copy from before."""
        assert self._catalog is not None
        if self._is_compared or not (held := self._catalog.last_id):
            return
        rows = journal.passages(held - 1, 1)
        piece = Catalog(self._catalog.dimensions, len(self._catalog.document_frequency))
        piece.extend(rows)
        if not rows or piece.id[0] != held or piece.step[0] != self._catalog.step[-1]:
            raise DamagedCatalogError("the journal is another")
        if not np.array_equal(piece.vectors[0], self._catalog.vectors[-1]):
            raise DamagedCatalogError("the journal has other vectors")
        self._is_compared = True

    def _begin(self, origin: Origin) -> None:
        """Begin without passages."""
        self._let_go()
        private_folder(self._folder)
        state = State(origin, self._next(), frequency=np.zeros(origin.vocabulary, np.int64))
        columns = self._of(state)
        private_folder(columns.folder)
        nothing = Catalog(origin.dimensions, origin.vocabulary)
        self._keep(columns.append(state, nothing))
        self._clean(keep=state.generation)

    def _next(self) -> int:
        """The number of a generation that there never was."""
        return 1 + max((int(path.stem) for path in self._folder.iterdir() if path.stem.isdecimal()), default=0)

    def _keep(self, state: State) -> None:
        """Make this the state, now that all that it tells of is written."""
        write_state(self._folder / STATE, state)
        self._take(replace(state, boot=boot()))
        self._read = self._stamp()

    def _clean(self, keep: int = 0) -> None:
        """Erase all other generations of files."""
        for path in self._folder.iterdir():
            if path.is_dir() and path.name != str(keep):
                erase(path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let no other process write meanwhile; TimeoutError where one does, and gets no further."""
        fcntl = importlib.import_module("fcntl")
        private_folder(self._folder)
        file = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, FILE)
        try:
            self._wait_for(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked off meanwhile has the file open
        finally:
            os.close(file)

    def _wait_for(self, take: Callable[[], object]) -> None:
        seen, deadline = self._stamp(), time.monotonic() + WAIT
        while True:
            try:
                take()
                return
            except BlockingIOError as error:
                if (stamp := self._stamp()) != seen:
                    seen, deadline = stamp, time.monotonic() + WAIT
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another process writes in {self._folder}") from error
                time.sleep(PAUSE)

    def _stamp(self) -> tuple[int, int, int] | None:
        """Tell one state from the next; None where there is none."""
        try:
            found = (self._folder / STATE).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, journal: Journal, steps: Sequence[int]) -> None:
        """Leave nothing of these steps, which the journal has forgotten. Raises StorageError where that fails."""
        try:
            self._rewrite(journal, steps, None)
        except OSError as error:
            raise StorageError(
                f"{self._folder}: the steps are deleted, but what was made of them stays in these files: "
                f"{error.strerror or error}; delete the folder, and it is made again"
            ) from error

    def set_milestones(self, journal: Journal, steps: Sequence[int], milestone: bool) -> None:
        """Make these steps milestones, or none, as the journal has done; where that fails, all is made again later."""
        with suppress(OSError):
            self._rewrite(journal, steps, milestone)

    def _rewrite(self, journal: Journal, steps: Sequence[int], milestone: bool | None) -> None:
        """Bring the files up to the one rewrite of the journal that concerns `steps`."""
        if not self.exist:
            return
        with self._thread, self._locked(), journal.reading() as now:
            try:
                state = read_state(self._folder / STATE)
                origin = _origin(now, state.origin.dimensions, state.origin.vocabulary)
                if state.origin == replace(origin, rewrites=origin.rewrites - 1):
                    self._copy(state, origin, steps, milestone)
                elif state.origin != origin:
                    raise DamagedCatalogError("other things have changed as well")
                else:
                    self._clean(keep=state.generation)
            except DamagedCatalogError:
                self._erase()

    def _copy(self, state: State, origin: Origin, steps: Sequence[int], milestone: bool | None) -> None:
        """Copy the files; all but these steps, or with these steps as milestones or none."""
        columns = self._of(state)
        if state.boot != boot() or not boot() or columns.stamps(state) != state.stamps:
            columns.check(state)
        start = State(origin, self._next(), frequency=np.zeros_like(state.frequency))
        to = Columns(self._folder / str(start.generation), origin.dimensions)
        private_folder(to.folder)
        self._keep(columns.copy(state, to, start, np.array(steps, np.int64), milestone))
        self._clean(keep=start.generation)

    def erase(self) -> None:
        """Leave nothing. Raises OSError."""
        if self.exist:
            with self._thread, self._locked():
                self._erase()

    def _erase(self) -> None:
        self._let_go()
        (self._folder / STATE).unlink(missing_ok=True)
        self._clean()


def _origin(journal: Journal, dimensions: int, vocabulary: int) -> Origin:
    changes, rewrites = (int(journal.setting(key) or 0) for key in (EMBEDDER_CHANGES, REWRITES))
    return Origin(journal.setting(EMBEDDER) or "", changes, rewrites, dimensions, vocabulary)

"""The catalog of a namespace as files: columns that only grow, mapped by every process, and derived from the journal.

Opening a memory reads nothing of its size, and no process holds it: the system's page cache has the pages that are
used, once for all processes. A process that finds passages in the journal beyond the files appends them, under a lock,
and then replaces the state, which counts what is written. Files that were touched by something else, or written before
the machine was started again, are compared with their checksums. If anything is wrong, all are made again. When a step
is forgotten, its rows are overwritten with nothing; when many are empty, the others are copied.

The newest passages, up to TAIL of them, are written into this process's own pages of what it has mapped, and reach the
files together: an agent's turn adds a few, and writing nine files for them would take a tenth of its context.
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

from tinymem.archive.catalog.changes import empty, is_worth_copying, mark
from tinymem.archive.catalog.columns import Columns, erase
from tinymem.archive.catalog.state import DamagedCatalogError, Origin, State, boot, read_state, write_state
from tinymem.errors import StorageError
from tinymem.protocols import Ids, Journal
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_CHANGES, REWRITES
from tinymem.recall.catalog import Catalog
from tinymem.steps.progress import Progress, no_progress
from tinymem.stores.files import FILE, make_private_folder

__all__ = ["CATALOG", "CatalogFiles", "OutdatedError"]

logger = logging.getLogger(__name__)

CATALOG = "catalog"  # the folder, in a namespace's
STATE, LOCK = "state", "lock"
TAIL = 64  # passages that are in no file yet
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
        self._tail = 0  # its passages that are in no file
        self._is_off = False
        self._is_compared = False

    @property
    def exist(self) -> bool:
        """True if there are files, or were."""
        return self._folder.exists()

    def catalog(self, journal: Journal, dimensions: int, progress: Progress = no_progress) -> Catalog | None:
        """Return the catalog of all passages of the journal, and maybe of some that came after its snapshot.

        It is the same object until something changes. None means that files cannot be used here. `progress` hears of
        the passages that the files have, after each batch that is added to them.

        Raises:
            OutdatedError: Something was forgotten, or the embedder changed, since the snapshot of the journal.
        """
        if self._is_off:
            return None
        origin = _origin(journal, dimensions)
        try:
            with self._thread:
                is_sound = self._is_sound(journal, origin)
                known = -1 if self._catalog is None else self._catalog.last_id
                if not is_sound or (journal.last_passage() > known and not self._extend_tail(journal)):
                    with self._locked():
                        self._follow(journal, origin, progress)
                return self._catalog
        except TimeoutError as error:
            logger.info("going on without the files of the catalog: %s", error)
        except (OSError, ImportError) as error:
            self._is_off = True
            logger.info("the catalog is held in memory, since its files cannot be used: %s", error)
        self._release()
        return None

    def _release(self) -> None:
        self._is_compared, self._tail = False, 0
        self._columns = self._state = self._read = self._catalog = None

    def _is_sound(self, journal: Journal, origin: Origin) -> bool:
        """Map the files if they can be trusted as they are; return whether they can, and come from `origin`."""
        try:
            self._read_state()
            state, columns = self._state, self._columns
            if state is None or columns is None or state.origin != origin:
                return False
            self._compare(journal)
            return columns.stamps(state) == state.stamps
        except DamagedCatalogError:
            return False

    def _read_state(self) -> None:
        """Read the state, if it is another than before, and map its files. Raises DamagedCatalogError."""
        if (stamp := self._stamp()) == self._read and stamp:
            return
        self._read, self._catalog = None, None
        state = read_state(self._folder / STATE)
        columns = self._columns_of(state)
        if state.boot != boot() or not boot() or columns.stamps(state) != state.stamps:
            raise DamagedCatalogError("to be checked")
        if any(path.stem.isdecimal() and path.name != str(state.generation) for path in self._folder.iterdir()):
            raise DamagedCatalogError("to be cleaned")  # something was forgotten, half way
        self._show(state)
        self._read = stamp

    def _columns_of(self, state: State) -> Columns:
        """Return the columns of the state: those that are mapped already, if they are the same."""
        folder = self._folder / str(state.generation)
        rewrites = state.origin.rewrites
        if self._columns is None or (self._columns.folder, self._columns.rewrites) != (folder, rewrites):
            self._columns = Columns(folder, state.origin.dimensions, rewrites)
        return self._columns

    def _show(self, state: State) -> None:
        if self._tail:
            self._columns, self._tail = None, 0  # mapped again without the tail, and without its names
        self._catalog, self._state = self._columns_of(state).catalog(state), state

    def _extend_tail(self, journal: Journal) -> bool:
        """Append the newest passages in memory; False where they are many, or there is no room for them."""
        assert self._catalog is not None
        rows = journal.passages(self._catalog.last_id, TAIL + 1 - self._tail)
        if self._tail + len(rows) > TAIL or not self._catalog.has_room(rows):
            return False
        try:
            self._tail += len(rows)
            self._catalog.extend(rows)
            self._catalog.seen.know(len(self._catalog))
        except BaseException:
            self._release()  # half an extension is never read
            raise
        return True

    # -- under the lock -----------------------------------------------------------------------------------------------

    def _follow(self, journal: Journal, origin: Origin, progress: Progress) -> None:
        """Extend the files up to the journal. Raises ValueError where that is damaged, and OutdatedError.

        A snapshot is enough for files of the same origin: who has forgotten a step since waits for the lock, and takes
        its passages out again.
        """
        if self._is_sound(journal, origin):
            self._extend(journal, progress)
            return
        with journal.reading() as now:
            if _origin(now, origin.dimensions) != origin:
                raise OutdatedError
            try:
                self._verify(now, origin)
            except DamagedCatalogError as error:
                logger.info("the catalog in %s is made from the journal: %s", self._folder, error)
                self._begin(origin)
            self._extend(now, progress)

    def _extend(self, journal: Journal, progress: Progress) -> None:
        if self._tail:
            assert self._state is not None
            self._show(self._state)
        assert self._catalog is not None
        total = 0  # counted where it takes more than one step, since counting takes as long as the memory is large
        try:
            while rows := journal.passages(self._catalog.last_id):
                piece = self._catalog.following()
                piece.extend(rows)
                assert self._state is not None
                self._replace_state(self._columns_of(self._state).append(self._state, piece))
                if not total and journal.last_passage() > self._catalog.last_id:
                    total = journal.counts()["passages"]
                progress(len(self._catalog), total or len(self._catalog))
        except BaseException:
            self._release()  # names of passages that were not written
            raise

    def _verify(self, journal: Journal, origin: Origin) -> None:
        """Map the files, checked if they must be. Raises DamagedCatalogError."""
        self._read = None
        try:
            self._read_state()
            assert self._state is not None
            state = self._state
            if self._columns_of(state).stamps(state) != state.stamps:
                raise DamagedCatalogError("touched")
        except DamagedCatalogError:
            state = read_state(self._folder / STATE)
            self._release()  # what was mapped may have been cut short
            columns = self._columns_of(state)
            if state.origin == origin:
                columns.check(state)
                self._replace_state(columns.see_again(state))
        if state.origin != origin:
            raise DamagedCatalogError("something was forgotten, or the embedder changed")
        self._compare(journal)
        self._clean(keep=state.generation)

    def _compare(self, journal: Journal) -> None:
        """Compare the newest passage with the journal's, which may be a backup. Raises DamagedCatalogError."""
        assert self._catalog is not None
        if self._is_compared or (last := self._catalog.last_row) < 0:
            return
        held = int(self._catalog.id[last])
        rows = journal.passages(held - 1, 1)
        piece = Catalog(self._catalog.dimensions)
        piece.extend(rows)
        if not rows or piece.id[0] != held or piece.step[0] != self._catalog.step[last]:
            raise DamagedCatalogError("the journal is another")
        if not np.array_equal(piece.vectors[0], self._catalog.vectors[last]):
            raise DamagedCatalogError("the journal has other vectors")
        self._is_compared = True

    def _begin(self, origin: Origin) -> None:
        """Begin a new generation, without passages."""
        self._release()
        make_private_folder(self._folder)
        state = State(origin, self._next())
        columns = self._columns_of(state)
        columns.begin()
        self._replace_state(columns.append(state, Catalog(origin.dimensions)))
        self._clean(keep=state.generation)

    def _next(self) -> int:
        """Return a number that no generation has had, be it one whose files are gone: others may still map those."""
        held = (int(path.stem) for path in self._folder.iterdir() if path.stem.isdecimal())
        return max(time.time_ns(), *(number + 1 for number in held), 0)

    def _replace_state(self, state: State) -> None:
        """Replace the state, after everything that it counts is written."""
        write_state(self._folder / STATE, state)
        self._show(replace(state, boot=boot()))
        self._read = self._stamp()

    def _clean(self, keep: int = 0) -> None:
        """Erase all other generations of files."""
        for path in self._folder.iterdir():
            if path.is_dir() and path.name != str(keep):
                erase(path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let no other process write inside. Raises TimeoutError while one writes and gets no further."""
        fcntl = importlib.import_module("fcntl")
        make_private_folder(self._folder)
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
        """Return a stamp that changes with the state; None where there is none."""
        try:
            found = (self._folder / STATE).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, journal: Journal, steps: Sequence[int]) -> None:
        """Remove everything of these steps, which the journal has forgotten. Raises StorageError."""
        try:
            self._rewrite(journal, steps, None)
        except OSError as error:
            raise StorageError(
                f"{self._folder}: these files cannot be written: {error.strerror or error}; delete the folder, and it "
                "is made again"
            ) from error

    def set_milestones(self, journal: Journal, steps: Sequence[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark, as the journal has done."""
        with suppress(OSError):  # then all files are made again later
            self._rewrite(journal, steps, milestone)

    def _rewrite(self, journal: Journal, steps: Sequence[int], milestone: bool | None) -> None:
        """Follow the one rewrite of the journal that concerns `steps`; erase all if there were others."""
        if not self.exist:
            return
        with self._thread, self._locked(), journal.reading() as now:
            if self._tail:
                self._release()
            try:
                state = read_state(self._folder / STATE)
                origin = _origin(now, state.origin.dimensions)
                if state.origin == replace(origin, rewrites=origin.rewrites - 1):
                    self._change(state, origin, np.array(steps, np.int64), milestone)
                elif state.origin != origin:
                    raise DamagedCatalogError("other things have changed as well")
                else:
                    self._clean(keep=state.generation)
            except DamagedCatalogError:
                self._erase()

    def _change(self, state: State, origin: Origin, steps: Ids, milestone: bool | None) -> None:
        """Empty the rows of these steps, or mark them. Where many are empty then, copy the others."""
        columns = self._columns_of(state)
        if state.boot != boot() or not boot() or columns.stamps(state) != state.stamps:
            columns.check(state)
        after = replace(state, origin=origin)
        if milestone is not None:
            self._replace_state(mark(columns, after, steps, milestone))
        elif is_worth_copying(columns, state, steps):
            self._copy(columns, state, origin, steps)
        else:
            self._replace_state(empty(columns, after, steps))

    def _copy(self, columns: Columns, state: State, origin: Origin, steps: Ids) -> None:
        """Copy the files without these steps, and erase the old ones."""
        start = State(origin, self._next())
        to = Columns(self._folder / str(start.generation), origin.dimensions, origin.rewrites)
        to.begin()
        self._replace_state(columns.copy(state, to, start, steps))
        self._clean(keep=start.generation)

    def erase(self) -> None:
        """Erase all files. Raises OSError."""
        if self.exist:
            with self._thread, self._locked():
                self._erase()

    def _erase(self) -> None:
        self._release()
        (self._folder / STATE).unlink(missing_ok=True)
        self._clean()


def _origin(journal: Journal, dimensions: int) -> Origin:
    changes, rewrites = (int(journal.setting(key) or 0) for key in (EMBEDDER_CHANGES, REWRITES))
    return Origin(journal.setting(EMBEDDER) or "", changes, rewrites, dimensions)

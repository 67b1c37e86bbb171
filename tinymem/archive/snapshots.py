"""The files of snapshots: a folder for each, named after what it holds, written once, and mapped by every process.

Opening a large memory reads nothing of its size, and no process holds it: the system's page cache has the pages that
are used, once for all processes. Arrays are written with room behind their rows. What comes later is written into that
room in this process's own pages, and into a new folder once it is a share of all.

A folder gets its name when all of it is on the disk, so nobody sees half of one. One of an earlier state of the journal
is deleted by whoever sees it, and all are deleted where something is forgotten: who is writing one then has nothing to
rename, and goes on in memory. The background writes them, so that no question waits.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tinymem.archive.rows import count_rewrites
from tinymem.errors import StorageError
from tinymem.protocols import Journal
from tinymem.protocols.settings import EMBEDDER
from tinymem.recall.query.identifiers import Seen
from tinymem.recall.snapshot import TABLES, Room, Snapshot
from tinymem.stores.files import make_private_folder, open_private

__all__ = ["SnapshotFiles"]

logger = logging.getLogger(__name__)

PREFIX = "snapshot-"
LEAST = 2_000  # passages that are read from the journal sooner than from files
SHARE = 1 / 8  # of the passages in files that may come in memory
ROOM = 1 / 4  # of the rows of an array that is left free behind them
FACTS = "facts.json"  # numbers of rows, and names
_NAME = re.compile(rf"{PREFIX}(\d{{1,18}})-(\d{{1,18}})-([0-9a-f]{{8}})")
_UNUSABLE = (
    OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, StorageError,
)  # fmt: skip


class SnapshotFiles:
    """The snapshots in `folder`, a namespace's, of its `journal`. Any number of threads and processes may use them."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self._folder, self._journal = folder, journal

    # -- out ----------------------------------------------------------------------------------------------------------

    def load(self, rewrites: int, embedder: str, dimensions: int) -> Snapshot | None:
        """Return the newest snapshot of the journal after so many `rewrites`, with vectors of `embedder`.

        None where no files can be used. What is of an earlier state of the journal is deleted.
        """
        self._delete_outdated(rewrites)
        names = filter(None, (_NAME.fullmatch(folder.name) for folder in self._all()))
        wanted = str(rewrites), _hash_of(embedder)
        usable = [name for name in names if name.group(1, 3) == wanted]
        if not usable:
            return None
        folder = self._folder / max(usable, key=lambda name: int(name[2]))[0]
        with _logged("read"):
            snapshot = _read(folder, dimensions)
            self._compare(snapshot)
            return snapshot
        self._discard(folder)
        return None

    def _compare(self, snapshot: Snapshot) -> None:
        """Raise ValueError unless the newest passage is the journal's, which may be a backup."""
        rows = self._journal.passages(snapshot.last_id - 1, 1)
        newest = Snapshot(snapshot.dimensions).with_tail(rows)
        for name in ("id", "step", "vectors"):
            if not np.array_equal(getattr(newest, name), getattr(snapshot, name)[-1:]):
                raise ValueError(f"the journal has another {name} of the newest passage")

    # -- in -----------------------------------------------------------------------------------------------------------

    def is_due(self, snapshot: Snapshot) -> bool:
        """Return whether so many passages are in no file that they are to be written."""
        return len(snapshot.id) - snapshot.filed > max(LEAST, SHARE * snapshot.filed) and not self._journal.is_read_only

    def write(self, snapshot: Snapshot, embedder: str) -> Snapshot | None:
        """Write a snapshot, and return it as the files have it; None where none can be written or used.

        Folders with less are deleted; those of another process may have more. It must not be called in a transaction,
        which does not see what others forget.
        """
        name = f"{PREFIX}{snapshot.rewrites}-{snapshot.last_id}-{_hash_of(embedder)}"
        folder = self._folder / name
        new = self._folder / f"{name}.{secrets.token_hex(8)}"
        with _logged("written"):
            try:
                make_private_folder(new)
                if not self._is_current(snapshot, embedder):  # who forgets something after this deletes the new folder
                    return None
                _write(snapshot, new)
                with suppress(OSError):  # another process was faster
                    new.rename(folder)
            finally:
                self._discard(new)
            written = _read(folder, snapshot.dimensions)
            self._delete_outdated(snapshot.rewrites, snapshot.last_id)
            return written
        return None

    def _is_current(self, snapshot: Snapshot, embedder: str) -> bool:
        """Return whether the journal, as others have left it, has the passages and vectors of a snapshot."""
        with self._journal.reading() as now:
            is_same = (count_rewrites(now), now.setting(EMBEDDER) or "") == (snapshot.rewrites, embedder)
            return is_same and now.last_passage() >= snapshot.last_id

    # -- away ---------------------------------------------------------------------------------------------------------

    def erase(self) -> None:
        """Delete all files, also those that others are writing. Raises StorageError."""
        try:
            with suppress(FileNotFoundError):
                next(self._folder.iterdir(), None)  # `glob` takes a folder that cannot be listed for an empty one
            while folders := [*self._all()]:  # who writes may give a folder its name meanwhile
                for folder in folders:
                    self._delete(folder)
        except OSError as error:
            raise StorageError(
                f"{self._folder}: the files of a snapshot cannot be deleted: {error.strerror or error}; delete the "
                f"folders {PREFIX}*, they are made again"
            ) from error

    def _delete(self, folder: Path) -> None:
        with suppress(FileNotFoundError):  # somebody else has renamed or deleted it
            gone = self._folder / f"{PREFIX}gone-{secrets.token_hex(8)}"
            folder.rename(gone)  # so that nobody writes into it any more
            shutil.rmtree(gone)

    def _delete_outdated(self, rewrites: int, last_id: int = 0) -> None:
        """Delete what is of an earlier state of the journal, or ends before a passage, where that works."""
        for folder in self._all():
            name = _NAME.match(folder.name)  # also of a folder that is being written
            if name is None or (int(name[1]), int(name[2])) < (rewrites, last_id):
                self._discard(folder)

    def _discard(self, folder: Path) -> None:
        """Delete a folder, unless the memory is read only, or the system refuses; then somebody does it later."""
        if not self._journal.is_read_only:
            shutil.rmtree(folder, ignore_errors=True)

    def _all(self) -> Iterator[Path]:
        return self._folder.glob(f"{PREFIX}*")


def _hash_of(embedder: str) -> str:
    return f"{crc32(embedder.encode('utf-8', 'replace')):08x}"


@contextmanager
def _logged(done: str) -> Iterator[None]:
    """Log why files cannot be read or written, and go on without them."""
    try:
        yield
    except _UNUSABLE as error:
        logger.info("going on without the files of a snapshot, which cannot be %s: %s", done, error)


def _write(snapshot: Snapshot, folder: Path) -> None:
    counts = {name: len(getattr(snapshot, name)) for name in snapshot.rooms}
    rooms = {name: count + int(ROOM * count) + 2 * LEAST for name, count in counts.items()}
    for name in snapshot.rooms:
        _write_array(folder / f"{name}.npy", getattr(snapshot, name), rooms[name])
    _write_array(folder / "seen.npy", snapshot.seen.tables, 2)
    names = {table: [*getattr(snapshot, table)] for table in TABLES}
    with open(folder / FACTS, "wb", opener=open_private) as file:
        file.write(json.dumps({"counts": counts, **names}).encode())
        _sync(file)


def _write_array(path: Path, array: npt.NDArray[Any], room: int) -> None:
    """Write an array with zeros behind it, so that it has `room` rows: in numpy's format, to be mapped."""
    header = np.lib.format.header_data_from_array_1_0(array)
    rest = (room - len(array)) * array.strides[0]
    with open(path, "wb", opener=open_private) as file:
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (room, *array.shape[1:])})
        array.tofile(file)
        file.truncate(file.seek(0, os.SEEK_END) + rest)
        _sync(file)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _read(folder: Path, dimensions: int) -> Snapshot:
    """Return the snapshot in a folder. Raises one of _UNUSABLE where it is not what its name says."""
    facts = json.loads((folder / FACTS).read_bytes())
    counts = facts["counts"]
    snapshot = Snapshot(dimensions)
    rooms = {}
    for name, room in snapshot.rooms.items():
        data = _map(folder / f"{name}.npy", room.data.dtype, room.data.shape[1:])
        rooms[name] = Room(data, counts[name])
    snapshot.fill(rooms)
    for table in TABLES:
        setattr(snapshot, table, {name: code for code, name in enumerate(facts[table])})
    slots = Seen.slots(counts["identifiers"])
    snapshot.seen = Seen(tables=_map(folder / "seen.npy", np.dtype("<u4"), (slots,)))
    snapshot.filed = len(snapshot)
    _check(snapshot, counts, folder.name)
    snapshot.rewrites = int(folder.name.split("-")[1])
    return snapshot


def _map(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Map an array of rows of this type and shape; what is written into it is in this process's pages alone."""
    mapped = np.load(path, mmap_mode="c")
    if mapped.dtype != dtype or mapped.shape[1:] != shape:
        raise ValueError(f"{path} is of another type or shape")
    return np.asarray(mapped)


def _check(snapshot: Snapshot, counts: Mapping[str, int], name: str) -> None:
    """Raise ValueError unless arrays have as many rows as is said, and end with the passage that the name says."""
    for column in snapshot.rooms:
        expected = counts["identifiers"] if column == "identifiers" else counts["id"]
        if len(getattr(snapshot, column)) != expected:
            raise ValueError(f"{column} is too short")
    is_whole = snapshot.identifier_ends[-1] == counts["identifiers"] and len(snapshot.seen.tables) == 2
    if not is_whole or f"-{snapshot.last_id}-" not in name:
        raise ValueError("its arrays do not fit together")

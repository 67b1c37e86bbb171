"""The columns of a catalog in a folder, one file each: mapped to be read, and written at their ends."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.archive.catalog.state import DamagedCatalogError, State
from tinymem.protocols import Ids
from tinymem.recall.catalog import ACT, COLUMNS, Catalog, Growing, NameCodes, Names
from tinymem.recall.query.identifiers import Codes, Seen
from tinymem.stores.files import FILE, make_private_file, make_private_folder, open_private

__all__ = ["CODED", "Columns", "erase", "tables_of"]

NAMES = "names"  # a line for each, as JSON: which of the names it is, and the name
SEEN = "seen"
SECRET = ("vectors", "identifiers", SEEN, NAMES, "tokens")  # have contents of passages in them; the last one, before
MARK = "rewrites-"  # and their number
CODED = ("session", "speaker", "type", "tools")  # hold integers for names
PAGE = 1 << 16  # bytes; files grow by pages, and by an eighth, so that they are seldom mapped again
BLOCK = 1 << 16  # bytes; a checksum is the sum of the blocks' CRC-32, so that it follows a change of one block
AT_ONCE = 1 << 20  # bytes that are overwritten at once
ROWS = 16_384  # passages that are copied at once


class Columns:
    """The files in `folder`, of vectors of so many `dimensions`; a state says how much of them is written.

    An empty file names the number of `rewrites` that they have followed. It is renamed before rows are changed, so that
    others, who have them mapped, see that what they have read is not to be used.
    """

    def __init__(self, folder: Path, dimensions: int, rewrites: int = 0) -> None:
        self.folder, self.dimensions, self.rewrites = folder, dimensions, rewrites
        self._place = str(folder)
        self._mark = folder / f"{MARK}{rewrites}"
        self._types = {name: np.dtype((dtype, dimensions) if name == "vectors" else dtype)
                       for name, dtype in COLUMNS.items()}  # fmt: skip
        self._types[NAMES] = np.dtype("u1")
        self._mapped: dict[str, npt.NDArray[Any]] = {}
        self._names, self._named = Names(), 0
        self._known = _counts(self._names)

    # -- out ----------------------------------------------------------------------------------------------------------

    def stamps(self, state: State) -> dict[str, tuple[int, int]]:
        """Return the size of each file, and when it was written last; DamagedCatalogError where one is missing."""
        try:
            self._mark.stat()
            found = {name: os.stat(f"{self._place}/{name}") for name in (*self._types, self._seen_name(state))}
        except OSError as error:
            raise DamagedCatalogError(error) from error
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}

    def catalog(self, state: State) -> Catalog:
        """Return the catalog of the passages that the state counts. Raises DamagedCatalogError."""
        found = self._plain(state)
        tables = self._map(self._seen_name(state), np.dtype("<u4"), 2 * self._slots(state))
        found.seen = Seen(tables=tables.reshape(2, -1), rows=state.rows)
        return found

    def _plain(self, state: State) -> Catalog:
        """Return the catalog without its table of identifiers."""
        held = {}
        for name in COLUMNS:
            length = state.lengths.get(name, 0)
            held[name] = Growing.over(self._map(name, self._types[name], length), length)
        self._read_names(state.lengths.get(NAMES, 0))
        found = Catalog(state.origin.dimensions, held, self._names)
        found.removed = state.removed
        found.is_gone = lambda: not self._mark.exists()
        return found

    def _map(self, name: str, dtype: np.dtype[Any], length: int) -> npt.NDArray[Any]:
        """Return the array over a whole file, of `length` rows, and more, as zeros, to come."""
        held = self._mapped.get(name)
        if held is None or len(held) < length:
            try:
                with open(self.folder / name, "rb") as file:
                    mapped = _map_own(file.fileno())
            except (OSError, ValueError) as error:  # ValueError: it is empty
                raise DamagedCatalogError(error) from error
            base, shape = dtype.subdtype or (dtype, ())
            rows = len(mapped) // dtype.itemsize
            if rows < length:
                raise DamagedCatalogError(f"{self.folder / name} is too short")
            flat: npt.NDArray[Any] = np.frombuffer(mapped, base, rows * dtype.itemsize // base.itemsize)
            held = self._mapped[name] = flat.reshape(rows, *shape)
        return held

    def _read_names(self, length: int) -> None:
        """Read the names up to `length`, in the order of the file, and drop those that stand in no file."""
        if self._named > length or self._known != _counts(self._names):
            self._names, self._named = Names(), 0
        if self._named < length:
            try:
                with open(self.folder / NAMES, "rb") as file:
                    file.seek(self._named)
                    for line in file.read(length - self._named).splitlines():
                        which, name = json.loads(line)
                        tables_of(self._names)[which].of(name)
            except (OSError, ValueError, TypeError, IndexError) as error:
                raise DamagedCatalogError(error) from error
        self._named, self._known = length, _counts(self._names)

    def check(self, state: State) -> None:
        """Compare all files with their checksums. Raises DamagedCatalogError."""
        for name, dtype in self._types.items():
            length = state.lengths[name] * dtype.itemsize
            try:
                with open(self.folder / name, "rb") as file:
                    checksum = _checksum(file.fileno(), 0, length, length)
            except OSError as error:
                raise DamagedCatalogError(error) from error
            if checksum != state.checksums[name]:
                raise DamagedCatalogError(f"{self.folder / name} is not as it was written")

    # -- in -----------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the folder."""
        make_private_folder(self.folder)
        make_private_file(self._mark)

    def append(self, state: State, added: Catalog) -> State:
        """Write the passages `added`, with names of `self`, behind those of the state; return the state that says so.

        Where that fails, neither `self` nor `added` is of further use.
        """
        return self._note(self._write(state, added), state.rows)

    def _write(self, state: State, added: Catalog) -> State:
        data = {name: column.array for name, column in added.columns.items()}
        data["identifier_ends"] = data["identifier_ends"] + state.lengths.get("identifiers", 0)
        tables = enumerate(zip(tables_of(self._names), self._known, strict=True))
        new = [(which, name) for which, (table, known) in tables for name in [*table.names][known:]]
        data[NAMES] = np.frombuffer("".join(f"{json.dumps(pair)}\n" for pair in new).encode(), np.uint8)
        lengths, checksums = {}, {}
        for name, dtype in self._types.items():
            some, before = data[name], state.lengths.get(name, 0)
            end = before * dtype.itemsize
            change = _put(f"{self._place}/{name}", end, np.ascontiguousarray(some).tobytes(), end)
            lengths[name] = before + len(some)
            checksums[name] = state.checksums.get(name, 0) + change
        self._named, self._known = lengths[NAMES], _counts(self._names)
        return replace(state, lengths=lengths, checksums=checksums)

    def _note(self, state: State, known: int) -> State:
        """Write the table of identifiers for the rows from `known` on; return the state, with stamps."""
        path, size = self.folder / self._seen_name(state), 8 * self._slots(state)
        if not path.exists() or path.stat().st_size != size:
            known = 0
            for old in self.folder.glob(f"{SEEN}-*"):
                old.unlink()
            with open(
                path, "wb", opener=open_private
            ) as file:  # with all its blocks, since a full disk ends a mapped write
                for at in range(0, size, AT_ONCE):
                    file.write(bytes(min(AT_ONCE, size - at)))
        self._plain(state).note_identifiers(self._writable_seen(state), known)
        return replace(state, stamps=self.stamps(state))

    def _writable_seen(self, state: State) -> Seen:
        with open(self.folder / self._seen_name(state), "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        return Seen(tables=np.frombuffer(mapped, "<u4").reshape(2, -1))

    def unsee(self, state: State, codes: Codes) -> None:
        """Remove identifiers that stood in rows that are empty now from the table, unless other rows have them."""
        held, seen = self._plain(state), self._writable_seen(state)
        every, ends = held.columns["identifiers"].array, held.columns["identifier_ends"].array
        places = seen.shared(codes, every)
        rows = np.searchsorted(ends, places, "right")
        for first, end in state.removed:
            places, rows = (some[(rows < first) | (rows >= end)] for some in (places, rows))
        seen.clear(codes)
        seen.extend(every[places], rows, held.kind[rows] == ACT)

    def renamed(self, rewrites: int) -> Columns:
        """Return the same files after so many rewrites, from which on nobody uses what is mapped now."""
        after = Columns(self.folder, self.dimensions, rewrites)
        self._mark.replace(after._mark)
        return after

    def put(self, state: State, name: str, first: int, some: npt.NDArray[Any]) -> State:
        """Replace the rows of a column from `first` on; return the state with the checksum that follows."""
        at, end = (rows * self._types[name].itemsize for rows in (first, state.lengths[name]))
        change = _put(f"{self._place}/{name}", at, some.tobytes(), end)
        return replace(state, checksums={**state.checksums, name: state.checksums[name] + change})

    def put_names(self, state: State, names: Callable[[int, str], str]) -> State:
        """Replace the names, each given with its table; return the state that says how long they are now."""
        before = state.lengths[NAMES]
        with open(self.folder / NAMES, "r+b") as file:
            lines = [json.loads(line) for line in file.read(before).splitlines()]
            new = "".join(f"{json.dumps([which, names(which, name)])}\n" for which, name in lines).encode()
            file.seek(0)
            file.write(new.ljust(before, b"\0"))
            file.flush()
            checksums = {**state.checksums, NAMES: _checksum(file.fileno(), 0, len(new), len(new))}
        return replace(state, lengths={**state.lengths, NAMES: len(new)}, checksums=checksums)

    def see_again(self, state: State) -> State:
        """Write the table of identifiers again, which no checksum covers."""
        (self.folder / self._seen_name(state)).unlink(missing_ok=True)
        return self._note(state, 0)

    def copy(self, state: State, to: Columns, start: State, steps: Ids) -> State:
        """Write the rows of all other steps into the empty files `to`; return their state, which begins as `start`."""
        held, new = self.catalog(state), start
        kept = ~np.isin(held.step, steps)
        for first, end in state.removed:
            kept[first:end] = False
        codes = [
            _recoded(table, to_table, held, name, kept)
            for name, table, to_table in zip(CODED, tables_of(self._names), tables_of(to._names), strict=True)
        ]
        for first in range(0, max(len(held), 1), ROWS):
            rows = first + np.flatnonzero(kept[first : first + ROWS])
            data = {name: column.array[rows] for name, column in held.columns.items() if len(column.array) == len(held)}
            for name, code in zip(CODED, codes, strict=True):
                field = data if name in data else data["places"]
                field[name] = code[field[name]]
            data["identifiers"], lengths = held.identifiers_of(rows)
            data["identifier_ends"] = np.cumsum(lengths)
            piece = Catalog(held.dimensions, names=to._names)
            piece.columns = {name: Growing.over(data[name], len(data[name])) for name in COLUMNS}
            new = to._write(new, piece)
        return to._note(new, 0)

    def _slots(self, state: State) -> int:
        return Seen.slots(state.lengths.get("identifiers", 0))

    def _seen_name(self, state: State) -> str:
        return f"{SEEN}-{self._slots(state)}"


def erase(folder: Path) -> None:
    """Remove the files of a catalog in `folder`. Those with contents of passages are overwritten first."""
    gone = folder.with_name(f"{folder.name}.gone")
    if folder != gone and folder.suffix != ".gone":
        folder.replace(gone)  # others look for it after they have read
    else:
        gone = folder
    for file in [*gone.iterdir()]:
        if file.name.partition("-")[0] in SECRET:
            with open(file, "r+b") as opened:
                size = os.fstat(opened.fileno()).st_size
                for at in range(0, size, AT_ONCE):
                    opened.write(bytes(min(AT_ONCE, size - at)))
        file.unlink()
    gone.rmdir()


def _map_own(file: int) -> mmap.mmap:
    """Map a file; what is written into the mapping is in this process's memory alone, and only the pages it is on."""
    try:
        return mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
    except OSError:  # where all that might be written has to be reserved
        return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def _put(path: str, at: int, raw: bytes, length: int) -> int:
    """Write `raw` at a place of a file of so many bytes that count; return the change of its checksum.

    The file is made a page long at least, with some room.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, FILE)
    try:
        end, size = at + len(raw), os.fstat(file).st_size
        if end > size or not size:
            os.ftruncate(file, -(-(end + end // 8 + 1) // PAGE) * PAGE)
        before = _checksum(file, at, min(end, length), length)
        left, place = memoryview(raw), at
        while left:
            written = os.pwrite(file, left, place)
            place, left = place + written, left[written:]
        return _checksum(file, at, end, max(end, length)) - before
    finally:
        os.close(file)


def _checksum(file: int, first: int, end: int, length: int) -> int:
    """Return the part of the blocks from `first` to `end` in the checksum of a file of so many bytes that count."""
    blocks = range(first // BLOCK * BLOCK, end, BLOCK)
    return sum(zlib.crc32(os.pread(file, min(BLOCK, length - at), at), at // BLOCK) for at in blocks)


def tables_of(names: Names) -> tuple[NameCodes, ...]:
    """Return the tables of names, in the order of CODED."""
    return names.sessions, names.speakers, names.types, names.toolsets


def _counts(names: Names) -> list[int]:
    return [len(table.names) for table in tables_of(names)]


def _recoded(
    table: NameCodes, to: NameCodes, held: Catalog, name: str, kept: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Give `to` the names that `kept` rows of a column have; return the new code for each old one, and -1 for -1."""
    codes: npt.NDArray[np.int64] = np.full(len(table.names) + 1, -1, np.int64)
    names = [*table.names]
    for code in np.unique(getattr(held, name)[kept]).tolist():
        if code >= 0:
            codes[code] = to.of(names[code])
    return codes

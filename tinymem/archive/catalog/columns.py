"""The columns of a catalog in a folder, one file each: mapped to be read, and written at their ends."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.archive.catalog.state import DamagedCatalogError, State
from tinymem.protocols import Ids
from tinymem.recall.catalog import COLUMNS, Catalog, Growing, NameCodes, Names
from tinymem.recall.query.identifiers import Seen
from tinymem.stores.files import FILE, opener

__all__ = ["Columns", "erase"]

NAMES = "names"  # a line for each, as JSON: which of the names it is, and the name
SEEN = "seen"
SECRET = ("vectors", "tokens", "identifiers", SEEN, NAMES)  # have contents of passages in them
RAGGED = {"token_ends": "tokens", "identifier_ends": "identifiers"}
CODED = ("session", "speaker", "type", "tools")  # hold integers for names
PAGE = 1 << 16  # bytes; files grow by pages, and by an eighth, so that they are seldom mapped again
AT_ONCE = 1 << 20  # bytes that are read or overwritten at once
ROWS = 16_384  # passages that are copied at once


class Columns:
    """The files in `folder`, of vectors of so many `dimensions`; a state says how much of them is written."""

    def __init__(self, folder: Path, dimensions: int) -> None:
        self.folder, self._place = folder, str(folder)
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
        found = Catalog(state.origin.dimensions, 0, held, self._names)
        found.document_frequency = state.frequency
        found.is_gone = lambda: not self.folder.exists()
        return found

    def _map(self, name: str, dtype: np.dtype[Any], length: int) -> npt.NDArray[Any]:
        """Return the array over a whole file, of `length` rows, and more, as zeros, to come."""
        held = self._mapped.get(name)
        if held is None or len(held) < length:
            try:
                with open(self.folder / name, "rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
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
                        _tables(self._names)[which].of(name)
            except (OSError, ValueError, TypeError, IndexError) as error:
                raise DamagedCatalogError(error) from error
        self._named, self._known = length, _counts(self._names)

    def check(self, state: State) -> None:
        """Compare all files with their checksums. Raises DamagedCatalogError."""
        for name, dtype in self._types.items():
            checksum, left = 0, state.lengths[name] * dtype.itemsize
            try:
                with open(self.folder / name, "rb") as file:
                    while left and (some := file.read(min(left, AT_ONCE))):
                        checksum, left = zlib.crc32(some, checksum), left - len(some)
            except OSError as error:
                raise DamagedCatalogError(error) from error
            if left or checksum != state.checksums[name]:
                raise DamagedCatalogError(f"{self.folder / name} is not as it was written")

    # -- in -----------------------------------------------------------------------------------------------------------

    def append(self, state: State, added: Catalog) -> State:
        """Write the passages `added`, with names of `self`, behind those of the state; return the state that says so.

        Where that fails, neither `self` nor `added` is of further use.
        """
        return self._note(self._write(state, added), state.rows)

    def _write(self, state: State, added: Catalog) -> State:
        data = {name: column.array for name, column in added.columns.items()}
        for ends, values in RAGGED.items():
            data[ends] = data[ends] + state.lengths.get(values, 0)
        tables = enumerate(zip(_tables(self._names), self._known, strict=True))
        new = [(which, name) for which, (table, known) in tables for name in [*table.names][known:]]
        data[NAMES] = np.frombuffer("".join(f"{json.dumps(pair)}\n" for pair in new).encode(), np.uint8)
        lengths, checksums = {}, {}
        for name, dtype in self._types.items():
            some, before = data[name], state.lengths.get(name, 0)
            raw = np.ascontiguousarray(some).tobytes()
            _put(f"{self._place}/{name}", before * dtype.itemsize, raw)
            lengths[name] = before + len(some)
            checksums[name] = zlib.crc32(raw, state.checksums.get(name, 0))
        self._named, self._known = lengths[NAMES], _counts(self._names)
        frequency = state.frequency + added.document_frequency
        return replace(state, lengths=lengths, checksums=checksums, frequency=frequency)

    def _note(self, state: State, known: int) -> State:
        """Write the table of identifiers for the rows from `known` on; return the state, with stamps."""
        path, size = self.folder / self._seen_name(state), 8 * self._slots(state)
        if not path.exists() or path.stat().st_size != size:
            known = 0
            for old in self.folder.glob(f"{SEEN}-*"):
                old.unlink()
            with open(path, "wb", opener=opener) as file:  # with all its blocks, since a full disk ends a mapped write
                for at in range(0, size, AT_ONCE):
                    file.write(bytes(min(AT_ONCE, size - at)))
        with open(path, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        tables = np.frombuffer(mapped, "<u4").reshape(2, -1)
        self._plain(state).note_identifiers(Seen(tables=tables), known)
        return replace(state, stamps=self.stamps(state))

    def see_again(self, state: State) -> State:
        """Write the table of identifiers again, which no checksum covers."""
        (self.folder / self._seen_name(state)).unlink(missing_ok=True)
        return self._note(state, 0)

    def copy(self, state: State, to: Columns, start: State, steps: Ids, milestone: bool | None) -> State:
        """Write all rows but those of `steps` into the empty files `to`; return their state, which begins as `start`.

        If a `milestone` is given, the rows of `steps` are written too, with that mark.
        """
        held, new = self.catalog(state), start
        kept = np.ones(len(held), np.bool_) if milestone is not None else ~np.isin(held.step, steps)
        codes = [
            _recoded(table, to_table, held, name, kept)
            for name, table, to_table in zip(CODED, _tables(self._names), _tables(to._names), strict=True)
        ]
        for first in range(0, max(len(held), 1), ROWS):
            rows = first + np.flatnonzero(kept[first : first + ROWS])
            data = {name: column.array[rows] for name, column in held.columns.items() if len(column.array) == len(held)}
            if milestone is not None:
                data["places"]["milestone"][np.isin(data["step"], steps)] = milestone
            for name, code in zip(CODED, codes, strict=True):
                field = data if name in data else data["places"]
                field[name] = code[field[name]]
            for ends, values, (some, lengths) in (
                ("token_ends", "tokens", held.tokens_of(rows)),
                ("identifier_ends", "identifiers", held.identifiers_of(rows)),
            ):
                data[ends], data[values] = np.cumsum(lengths), some
            piece = Catalog(held.dimensions, len(state.frequency), names=to._names)
            piece.columns = {name: Growing.over(data[name], len(data[name])) for name in COLUMNS}
            if len(state.frequency):
                piece.document_frequency = np.bincount(data["tokens"], minlength=len(state.frequency))
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


def _put(path: str, at: int, raw: bytes) -> None:
    """Write `raw` at a place of the file, which is made a page long at least, with some room."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, FILE)
    try:
        end, size = at + len(raw), os.fstat(file).st_size
        if end > size or not size:
            os.ftruncate(file, -(-(end + end // 8 + 1) // PAGE) * PAGE)
        left = memoryview(raw)
        while left:
            written = os.pwrite(file, left, at)
            at, left = at + written, left[written:]
    finally:
        os.close(file)


def _tables(names: Names) -> tuple[NameCodes, ...]:
    return names.sessions, names.speakers, names.types, names.toolsets


def _counts(names: Names) -> list[int]:
    return [len(table.names) for table in _tables(names)]


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

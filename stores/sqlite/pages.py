"""A reader of SQLite files that does without SQLite, page by page, so that damage costs only the damaged pages.

SQLite finds a row by descending from the file's first page; if a page on this path is damaged, everything below it is
out of reach. This module reads every page by itself. The format, https://www.sqlite.org/fileformat2.html, has not
changed since 2004. Files are only read.

It must stay: `sqlite3` reads nothing of a file whose first page is damaged, and this module reads every step of it
(tests/upkeep/test_salvage.py, which damages any page, the first too).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Cell", "Pages", "SavedStep", "saved_steps"]

MAGIC = b"SQLite format 3\0"
WAL_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}  # with the byte order of its checksums
PAGE_SIZE = 4_096  # if the file's header is damaged
PAGE_SIZES = [1 << power for power in range(9, 17)]
LEAF = 0x0D  # the type of a page that holds rows of a table
UNREADABLE = (IndexError, ValueError, OverflowError, struct.error)  # the errors that damage may raise
_NUMBERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type -> bytes of the integer


# Of the table `steps`: the columns that every format has, and the places of some.
COLUMNS, ID, RECORD, MILESTONE = 11, 1, 8, 11


class SavedStep(NamedTuple):
    """The readable row of a step, unchecked."""

    number: int
    id: object
    record: str
    milestone: bool


def saved_steps(path: Path) -> Iterator[SavedStep]:
    """Read the steps of the damaged file `path`, by number; a step that was changed may come more than once."""
    with closing(Pages(path)) as pages:
        for cell in sorted(pages.cells(COLUMNS, RECORD)):
            values = pages.values(cell)
            if values is not None and isinstance(record := values[RECORD], str):
                yield SavedStep(cell.rowid, values[ID], record, values[MILESTONE : MILESTONE + 1] == [1])


class Cell(NamedTuple):
    """The place of a row."""

    rowid: int
    page: int  # from 1
    at: int  # in the page


class Pages:
    """The pages of the file at `path` after its last commit; pages in the write-ahead log replace older ones."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            head = self._file.read(100)
            self._log = _Log(path.with_name(f"{path.name}-wal"))
        except BaseException:
            self._file.close()
            raise
        whole = head[:16] == MAGIC and len(head) == 100
        named = struct.unpack(">H", head[16:18])[0] if whole else 0
        named = 65_536 if named == 1 else named
        self._size = named if named in PAGE_SIZES else self._log.page_size or PAGE_SIZE
        self._usable = self._size - (head[20] if whole else 0)
        pages = -(-self._file.seek(0, 2) // self._size)
        self._count = max([pages, *self._log.pages])

    def cells(self, columns: int, text: int) -> Iterator[Cell]:
        """Yield all rows with at least so many columns, and a text in column number `text`, in no order."""
        for number in range(1, self._count + 1):
            page = self._page(number)
            first = 100 if number == 1 else 0
            if len(page) < self._usable or page[first] != LEAF:
                continue
            for at in self._places(page, first):
                try:
                    _, rowid, types, _ = self._head(page, at)
                except UNREADABLE:
                    continue
                if len(types) >= columns and types[text] > 12 and types[text] % 2:
                    yield Cell(rowid, number, at)

    def values(self, cell: Cell) -> list[Any] | None:
        """Return the values of a row, each None, int, float, str or bytes; None if it cannot be read whole."""
        page = self._page(cell.page)
        try:
            size, _, types, start = self._head(page, cell.at)
            header, _ = _varint(page, start)
            payload = self._payload(page, start, size)
            return list(_decoded(payload, header, types)) if len(payload) == size else None
        except UNREADABLE:
            return None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _page(self, number: int) -> bytes:
        if number in self._log.pages:
            return self._log.pages[number]
        try:
            self._file.seek((number - 1) * self._size)
            return self._file.read(self._size)
        except OSError:  # the disk cannot read this place, but maybe others
            return b""

    @staticmethod
    def _places(page: bytes, first: int) -> tuple[int, ...]:
        """Return the places of a page's cells from its own list, which deleted cells are not in."""
        (count,) = struct.unpack_from(">H", page, first + 3)
        count = min(count, (len(page) - first - 8) // 2)
        return struct.unpack_from(f">{count}H", page, first + 8)

    @staticmethod
    def _head(page: bytes, at: int) -> tuple[int, int, list[int], int]:
        """Read the cell at `at`: the size of its payload, the row's id, its columns' serial types, its beginning."""
        size, at = _varint(page, at)
        rowid, start = _varint(page, at)
        header, at = _varint(page, start)
        types = []
        while at < start + header:
            kind, at = _varint(page, at)
            types.append(kind)
        return size, rowid - (1 << 64) if rowid >> 63 else rowid, types, start

    def _payload(self, page: bytes, start: int, size: int) -> bytes:
        """Return a row's bytes, from its page and its chain of overflow pages."""
        most = self._usable - 35
        least = (self._usable - 12) * 32 // 255 - 23
        here = least + (size - least) % (self._usable - 4)
        here = size if size <= most else here if here <= most else least
        parts, left = [page[start : start + here]], size - here
        if left > self._count * self._size:
            raise ValueError(f"a row of {size} bytes is larger than the file")
        following = struct.unpack_from(">I", page, start + here)[0] if left else 0
        while left > 0 and following:
            part = self._page(following)
            parts.append(part[4 : min(self._usable, 4 + left)])
            left -= max(1, len(parts[-1]))
            (following,) = struct.unpack_from(">I", part)
        return b"".join(parts)


class _Log:
    """The committed pages in a write-ahead log, up to the first frame whose checksum is wrong."""

    def __init__(self, path: Path) -> None:
        self.pages: dict[int, bytes] = {}
        self.page_size: int | None = None
        try:
            data = path.read_bytes()
        except OSError:
            return  # there is no log, or it cannot be read
        if len(data) < 32 or (order := WAL_MAGICS.get(struct.unpack_from(">I", data)[0])) is None:
            return
        size = struct.unpack_from(">I", data, 8)[0]
        if size not in PAGE_SIZES or (sums := _summed(data[:24], (0, 0), order)) != struct.unpack_from(">2I", data, 24):
            return
        self.page_size = size
        self._read(data, sums, order)

    def _read(self, data: bytes, sums: tuple[int, int], order: str) -> None:
        size, salts = self.page_size or 0, data[16:24]
        pending: dict[int, bytes] = {}
        for at in range(32, len(data) - size - 23, 24 + size):
            page = data[at + 24 : at + 24 + size]
            sums = _summed(page, _summed(data[at : at + 8], sums, order), order)
            number, committed = struct.unpack_from(">2I", data, at)
            if data[at + 8 : at + 16] != salts or sums != struct.unpack_from(">2I", data, at + 16):
                return
            pending[number] = page
            if committed:
                self.pages |= pending
                pending = {}


def _summed(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """Return the log's checksum of `data`, continued from `sums`."""
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of one to nine bytes at `at`, and its end."""
    value = 0
    for end in range(at, at + 8):
        byte = data[end]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, end + 1
    return value << 8 | data[at + 8], at + 9


def _decoded(payload: bytes, at: int, types: list[int]) -> Iterator[Any]:
    """Return the values of serial `types` that begin at `at`."""
    for kind in types:
        if kind >= 12:
            end = at + (kind - 12) // 2
            yield payload[at:end] if kind % 2 == 0 else payload[at:end].decode("utf-8")
        elif kind in _NUMBERS:
            end = at + _NUMBERS[kind]
            yield int.from_bytes(payload[at:end], "big", signed=True)
        elif kind == 7:
            end = at + 8
            yield struct.unpack_from(">d", payload, at)[0]
        else:
            end = at
            yield {8: 0, 9: 1}.get(kind)
        at = end

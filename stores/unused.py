"""The unused bytes of SQLite files, which may hold what was deleted, or copies of rows that moved to another page.

`secure_delete` overwrites a row that is deleted, but not the copy that stays behind when a page is split, and it is a
setting of a connection: another library writes without it. `VACUUM` writes the whole file again; this writes only what
is not zero already, and reads the rest: 100 MB take about 30 ms. The format, https://www.sqlite.org/fileformat2.html,
has not changed since 2004.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import chain

import numpy as np

from tinymem.errors import StorageError

__all__ = ["MAGIC", "overwrite_unused"]

MAGIC = b"SQLite format 3\0"  # the first bytes of every such file
TREES = {2: 12, 5: 12, 10: 8, 13: 8}  # types of pages of trees, with the length of their headers
AT_ONCE = 1 << 18  # bytes that are read at once
LINK = 4  # bytes that lead from a free block, or a free page, to the next
ZEROS = bytes(1 << 16)
MOST = 1 << 24  # pages up to which those of other kinds begin with a zero
FIRST = 100  # bytes of the file's header, on its first page


def overwrite_unused(file: int) -> int:
    """Overwrite the unused bytes of an SQLite file that nobody uses now, and return how many places had any.

    Args:
        file: Its descriptor, to read and write.

    Raises:
        StorageError: It is not such a file.
    """
    head = os.pread(file, FIRST, 0)
    if not head.startswith(MAGIC) or len(head) < FIRST:
        raise StorageError("not an SQLite file")
    (size,) = struct.unpack(">H", head[16:18])
    size = 1 << 16 if size == 1 else size
    if size < 512 or size & size - 1 or os.fstat(file).st_size >= size * MOST:
        raise StorageError(f"an SQLite file with pages of {size} bytes")
    count = 0
    for start, end in chain(_free_pages(file, head, size), _in_trees(file, size, size - head[20])):
        os.pwrite(file, ZEROS[: end - start], start)
        count += 1
    return count


def _free_pages(file: int, head: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield the places of free pages with something on them."""
    trunk, left = struct.unpack(">II", head[32:40])
    while trunk and left > 0:
        at = (trunk - 1) * size
        page = os.pread(file, size, at)
        following, held = struct.unpack(">II", page[:8])
        if held > size // LINK - 2:
            raise StorageError("an SQLite file whose list of free pages is damaged")
        used = 2 * LINK + LINK * held
        if page[used:].strip(b"\0"):
            yield at + used, at + size
        for leaf in struct.unpack(f">{held}I", page[2 * LINK : used]):
            if os.pread(file, size, (leaf - 1) * size).strip(b"\0"):
                yield (leaf - 1) * size, leaf * size
        trunk, left = following, left - held - 1


def _in_trees(file: int, size: int, usable: int) -> Iterator[tuple[int, int]]:
    """Yield the places between rows with something there; pages of other kinds begin with a small number, so a zero."""
    lengths = np.zeros(256, np.int64)
    lengths[[*TREES]] = [*TREES.values()]
    data = bytearray(AT_ONCE)  # one buffer, since new memory for each read takes most of the time
    for at in range(0, os.fstat(file).st_size, AT_ONCE):
        read = os.preadv(file, [data], at)
        pages = np.frombuffer(data, np.uint8)[: read // size * size].reshape(-1, size)
        heads = pages[:, :8].copy()
        if at == 0:
            heads[0] = pages[0, FIRST : FIRST + 8]
        numbers = heads[:, 1:7].copy().view(">u2").astype(np.int64)  # first free block, rows, where they begin
        begin = lengths[heads[:, 0]] + 2 * numbers[:, 1]
        begin[0] += FIRST if at == 0 else 0
        end = np.where(numbers[:, 2] == 0, 1 << 16, numbers[:, 2])
        is_tree = lengths[heads[:, 0]] > 0
        if (is_tree & ((end > usable) | (begin > end))).any():
            raise StorageError("an SQLite file with a damaged page")
        first = np.arange(len(pages)) * size
        rows = np.flatnonzero(is_tree)
        for start, stop in zip((first + begin)[rows].tolist(), (first + end)[rows].tolist(), strict=True):
            if data[start:stop] != ZEROS[: stop - start]:  # the fastest way to see it
                yield at + start, at + stop
        for row in np.flatnonzero(is_tree & (numbers[:, 0] > 0)).tolist():
            yield from _free_blocks(data[row * size : row * size + usable], int(numbers[row, 0]), at + row * size)


def _free_blocks(page: bytearray, block: int, at: int) -> Iterator[tuple[int, int]]:
    """Yield the places of free blocks of a page at `at` that have something in them."""
    while block:
        if block + LINK > len(page):
            raise StorageError("an SQLite file with a damaged page")
        following, length = struct.unpack_from(">HH", page, block)
        if page[block + LINK : block + length].strip(b"\0"):
            yield at + block + LINK, at + block + length
        if following and following <= block:
            raise StorageError("an SQLite file with a damaged page")
        block = following

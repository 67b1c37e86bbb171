"""Functions that delete and check Chroma's files, and clean them of leftover memory."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tinymem.errors import StorageError

__all__ = ["DATABASE", "FORMAT", "MARK", "Graph", "Unused", "check", "read_graphs", "wipe"]

DATABASE = "chroma.sqlite3"
FORMAT = 1
MARK = "tinymem"  # key in the metadata of collections that tinymem has made; its value is FORMAT
HEADER = struct.Struct("<i6Q")  # version; offset, most and number of elements, their size; places of label and vector
HEADER_SIZE = 100  # of all of it, in version 1
LENGTH = 4  # bytes of the length of a vector's list of links
AT_ONCE = 1 << 20  # bytes that are read at once


class Graph(NamedTuple):
    """The files of a graph: `elements` of `size` bytes, from `offset` on, with a vector from `vector` to `label`."""

    folder: Path
    offset: int
    elements: int
    size: int
    vector: int
    label: int


def wipe(folder: Path) -> None:
    """Delete Chroma's files in `folder`, and only those; the database first, since the rest is useless without it."""
    for ending in ("-journal", "-wal", "-shm", ""):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
    for child in folder.iterdir():
        if child.is_dir() and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", child.name):
            shutil.rmtree(child)


def check(folder: Path) -> None:
    """Raise StorageError for index files that were cut short, as by a full disk: searching them is a SIGSEGV.

    Of a header that was cut short Chroma reads what it has in memory for the rest.
    """
    short = [file for file in folder.glob("*/header.bin") if file.stat().st_size < HEADER.size]
    for file, due in (*((file, HEADER_SIZE) for file in short), *_used(folder)):
        if file.stat().st_size < due:
            raise StorageError(
                f"{file} has {file.stat().st_size} bytes instead of {due}: delete {folder}, "
                "and the index is rebuilt from the journal"
            )


class Unused:
    """The unused space in the files of `folder`, after the last vector, which `clean` overwrites.

    Chroma reserves memory for more vectors than there are, and writes it uninitialised: it may hold anything that this
    process had there before, forgotten vectors too. This must stay: without it the forgetting benchmark finds such
    vectors in Chroma's lists of lengths.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cleaned: dict[Path, tuple[int, int]] = {}  # when each was last written, and with how many bytes in use

    def clean(self) -> None:
        """Overwrite the unused space of files written since the last call; nothing else may use them meanwhile."""
        for file, used in _used(self._folder):
            if self._cleaned.get(file) != (file.stat().st_mtime_ns, used):
                _zero(file, used)
                self._cleaned[file] = (file.stat().st_mtime_ns, used)


def read_graphs(folder: Path) -> Iterator[Graph]:
    """Yield the graphs in the folder, without those of an unknown version, which Chroma reports itself."""
    for header in folder.glob("*/header.bin"):
        start = header.read_bytes()[: HEADER.size]
        if len(start) == HEADER.size:
            version, offset, _, elements, size, label, vector = HEADER.unpack(start)
            if version == 1:
                yield Graph(header.parent, offset, elements, size, vector, label)


def _used(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files that reserve space for vectors, each with its bytes in use."""
    for graph in read_graphs(folder):
        sizes = {
            "header.bin": HEADER_SIZE,
            "data_level0.bin": graph.elements * graph.size,
            "length.bin": graph.elements * LENGTH,
        }
        for name, used in sizes.items():
            if (file := graph.folder / name).exists():
                yield file, used


def _zero(path: Path, used: int) -> None:
    with path.open("r+b") as file:
        file.seek(used)
        while some := file.read(AT_ONCE):
            if some.strip(b"\0"):
                file.seek(-len(some), 1)
                file.write(bytes(len(some)))

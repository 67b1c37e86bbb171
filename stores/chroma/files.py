"""Functions that delete and check Chroma's files, and clean them of leftover memory."""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

from tinymem.errors import StorageError

__all__ = ["DATABASE", "FORMAT", "MARK", "Unused", "check", "wipe"]

DATABASE = "chroma.sqlite3"
FORMAT = 1
MARK = "tinymem"  # key in the metadata of collections that tinymem has made; its value is FORMAT
HEADER = 100  # bytes of the graph's header, in version 1
LENGTH = 4  # bytes of the length of a vector's list of links
AT_ONCE = 1 << 20  # bytes that are read at once


def wipe(folder: Path) -> None:
    """Delete Chroma's files in `folder`, and only those; the database first, since the rest is useless without it."""
    for ending in ("-journal", "-wal", "-shm", ""):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
    for child in folder.iterdir():
        if child.is_dir() and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", child.name):
            shutil.rmtree(child)


def check(folder: Path) -> None:
    """Raise StorageError for index files that were cut short, as by a full disk: searching them is a SIGSEGV."""
    for file, due in _used(folder):
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


def _used(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files that reserve space for vectors, each with its bytes in use."""
    for header in folder.glob("*/header.bin"):
        start = header.read_bytes()[:36]
        version, _, _, held, size = struct.unpack("<iQQQQ", start) if len(start) == 36 else (0,) * 5
        if version != 1:
            continue  # Chroma reports an unknown version itself
        for name, used in (("header.bin", HEADER), ("data_level0.bin", held * size), ("length.bin", held * LENGTH)):
            if (file := header.with_name(name)).exists():
                yield file, used


def _zero(path: Path, used: int) -> None:
    with path.open("r+b") as file:
        file.seek(used)
        while some := file.read(AT_ONCE):
            if some.strip(b"\0"):
                file.seek(-len(some), 1)
                file.write(bytes(len(some)))

"""Functions that delete and check Chroma's files."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

from tinymem.errors import StorageError

__all__ = ["DATABASE", "FORMAT", "MARK", "check", "wipe"]

DATABASE = "chroma.sqlite3"
FORMAT = 1
MARK = "tinymem"  # key in the metadata of collections that tinymem has made; its value is FORMAT
COUNTS = struct.Struct("<i4Q")  # in a graph's header: version; offset, most and number of elements, their size
HEADER_SIZE = 100  # bytes of a header of version 1
LENGTH_SIZE = 4  # bytes of the length of a vector's list of links


def wipe(folder: Path) -> None:
    """Delete Chroma's files in `folder`, and only those; the database first, since the rest is useless without it."""
    for ending in ("-journal", "-wal", "-shm", ""):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)
    for child in folder.iterdir():
        if child.is_dir() and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", child.name):
            shutil.rmtree(child)


def check(folder: Path) -> None:
    """Raise StorageError for index files that were cut short, as by a full disk: searching them is a SIGSEGV."""
    for header in folder.glob("*/header.bin"):
        _check_size(header, COUNTS.size, folder)
        version, _, _, elements, size = COUNTS.unpack(header.read_bytes()[: COUNTS.size])
        if version != 1:  # which Chroma reports itself
            continue
        _check_size(header, HEADER_SIZE, folder)
        _check_size(header.with_name("data_level0.bin"), elements * size, folder)
        _check_size(header.with_name("length.bin"), elements * LENGTH_SIZE, folder)


def _check_size(file: Path, least: int, folder: Path) -> None:
    size = file.stat().st_size if file.exists() else least
    if size < least:
        raise StorageError(
            f"{file} has {size} bytes instead of {least}: delete {folder}, and the index is rebuilt from the journal"
        )

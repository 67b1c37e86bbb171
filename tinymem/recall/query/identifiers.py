"""Identifiers in text: the paths, symbols and ids that an agent copies out of what it saw, word for word.

Most of what an agent types next consists of them, so two numbers of a passage matter: the identifiers that it
introduces, that is, has before any other passage of the memory; and those of its own that the agent has typed before.
They are kept as 32-bit hashes, which `Catalog` looks up.
"""

from __future__ import annotations

import re
import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids

__all__ = ["Codes", "Seen", "hashes", "identifiers", "read"]

Codes: TypeAlias = npt.NDArray[np.uint32]

LEAST = 4  # characters of an identifier,
LEAST_PATH = 6  # and of a path or a dotted name
LONGEST = 200  # a longer run is no name but data

_RUN = re.compile(r"\w(?:[\w./-]*\w)?")
_WORD = re.compile(r"\w+")
# A letter, and a sign that this is a name and no word of a language: an underscore, a digit or a hump inside.
_NAME = re.compile(r"(?=.*[^\W\d_])(?:.*[^_]_+[^_]|.*\d|.*[a-z][A-Z])")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def identifiers(text: str) -> list[str]:
    """Find the identifiers of `text`, each once, in order.

    They are names with underscores, digits or humps, paths, dotted names, and the parts of these that are identifiers
    themselves.

    >>> identifiers("see src/app.py: load_config, not main")
    ['src/app.py', 'load_config']
    """
    found: dict[str, None] = {}
    for run in _RUN.findall(text):
        if len(run) > LONGEST:
            continue
        if run.isalpha() and (run.islower() or run.istitle()):  # nearly all of them: words of a language
            continue
        parts = _WORD.findall(run)
        if len(parts) > 1 and ("/" in run or "." in run) and len(run) >= LEAST_PATH and _LETTERS.search(run):
            found[run] = None
        for part in parts:
            if len(part) >= LEAST and _NAME.match(part):
                found[part] = None
    return list(found)


def hashes(text: str) -> bytes:
    """Hash the identifiers of `text`, in 4 bytes each, for `read`."""
    codes = [zlib.crc32(name.encode("utf-8", "replace")) for name in identifiers(text)]
    return np.array(codes, "<u4").tobytes()


def read(kept: bytes) -> Codes:
    """Read the bytes of `hashes`: `(identifiers,)` uint32."""
    return np.frombuffer(kept, "<u4")


class Seen:
    """The first passage of each identifier, and the ones that the agent typed, for up to `room` identifiers.

    Each has one slot, by its hash: two that share a slot count as the same, which happens to few.
    """

    def __init__(self, room: int = 0) -> None:
        size = 1 << max(10, (2 * room - 1).bit_length())
        self._mask = np.uint32(size - 1)
        self._first = np.full(size, -1, np.int32)
        self._typed = np.zeros(size, np.bool_)

    def has_room(self, count: int) -> bool:
        """Return True if there is room for so many identifiers."""
        return 2 * count <= len(self._first)

    def extend(self, codes: Codes, rows: Ids, typed: npt.NDArray[np.bool_]) -> None:
        """Take in the identifiers of passages `rows`, which ascend; the agent `typed` the marked ones."""
        slots = codes & self._mask
        new = np.flatnonzero(self._first[slots] < 0)[::-1]
        self._first[slots[new]] = rows[new]  # of several the last one counts, which is the earliest row
        self._typed[slots[typed]] = True

    def introduced(self, codes: Codes, rows: Ids) -> npt.NDArray[np.bool_]:
        """Mark those of `codes` that come up first in their own passage, of `rows`."""
        introduced: npt.NDArray[np.bool_] = self._first[codes & self._mask] == rows
        return introduced

    def typed(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Mark those of `codes` that the agent typed."""
        typed: npt.NDArray[np.bool_] = self._typed[codes & self._mask]
        return typed

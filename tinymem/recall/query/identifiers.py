"""Identifiers in text: the paths, symbols, ids and addresses that are copied word for word.

Most of what an agent types next consists of them, so it matters which ones a passage introduces, that is, has before
any other passage of the memory, and which of its own the agent has typed before. A question that names a rare one asks
for the passages that hold it. They are kept as 32-bit hashes, whose lowest two bits are their class.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import chain, filterfalse
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids
from tinymem.stores.words import blank_cjk

__all__ = [
    "NAME", "NONE", "NUMBER", "PATH", "Codes", "Seen", "classes", "codes_of", "files_of", "hashes",
    "identifiers", "labels", "named", "read",
]  # fmt: skip

Codes: TypeAlias = npt.NDArray[np.uint32]

NAME, NUMBER, PATH = range(3)  # classes
LEAST = 4  # characters of an identifier,
LEAST_PATH = 6  # of a path or a dotted name,
LEAST_NUMBER = 5  # and of a number
LEAST_ID = 8  # digits of a number that is an id of something, and so a name
LEAST_DIGITS = 3  # of a label that can only mean one thing: not GPT-4, covid-19
LONGEST = 200  # a longer run is no name but data
NONE: Codes = np.zeros(0, "<u4")  # no identifiers

_RUN = re.compile(r"\w(?:[\w./-]*\w)?")
_WORD = re.compile(r"\w+")
# A letter, and a sign that this is a name and no word of a language: an underscore, a digit or a hump inside.
_NAME = re.compile(r"(?=.*[^\W\d_])(?:.*[^_]_+[^_]|.*\d|.*[a-z][A-Z])")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_ADDRESS = re.compile(r"v?\d+(?:\.\d+){2,}(?:[-.]?\w+)*")  # an IP address, or a version
_MARKED = re.compile(r"[\d_.]")
_FILE = re.compile(r"/|^\D.*\.")
# ordinals, measures, dates
_COMMON = re.compile(r"\d+(?:[^\W\d_]{1,2}|-[^\W\d_]+)|\d\d?\.\d\d?\.\d{4}|\d{4}-\d\d-\d\d", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?=T\d\d|$)")
_LABEL = re.compile(r"(?!\d{4}-\d\d-\d\d)(?=.*\d)(?=.*[^\W\d_])[\w-]+")  # a number of something, as ORD-54741


_SPLIT = re.compile(r"([^\W\d_]+)[-_]?(\d+)")  # the letters and the digits of a label


def identifiers(text: str) -> list[str]:
    """Find the identifiers of `text`, each once, in order.

    They are names with underscores, digits or humps, paths, dotted names, addresses, labels as ORD-54741, dates as
    2024-05-15, numbers of five digits and more, and the parts of these that are identifiers themselves.

    >>> identifiers("see src/app.py: load_config, not main")
    ['src/app.py', 'load_config']
    >>> identifiers("ORD-54741 went to node-13 (10.0.0.7) on 2024-05-15")
    ['ORD-54741', '54741', 'node-13', '10.0.0.7', '2024-05-15']
    >>> identifiers("订单ORD-54741在12号送到")
    ['ORD-54741', '54741']
    """
    found: dict[str, None] = {}
    for run in _RUN.findall(blank_cjk(text)):
        # nearly all of them are words of a language
        if len(run) > LONGEST or (run.isalpha() and (run.islower() or run.istitle())):
            continue
        date = _DATE.match(run)
        if date:
            found[date[0]] = None
            continue
        parts = _WORD.findall(run)
        if len(parts) > 1 and _is_joined(run):
            found[run] = None
        for part in parts:
            is_number = len(part) >= LEAST_NUMBER and part.isdecimal() and "." not in run
            if is_number or (len(part) >= LEAST and _NAME.match(part)):
                found[part] = None
    return list(found)


def _is_joined(run: str) -> bool:
    """Return True if a run of several words is a path, a dotted name, an address or a label."""
    if "/" in run or "." in run:
        return (len(run) >= LEAST_PATH and bool(_LETTERS.search(run))) or bool(_ADDRESS.fullmatch(run))
    return len(run) >= LEAST and bool(_LABEL.fullmatch(run))


def classes(codes: Codes) -> Codes:
    """Return the class of each hash: NAME, NUMBER or PATH."""
    return codes & np.uint32(3)


def codes_of(names: Iterable[str]) -> Codes:
    """Hash identifiers: `(identifiers,)`."""
    return np.array([*map(_code, names)], "<u4")


def files_of(text: str) -> Codes:
    """Hash the files that a text names: their paths, and their names without an ending."""
    paths = [name for name in identifiers(text) if _FILE.search(name)]
    stems = [path.rpartition("/")[2].partition(".")[0] for path in paths]
    return codes_of([*paths, *(stem for stem in stems if len(stem) >= LEAST)])


def hashes(names: Iterable[str]) -> bytes:
    """Hash identifiers, in 4 bytes each, for `read`."""
    return codes_of(names).tobytes()


def named(names: Iterable[str]) -> Codes:
    """Hash those identifiers of a question that name one thing: not WeChat, 15th, and/or, 5-kilometer, 21.01.2024.

    A label is looked for in each of its spellings.
    """
    marked = [name for name in names if _MARKED.search(name) or name.count("/") > 1]
    found = filterfalse(_COMMON.fullmatch, marked)
    return codes_of(dict.fromkeys(chain.from_iterable(map(_spellings, found))))


def labels(names: Iterable[str]) -> dict[str, str]:
    """Find among the identifiers of a question those that can only mean one thing, and the words that a text has then.

    >>> labels(identifiers("Who sent ORD-99999?"))
    {'ORD-99999': 'ORD99999 99999'}
    """
    return {
        parts[0]: f"{parts[1]}{parts[2]} {parts[2]}"
        for parts in map(_SPLIT.fullmatch, names)
        if parts and len(parts[2]) >= LEAST_DIGITS and not _COMMON.fullmatch(parts[0])
    }


def _spellings(name: str) -> Sequence[str]:
    """Return a name, and for a label as ORD-54741 also ORD54741, ORD_54741 and, if it is long, its number."""
    parts = _SPLIT.fullmatch(name)
    if parts is None:
        return (name,)
    letters, digits = parts.groups()
    joined = [f"{letters}{sign}{digits}" for sign in ("-", "", "_")]
    return [*joined, digits] if len(digits) >= LEAST_NUMBER else joined


def _code(name: str) -> int:
    """Hash an identifier, written in small or capital letters, with its class."""
    kind = NUMBER if name.isdecimal() and len(name) < LEAST_ID else PATH if "/" in name else NAME
    return zlib.crc32(name.lower().encode("utf-8", "replace")) & ~3 | kind


def read(kept: bytes) -> Codes:
    """Read the bytes of `hashes`: `(identifiers,)` uint32."""
    return np.frombuffer(kept, "<u4")


class Seen:
    """The first passage of each identifier, and the first in which the agent typed it, for up to `room` identifiers.

    Each has one slot, by its hash: two that share a slot count as the same, which happens to few. The `tables` are
    `(2, slots)`, of rows counted from 1, 0 for none; snapshots share them, and some have later rows than others.
    """

    def __init__(self, room: int = 0, tables: Codes | None = None) -> None:
        self.tables: Codes = np.zeros((2, self.slots(room)), np.uint32) if tables is None else tables

    @staticmethod
    def slots(room: int) -> int:
        """Return the number of slots for up to `room` identifiers."""
        return 1 << max(10, (2 * room - 1).bit_length())

    def _slots(self, codes: Codes) -> Codes:
        return codes >> np.uint32(2) & np.uint32(self.tables.shape[1] - 1)

    def extend(self, codes: Codes, rows: Ids, typed: npt.NDArray[np.bool_]) -> None:
        """Take in the identifiers of passages `rows`, which ascend; the agent `typed` the marked ones."""
        slots = self._slots(codes)
        for table, place, mine in ((self.tables[0], slots, rows), (self.tables[1], slots[typed], rows[typed])):
            new = np.flatnonzero(table[place] == 0)[::-1]
            table[place[new]] = mine[new] + 1  # of several the last one counts, which is the earliest row

    def introduced(self, codes: Codes, rows: Ids) -> npt.NDArray[np.bool_]:
        """Mark those of `codes` that come up first in their own passage, of `rows`."""
        introduced: npt.NDArray[np.bool_] = self.tables[0][self._slots(codes)] == rows + 1
        return introduced

    def typed(self, codes: Codes, rows: int) -> npt.NDArray[np.bool_]:
        """Mark those of `codes` that the agent typed in the first so many `rows`."""
        first = self.tables[1][self._slots(codes)]
        typed: npt.NDArray[np.bool_] = (first > 0) & (first <= rows)
        return typed

"""The slices of units that stand in a recalled text, and the memory's own words around each of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["MARK", "Slice", "Unfolded", "marked", "own_words", "slices_of"]

MARK = re.compile(  # words that say that something holds no more
    r"supersed|outdated|out of date|obsolete|\bstale\b|no longer|not current"
    r"|(earlier|old|older|previous) (version|text|state)"
    r"|(changed|edited|rewritten|replaced|removed|deleted|updated|overwritten|modified)\s+(since|later|by|at|in|after)\b"
    r"|since (changed|edited|rewritten|replaced|removed)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\S+")


class Unfolded(NamedTuple):
    """A text with each run of white space as one space, and the place in the text of each of its characters."""

    folded: str
    places: Sequence[int]

    @classmethod
    def of(cls, text: str) -> Unfolded:
        """Fold a text."""
        words, places = list[str](), list[int]()
        for found in _WORDS.finditer(text):
            if words:
                places.append(found.start() - 1)
            words.append(found[0])
            places.extend(range(found.start(), found.end()))
        return cls(" ".join(words), places)


class Slice(NamedTuple):
    """The slice `[start, end)` of a unit, and where in the recalled text it stands: `[first, last)`."""

    unit: str
    start: int
    end: int
    first: int
    last: int


def slices_of(texts: Mapping[str, str], claims: Iterable[Mapping[str, Any]], text: str) -> list[Slice]:
    """Return the claimed slices of units that really stand in a recalled text, in its order.

    Args:
        texts: The text of each unit, by its id.
        claims: The claims, each {"id", "start"?, "end"?}.
        text: The recalled text.
    """
    folded, places = Unfolded.of(text)
    found, used = list[Slice](), defaultdict[str, int](int)
    for claim in claims:
        body = texts[claim["id"]]
        start, end = max(0, claim.get("start", 0)), min(len(body), claim.get("end", len(body)))
        wanted = Unfolded.of(body[start:end]).folded
        first = folded.find(wanted, used[wanted])
        first = folded.find(wanted) if first < 0 else first
        if not wanted or first < 0:
            continue
        used[wanted] = first + 1
        found.append(Slice(claim["id"], start, end, places[first], places[first + len(wanted) - 1] + 1))
    return sorted(found, key=lambda one: one.first)


def own_words(text: str, slices: Sequence[Slice]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the memory's own words before and behind each slice, and all of them by themselves.

    Words before a slice begin on the line after the slice before it; those behind end with its last line.
    """
    around, own, last = list[tuple[str, str]](), list[str](), 0
    starts = [one.first for one in slices]
    for one, (_, following) in zip(slices, pairwise([*starts, len(text)]), strict=True):
        gap = text[last : one.first]
        own.append(gap)
        before = gap if last == 0 else gap.partition("\n")[2] if "\n" in gap else gap
        behind = text[one.last : max(one.last, following)].partition("\n")[0]
        around.append((before, behind))
        last = max(last, one.last)
    return around, [*own, text[last:]]


def marked(around: tuple[str, str]) -> bool:
    """Return whether the words around a slice say that it holds no more.

    >>> marked(("#3 Read: ", " (perhaps outdated by #9)")), marked(("#3 Read: ", ""))
    (True, False)
    """
    return any(map(MARK.search, around))

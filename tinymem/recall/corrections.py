"""Corrections: what corrects a step comes back in its place, and what said the same as the step is corrected too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tinymem.recall.catalog import Catalog
from tinymem.recall.diversity import wording
from tinymem.recall.packing import RankedPassage
from tinymem.stores.filter import Filter

__all__ = ["newest_corrections", "put_corrections", "says_the_same"]

SAME = 0.7  # Jaccard index of the words of two texts that say the same
SHORT_WORD = 3  # characters of a word that says little of what a text is about


def newest_corrections(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return, by the number of each corrected step, the newest one that corrects it, or what corrected it.

    A step corrects only what was said before it.

    >>> newest_corrections([(1, 4), (4, 6), (2, 5), (9, 3)])
    {4: 6, 2: 5, 1: 6}
    """
    found: dict[int, int] = {}
    for old, new in sorted(pairs, key=lambda pair: pair[::-1], reverse=True):
        if new > old:
            found.setdefault(old, found.get(new, new))
    return found


def put_corrections(
    ranked: Sequence[RankedPassage],
    corrections: Mapping[int, int],
    catalog: Catalog,
    only: Filter,
    hidden: Collection[int] = (),
) -> Sequence[RankedPassage]:
    """Put what corrects a step in the place of its passages, where it may come back; the better of its places counts.

    Args:
        ranked: Passages, best first.
        corrections: The number of the newest correction of each corrected step.
        catalog: The arrays over the passages.
        only: Accepts what may come back.
        hidden: Numbers of steps that may not.
    """
    if not any(one.number in corrections for one in ranked):
        return ranked
    allowed = catalog.allowed(only, hidden)
    found: dict[tuple[int, ...], RankedPassage] = {}
    for one in ranked:
        if (new := corrections.get(one.number)) is not None:
            rows = np.flatnonzero((catalog.step == new) & allowed)
            if not len(rows):
                continue
            part, start, end = (int(catalog.places[rows[0]][name]) for name in ("part", "start", "end"))
            one = one._replace(number=new, part=part, start=start, end=end)
        found.setdefault(one[:4], one)
    return [*found.values()]


def says_the_same(one: str, other: str) -> bool:
    """Return whether two texts make the same claim: nearly the same words, and the same numbers in them.

    >>> says_the_same("The vault's code is 4711-Q.", "Noted: the code of the vault is 4711-Q")
    True
    >>> says_the_same("The vault's code is 4711-Q.", "The garage's code is 4711-Q.")
    False
    """
    words, others = _words(one), _words(other)
    if not words or {word for word in words ^ others if _has_digit(word)}:
        return False
    return len(words & others) >= SAME * len(words | others)


def _words(text: str) -> frozenset[str]:
    words = (word.strip(":;,").removesuffix("'s").removesuffix("’s") for word in wording(text).split())
    return frozenset(word for word in words if len(word) > SHORT_WORD or _has_digit(word))


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))

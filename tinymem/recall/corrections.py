"""Corrections: what corrects a step comes back in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tinymem.recall.catalog import Catalog
from tinymem.recall.packing import RankedPassage
from tinymem.stores.filter import Filter

__all__ = ["newest_corrections", "places_of", "put_corrections"]


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


def places_of(catalog: Catalog, only: Filter, hidden: Collection[int], number: int) -> list[tuple[int, int, int]]:
    """Return the places of the passages of a step that may come back: part, start and end."""
    rows = np.flatnonzero((catalog.step == number) & catalog.allowed(only, hidden))
    return [(int(place["part"]), int(place["start"]), int(place["end"])) for place in catalog.places[rows]]


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

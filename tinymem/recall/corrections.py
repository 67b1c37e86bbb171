"""Corrections: what corrects a step comes back in its place, and what was said later otherwise comes before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tinymem.recall.opened import Fetch, OpenedSteps
from tinymem.recall.packing import Place, RankedPassage
from tinymem.recall.relevance import price_of
from tinymem.recall.snapshot import Snapshot
from tinymem.recall.supersession import LONGEST, Statement, has_other_value, newest_statements

__all__ = ["newest_corrections", "places_of", "put_corrections", "put_newest_first"]

AHEAD = 8  # passages behind those that fit the budget, among which newer statements are looked for
LABEL = 4  # tokens of a label, about
LOSS = 2.0  # log-odds that a statement loses where a newer one is the same but for its value


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


def places_of(catalog: Snapshot, allowed: npt.NDArray[np.bool_], number: int) -> list[tuple[int, int, int]]:
    """Return the places of the `allowed` passages of a step: part, start and end."""
    first, end = np.searchsorted(catalog.step, (number, number + 1)).tolist()
    places = catalog.places[first:end][allowed[first:end]]
    return [(int(place["part"]), int(place["start"]), int(place["end"])) for place in places]


def put_corrections(
    ranked: Sequence[RankedPassage],
    corrections: Mapping[int, int],
    catalog: Snapshot,
    allowed: npt.NDArray[np.bool_],
) -> Sequence[RankedPassage]:
    """Put what corrects a step in the place of its passages, where it may come back; the better of its places counts.

    Args:
        ranked: Passages, best first.
        corrections: The number of the newest correction of each corrected step.
        catalog: The arrays over the passages.
        allowed: Rows that may come back: `(len(catalog),)`.
    """
    if not any(one.number in corrections for one in ranked):
        return ranked
    found: dict[tuple[int, ...], RankedPassage] = {}
    for one in ranked:
        if (new := corrections.get(one.number)) is not None:
            places = places_of(catalog, allowed, new)
            if not places:
                continue
            part, start, end = places[0]
            one = one._replace(number=new, part=part, start=start, end=end)
        found.setdefault(one[:4], one)
    return [*found.values()]


def put_newest_first(
    ranked: Sequence[RankedPassage], budget: int, opened: OpenedSteps, fetch: Fetch
) -> Sequence[RankedPassage]:
    """Put statements before those that they supersede, as far as words tell, and note their numbers with these."""
    if not newest_statements(_statements(_nearest(ranked, budget), opened, fetch)):
        return ranked  # as most times
    places = _statements(ranked, opened, fetch)  # where one thing changed, so may others have
    newest = newest_statements(places)
    costs = {one[:4]: float(price_of(one.end - one.start)) - one.score for one in ranked}
    for older, newer in newest.items():
        costs[places[newer]] = min(costs[places[newer]], costs[places[older]])
    for older, newer in newest.items():
        costs[places[older]] += LOSS * has_other_value(older, newer)
    numbers = {places[older]: places[newer][0] for older, newer in newest.items()}
    marked = [one._replace(newer=numbers.get(one[:4])) for one in ranked]
    return sorted(marked, key=lambda one: (costs[one[:4]], one.newer is not None))


def _nearest(ranked: Sequence[RankedPassage], budget: int) -> Sequence[RankedPassage]:
    """Return those that fit `budget` tokens, about, and the next AHEAD."""
    for place, one in enumerate(ranked):
        if budget < 0:
            return ranked[: place + AHEAD]
        budget -= (one.end - one.start) // 4 + LABEL
    return ranked


def _statements(ranked: Sequence[RankedPassage], opened: OpenedSteps, fetch: Fetch) -> dict[Statement, Place]:
    """Return the passages that are statements and may come back."""
    related = [one for one in ranked if one.is_relevant]
    steps = opened.of({one.number for one in related}, fetch)
    short = [one for one in related if one.end <= LONGEST and one.number in steps]  # others are of longer texts
    said = [(steps[one.number].statement(one.part), one[:4]) for one in short]
    return {statement: place for statement, place in said if statement is not None}

"""Corrections: what corrects a step comes back in its place, and what was said later otherwise comes before it.

What was said otherwise is told by words (`statements`). It stays a guess: what is superseded gets a mark, and its place
behind what is newer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tinymem.recall.relevance import price_of
from tinymem.recall.selection.statements import newest_statements
from tinymem.recall.snapshot import SAID, TOOL, PassagePlace, Snapshot

if TYPE_CHECKING:
    from tinymem.recall.selection.opened import OpenedSteps, RankedPassage

__all__ = ["newest_corrections", "places_of", "put_corrections", "put_newest_first"]

READ = 4  # characters of the best passages for each token of the block, and
LEAST_READ = 7_500  # so many in any case: there statements are looked for
LOSS = 2.0  # log-odds that a statement loses where a newer one says it otherwise


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


def places_of(snapshot: Snapshot, allowed: npt.NDArray[np.bool_], number: int) -> list[PassagePlace]:
    """Return the places of the `allowed` passages of a step."""
    first, end = np.searchsorted(snapshot.step, (number, number + 1)).tolist()
    return snapshot.places_of(first + np.flatnonzero(allowed[first:end]))


def put_corrections(
    ranked: Sequence[RankedPassage],
    corrections: Mapping[int, int],
    snapshot: Snapshot,
    allowed: npt.NDArray[np.bool_],
) -> list[RankedPassage]:
    """Put what corrects a step in the place of its passages, where it may come back; the better of its places counts.

    Args:
        ranked: Passages, best first.
        corrections: The number of the newest correction of each corrected step.
        snapshot: The arrays over the passages.
        allowed: Rows that may come back: `(len(snapshot),)`.
    """
    found: dict[PassagePlace, RankedPassage] = {}
    for passage in ranked:
        newest = corrections.get(passage.number)
        if newest is not None:
            places = places_of(snapshot, allowed, newest)
            if not places:
                continue
            number, part, start, end = places[0]
            passage = passage._replace(number=number, part=part, start=start, end=end, kind=SAID)
        found.setdefault(passage[:4], passage)
    return [*found.values()]


def put_newest_first(
    ranked: Sequence[RankedPassage], steps: OpenedSteps, now: datetime, budget: int
) -> Sequence[RankedPassage]:
    """Put statements before those that they supersede, as far as words tell, and note their numbers with these.

    They are looked for among the best passages, a few times as many as fit `budget` tokens: a statement and what
    supersedes it have most words in common, and so about the same score.

    What is dated later than `now` supersedes nothing, nor what was said in another session where nobody is named.
    """
    ends = [*accumulate(passage.end - passage.start for passage in ranked)]
    best = ranked[: bisect_right(ends, LEAST_READ + READ * budget)]
    places = steps.statements([passage[:4] for passage in best if passage.is_relevant and passage.kind != TOOL])
    newest = {places[old]: places[new] for old, new in newest_statements(places, now).items()}
    return _led_by(newest, ranked) if newest else ranked


def _led_by(newest: Mapping[PassagePlace, PassagePlace], ranked: Sequence[RankedPassage]) -> Sequence[RankedPassage]:
    """Rank what is newest before what it supersedes, given by their places."""
    costs = {passage[:4]: price_of(passage.end - passage.start) - passage.score for passage in ranked}
    for old, new in newest.items():
        costs[new] = min(costs[new], costs[old])
    for old in newest:
        costs[old] += LOSS
    marked = [passage._replace(newer=newest.get(passage[:4], (None,))[0]) for passage in ranked]
    return sorted(marked, key=lambda passage: (costs[passage[:4]], passage.newer is not None))

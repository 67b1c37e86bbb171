"""Corrections: what corrects a step comes back in its place, and what was said later otherwise comes before it.

What was said otherwise is told by words: both are the same sentence but for the value at its end ("The capital of Italy
is Rome", "... is Turin"). Questions, long texts and what somebody else said count for nothing, nor do sentences about
"I" or "it": both may hold. It stays a guess: what is superseded gets a mark, and its place behind what is newer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tinymem.recall.relevance import price_of
from tinymem.recall.snapshot import SAID, TOOL, PassagePlace, Snapshot

if TYPE_CHECKING:
    from tinymem.recall.selection.opened import OpenedSteps, RankedPassage

__all__ = [
    "LONGEST",
    "Statement",
    "has_other_value",
    "newest_corrections",
    "newest_statements",
    "places_of",
    "put_corrections",
    "put_newest_first",
]

READ = 4  # characters of the best passages for each token of the block, and
LEAST_READ = 7_500  # so many in any case: there statements are looked for
LOSS = 2.0  # log-odds that a statement loses where a newer one says it otherwise
LONGEST = 400  # characters of a text that is read as a statement
TAIL = 7  # words of a value

_SENTENCE_END = re.compile(r"(?<=[^\W_]{2}[.!?])\s+|(?<=[.!?][\"')\]])\s+|\n+")
_SERIAL = re.compile(r"\W*\d+[.)]\s+")
_WORD = re.compile(r"[^\W_]+(?:[.,:/@'’_-][^\W_]+)*")
_NOBODY = frozenset(  # first words of a sentence that do not say what it is about
    """
    i i'm i've i'll i'd we we're you he he's she she's it it's they they're this that that's these those there there's
    here here's what who when how if so and but yes no oh then now let all some most both one
    """.split()  # noqa: SIM905
)
_BE = frozenset(("is", "are", "was", "were"))
_LINKS = _BE | {"of", "in", "by", "to", "at", "on", "from", "with", "for", "as", "named", "called"}
_STATES = _BE | frozenset(  # verbs of sentences that hold until something else does
    """
    has plays died born speaks works worked lives comes runs uses costs starts begins holds belongs ends opens closes
    """.split()  # noqa: SIM905
)


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
    ends = accumulate(passage.end - passage.start for passage in ranked)
    best = ranked[: bisect_right([*ends], LEAST_READ + READ * budget)]
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


class Statement:
    """A short text, who said it as what, and when: statements have an order of time by it.

    `source` is who is named as its speaker, else its session, since others may speak in each. `opening` has both, and
    the first words, if they say what it is about.
    """

    def __init__(self, text: str, by: str, when: tuple[datetime, int], source: str = "") -> None:
        self.when = when
        self.text = _SERIAL.sub("", text, count=1) if text[:1].isdigit() else text
        words = self.text.lower().split()
        self.opening = () if len(words) < 4 or words[0] in _NOBODY else (by, source, *words[:3])

    @cached_property
    def words(self) -> list[str]:
        """The words of its only sentence, but for questions, if a verb among them says what holds; else none."""
        found = _SENTENCE_END.split(self.text)
        stated = [sentence for sentence in found if not sentence.rstrip().endswith(("?", "？"))]
        words = _WORD.findall(stated[0]) if len(stated) == 1 else []
        return [] if _STATES.isdisjoint(words) else words


def has_other_value(older: Statement, newer: Statement) -> bool:
    """Return True if both are one sentence, with the same words but for the value at its end."""
    old, new = older.words, newer.words
    pairs = enumerate(zip(old, new, strict=False))
    count = next((place for place, (word, other) in pairs if word != other), 0)  # of words that both begin with
    if not count:
        return False
    if not (old[count][0].isdigit() and new[count][0].isdigit()):
        while count and old[count - 1] not in _LINKS and old[count - 1][0].isupper():  # what both values begin with
            count -= 1
        if not _may_end_in_value(old[:count]):
            return False
    return count > 2 and max(len(old), len(new)) - count <= TAIL and not _STATES.isdisjoint(old[:count])


def _may_end_in_value(words: Sequence[str]) -> bool:
    """Return True if a value may come next that only one thing has at a time: "X lives in", "the head of X is"."""
    if not words or words[-1] not in _BE:
        return bool(words) and words[-1] in _LINKS
    is_part = len(words) > 3 and words[0].lower() in ("the", "my", "our")
    return is_part or any(word.endswith(("'s", "’s")) for word in words)


def newest_statements(statements: Iterable[Statement], now: datetime | None = None) -> dict[Statement, Statement]:
    """Return, by each statement that is superseded, the newest one of its source that does so up to `now`."""
    alike: defaultdict[tuple[str, ...], list[Statement]] = defaultdict(list)
    for statement in statements:
        if statement.opening and (now is None or statement.when[0] <= now):
            alike[statement.opening].append(statement)
    found: dict[Statement, Statement] = {}
    for run in chain.from_iterable(map(_runs, alike.values())):
        newest = max(run, key=attrgetter("when"))
        for older in run:
            if older.when < newest.when and has_other_value(older, newest):
                found[older] = newest
    return found


def _runs(statements: Iterable[Statement]) -> Iterator[list[Statement]]:
    """Yield the statements that are the same but for their value together: ordered by text, they are neighbours."""
    run: list[Statement] = []
    for statement in sorted(statements, key=attrgetter("text")):
        if run and run[-1].text != statement.text and not has_other_value(run[-1], statement):
            yield run
            run = []
        run.append(statement)
    yield run

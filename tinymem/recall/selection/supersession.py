"""Supersession: statements that no longer hold, as far as words tell, since their source said them again otherwise.

Both are the same sentence but for the value at its end ("The capital of Italy is Rome", "... is Turin"). Questions,
long texts and what somebody else said count for nothing, nor do sentences about "I" or "it": both may hold. It stays a
guess: what is superseded gets a mark, and its place behind what is newer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain
from operator import attrgetter

__all__ = ["LONGEST", "Statement", "has_other_value", "newest_statements"]

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


class Statement:
    """A short text, who said it as what, and when: statements have an order of time by it.

    `source` is who is named as its speaker, else its session, since others may speak in each.

    `opening` has the first words, if they say what it is about.
    """

    def __init__(self, text: str, by: str, when: tuple[datetime, int], source: str = "") -> None:
        self.by, self.when, self.source = by, when, source
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
    """Return, by each statement that is superseded, the newest one that does so up to `now`, best of its source."""
    statements = [statement for statement in statements if now is None or statement.when[0] <= now]
    found: dict[Statement, Statement] = {}
    for older, newer in _restated(statements):
        rank = newer.source == older.source, newer.when
        last = found.get(older, older)
        if older.when < newer.when and (last is older or (last.source == older.source, last.when) < rank):
            found[older] = newer
    return found


def _restated(statements: Iterable[Statement]) -> Iterator[tuple[Statement, Statement]]:
    """Yield statements with the newest one that is the same but for its value."""
    alike: defaultdict[tuple[str, ...], list[Statement]] = defaultdict(list)
    for statement in statements:
        if statement.opening:
            alike[statement.opening].append(statement)
    for run in chain.from_iterable(map(_runs, alike.values())):
        newest = max(run, key=attrgetter("when"))
        yield from ((older, newest) for older in run if has_other_value(older, newest))


def _runs(statements: Iterable[Statement]) -> Iterator[list[Statement]]:
    """Yield the statements that are the same but for their value together: ordered by text, they are neighbours."""
    run: list[Statement] = []
    for statement in sorted(statements, key=attrgetter("text")):
        if run and run[-1].text != statement.text and not has_other_value(run[-1], statement):
            yield run
            run = []
        run.append(statement)
    yield run

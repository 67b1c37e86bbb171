"""Repetitions: of passages that say the same, the best is enough.

Agents list the same folder and open the same file again and again; the tokens of a repetition are better spent. The
wording counts, not the meaning: two lists that differ in their numbers are close in meaning, and both are needed.
Wordings are compared as sets of shingles, three words each (Broder, On the resemblance and containment of documents,
1997): their resemblance is the Jaccard index. Short ones are the same where their words are, and are counted: what
was said once and what is said every day differ in nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tinymem.steps.checks import check_number
from tinymem.stores.words import CJK, has_cjk

__all__ = ["DIVERSITY", "SHORT", "Repetitions", "Utterance", "UtteranceCounts", "wording"]

DIVERSITY = 0.1  # a passage repeats another where their resemblance is 1 - DIVERSITY or more
SHORT = 80  # characters below which a passage repeats only what has the same words
ROUTINE = 10  # short texts that differ in one number only, as that of a day, from which on they are the same,
LEAST = 3  # unless they have fewer words: "12.5 kg" is a value
QUOTES = "\"'“”‘’«»„"
ENDS = f"{QUOTES}.,;:!。、"  # of a word, which mean nothing; a question mark does
_PUNCTUATION = re.compile(rf"[{ENDS}]+(?=\s|$)|(?<!\S)[{QUOTES}]+")
_WORD = re.compile(r"\w+|[^\w\s]")
_CJK_WORD = re.compile(rf"[{CJK}]{{1,2}}|[^\W{CJK}]+|[^\w\s]")  # no spaces say where words end: two letters are one
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(?:[-/:.,]\d+)*")  # or a date, a time

Saying: TypeAlias = tuple[str, ...]  # what the same short texts have in common


def wording(text: str) -> str:
    """Return the words of a text, whatever their case, without the punctuation around them.

    >>> [wording(text) for text in ("OK, thanks!", "ok  thanks", "Ok?", "It is 3.14.")]
    ['ok thanks', 'ok thanks', 'ok?', 'it is 3.14']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_PUNCTUATION.sub("", folded).split()) or folded.strip()


@dataclass(frozen=True)
class Utterance:
    """A text, who said it, as what, and its `wording` if it is short, else ""."""

    text: str
    by: str
    words: str

    @classmethod
    def of(cls, text: str, by: str = "") -> Utterance:
        """Return a text with its wording."""
        return cls(text, by, wording(text) if len(text) < SHORT else "")

    @cached_property
    def shingles(self) -> frozenset[int]:
        """The hashes of its shingles, with who said it before them."""
        words = [self.by, *(_CJK_WORD if has_cjk(self.text) else _WORD).findall(self.text.lower())]
        return frozenset(map(hash, zip(words, words[1:], words[2:], strict=False)))


class UtteranceCounts:
    """A count of the short texts among those `said`: which are the same, and how often that was said.

    They are the same where somebody said the same words, and from ROUTINE on also where only a number differs: so does
    what is said every day. With two numbers, one says something of the other. A text with a number of the question that
    is `asked` is what it asks for, and stays.

    >>> said = [Utterance.of(text, "Ann") for text in ("OK", "ok.", *(f"Day {day}: all is well." for day in range(30)))]
    >>> sayings = UtteranceCounts(said, asked="What happened on day 12?")
    >>> [sayings.times(said[at]) for at in (0, 2, 14)]
    [(2, False), (29, True), (1, False)]
    """

    def __init__(self, said: Iterable[Utterance], asked: str = "") -> None:
        self._asked = frozenset(_DIGITS.findall(asked))
        self._times: Counter[Saying] = Counter((text.by, text.words) for text in said if text.words)
        sayings: Counter[Saying] = Counter()
        totals: Counter[Saying] = Counter()
        for (by, words), times in self._times.items():
            shape = self._shape(by, words)
            if shape is not None:
                sayings[shape] += 1
                totals[shape] += times
        self._routine = {shape for shape, times in totals.items() if times >= ROUTINE and sayings[shape] > 1}
        self._times.update({shape: totals[shape] for shape in self._routine})

    def of(self, said: Utterance) -> Saying:
        """Return what a short text has in common with those that are the same."""
        shape = self._shape(said.by, said.words) if self._routine else None
        return shape if shape is not None and shape in self._routine else (said.by, said.words)

    def times(self, said: Utterance) -> tuple[int, bool]:
        """Return how often a text was said, and whether with other numbers; a long one counts as said once."""
        saying = self.of(said)
        return self._times.get(saying, 1), saying in self._routine

    def _shape(self, by: str, words: str) -> Saying | None:
        """Return the form of a text whose number may differ; None if it has none, or one that is asked for."""
        numbers = _DIGITS.findall(words)
        return (by, _without_number(words), "") if numbers and self._asked.isdisjoint(numbers) else None


def _without_number(words: str) -> str:
    """Return a wording with 0 for its number, or as it is if it has several, or says little else."""
    shape, count = _NUMBER.subn("0", words)
    return shape if count == 1 and len(_LETTERS.findall(words)) >= LEAST else words


class Repetitions:
    """A register of wordings that finds repetitions. With a `diversity` of 0 nothing is one, with 1 everything.

    What has a number of the question that is `asked` repeats nothing that has another.
    """

    def __init__(self, diversity: float = DIVERSITY, asked: str = "") -> None:
        self.diversity = check_number("diversity", diversity, 0, 1)
        self._least = 1 - self.diversity
        self._taken: list[frozenset[int]] = []  # hashed shingles of each wording
        self._known: set[int] = set()  # of all
        self._asked = asked
        self._short: list[Utterance] = []  # what is short,
        self._shapes: set[tuple[str, str]] = set()  # the same without numbers,
        self.sayings: UtteranceCounts | None = None  # and once something of it came up again,
        self._known_sayings: set[Saying] = set()

    def take(self, said: Utterance, candidates: Callable[[], Iterable[Utterance]] = tuple) -> bool:
        """Note what is `said`, unless it repeats something: False then.

        Once something short comes up again, all the `candidates` are counted.
        """
        if self._least == 1:
            return True
        if said.words:
            return self._take_short(said, candidates)
        shingles = said.shingles
        may_repeat = len(shingles & self._known) >= self._least * len(shingles)  # quicker, and few do
        if may_repeat and any(self._resemble(shingles, earlier) for earlier in self._taken):
            return False
        self._taken.append(shingles)
        self._known |= shingles
        return True

    def _take_short(self, said: Utterance, candidates: Callable[[], Iterable[Utterance]]) -> bool:
        if self.sayings is None:
            shape = said.by, _without_number(said.words)
            if shape not in self._shapes:
                self._shapes.add(shape)
                self._short.append(said)
                return True
            self.sayings = UtteranceCounts(candidates(), self._asked)
            self._known_sayings = {*map(self.sayings.of, self._short)}
        saying = self.sayings.of(said)
        is_new = saying not in self._known_sayings
        self._known_sayings.add(saying)
        return is_new

    def give_back(self, said: Utterance) -> None:
        """Let what was taken last be said again: it is not shown."""
        if not said.words and self._taken:
            self._taken.pop()

    def is_repeated(self, said: Utterance, before: Utterance) -> bool:
        """Return whether what was said repeats what was taken `before`."""
        if said.words and self.sayings:
            return bool(before.words) and self.sayings.of(said) == self.sayings.of(before)
        apart = Repetitions(self.diversity)
        return apart.take(before) and not apart.take(said)

    def _resemble(self, shingles: frozenset[int], earlier: frozenset[int]) -> bool:
        shared = len(shingles & earlier)
        return shared > 0 and shared >= self._least * (len(shingles) + len(earlier) - shared)

"""Supersession: statements that no longer hold, as far as words tell, since their source said something else later.

Two signs count. A later statement takes an earlier one back and names what that was about ("no longer", "used to ...
but", "finished" after "need to", "was moved to", "from now on"); or both are the same sentence but for the value at its
end ("The capital of Italy is Rome", "... is Turin"). Questions, long texts and what somebody else said count for
nothing, nor do sentences about "I" or "it" that differ in their end: both may hold. It stays a guess: what is
superseded gets a mark, and its place behind what is newer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, islice, pairwise, product
from operator import attrgetter

from tinymem.stores.words import STOP_WORDS

__all__ = ["LONGEST", "Statement", "has_other_value", "newest_statements"]

LONGEST = 400  # characters of a text that is read as a statement
TAIL = 7  # words of a value
NAMED = 2 / 3  # of the words of what is taken back, those that the earlier statement has at least,
REPEATED = 3 / 4  # or of a thing to do, of a text in quotes, and of a sentence that is said again with another value

# Statements that are asked what they take back, their claims, and earlier statements that each is compared with
MOST_CLAIMS, MOST_OF_ONE, MOST_LIKELY = 100, 4, 50

_SENTENCE_END = re.compile(r"(?<=[^\W_]{2}[.!?])\s+|(?<=[.!?][\"')\]])\s+|\n+")
_SERIAL = re.compile(r"\W*\d+[.)]\s+")
_WORD = re.compile(r"[^\W_]+(?:[.,:/@'’_-][^\W_]+)*")
_ENDING = re.compile(r"(?:ing|ed|es|s|e|'s|’s)$")
_CHANGED = """
    renamed moved changed switched raised lowered increased decreased reduced replaced rescheduled updated postponed
    extended shortened migrated pushed bumped shifted relocated reverted
    """.split()  # noqa: SIM905
_CUE = re.compile(  # that something said before holds no more, in lower case
    rf"""\b(?:
    (?P<past> used\ to (?<!(?:am|['’]m|re|is|['’]s|as|be|en|et|ot)\ used\ to))
    | (?P<quoted> remov(?:e|ed|ing) | delet(?:e|ed|ing))
    | (?P<gone> no\ longer | (?:mistaken|wrong)\ about
        | (?:not|(?:is|are|was|were|do|does|did|have|has)n['’]t)\b(?=[^,;.!?]*\bany\ ?more\b))
    | (?P<done> finished | completed | done\ with | through\ with | managed\ to | able\ to | got\ around\ to
        | (?:just|already)(?=\ \w+(?:ed|ght|id|de)\b))
    | (?P<changed> correct(?:ion|ed) | from\ now\ on | as\ of\ (?:now|today) | my\ mistake
        | (?:{"|".join(_CHANGED)})\b(?=[^.!?]*(?:\b(?:to|from|for|by)\b|:\ )))
    )\b""",
    re.VERBOSE,
)
_CUE_WORDS = frozenset(  # one of which a text with a cue has, and few others have
    map(
        "".join,
        product(
            """
            used remove removed removing delete deleted deleting longer mistaken wrong any anymore finished completed
            done through managed able around just already correction corrected now today mistake
            """.split()  # noqa: SIM905
            + _CHANGED,
            ("", ".", ",", ":", ";", "!"),
        ),
    )
)
_CONTRAST = re.compile(r"\b(?:but|now|lately|any ?more|these days|recently|though)\b")
_CLAUSE_END = re.compile(
    r"[,;:.!?—–()]+(?:\s|$)|\s-\s"
    r"|\b(?:but|so|because|since|which|although|though|however|when|while|any ?more|and now)\b",
    re.IGNORECASE,
)
_QUOTE = re.compile(r".{0,30}?[\"“'‘`]([^\"”]{3,200}?)[\"”'’`](?=[\s.,;!?)]|$)")
_NEEDED = re.compile(
    r"\b(?:(?:need|have|has|had|got|ought|remember|forget|still|plan|planning|want|going|trying|meant|supposed) to"
    r"|must|should) (?:(?:remember to|also|still|get|go) )*(\w+)"
)
_VALUE = re.compile(r"\d|^[A-Z]|^(?:today|tomorrow|tonight|noon|midnight)$")
_LITTLE = STOP_WORDS | frozenset(  # words that say little of what a statement is about
    """
    actually bit change changed completely dislike enjoy enjoyed enjoying find found get getting go going got great hate
    idea incredible item know lately like liked list lot love loved need never new oh one please prefer really remember
    speaking still sure task tasks thing things think to-do today totally track update updated use used want well work
    yeah yes younger
    """.split()  # noqa: SIM905
)
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


@dataclass(frozen=True)
class Claim:
    """A claim that something said before holds no more: the stems of that, and how they have to stand there."""

    stems: tuple[str, ...]
    kind: str

    @cached_property
    def longest(self) -> str:
        """The stem that an earlier statement must have; "" for none."""
        return "" if self.kind == "changed" else max(self.stems, key=len)

    def concerns(self, older: Statement) -> bool:
        """Return True if an older statement says what holds no more."""
        if self.kind == "changed":
            is_like = sum(map(older.lower.__contains__, self.stems)) > 1  # quicker, and true of few
            return is_like and any(self._changes(*sentence) for sentence in older.contents)
        if len(self.stems) == 1:  # a name
            return self.longest in older.stems
        if self.kind == "done" and self.stems[0] not in older.needed:
            return False
        least = REPEATED if self.kind in ("quoted", "done") else NAMED
        shared = sum(stem in older.stems for stem in self.stems)
        return shared >= least * len(self.stems) and not older.pairs.isdisjoint(pairwise(self.stems))

    def _changes(self, every: frozenset[str], steady: frozenset[str]) -> bool:
        """Return True if it has what a sentence says but for values, and either has something of its own."""
        new = frozenset(self.stems)
        shared = len(steady & new)
        return shared > 1 and shared >= REPEATED * len(steady) and not new >= every and not every >= new


class Statement:
    """A short text, who said it as what, and when: statements have an order of time by it.

    `source` is who is named as its speaker, else its session, since others may speak in each.

    `opening` has the first words, if they say what it is about; without `has_cue` it takes nothing back.
    """

    def __init__(self, text: str, by: str, when: tuple[datetime, int], source: str = "") -> None:
        self.by, self.when, self.source = by, when, source
        self.text = _SERIAL.sub("", text, count=1) if text[:1].isdigit() else text
        self.lower = self.text.lower()
        words = self.lower.split()
        self.opening = () if len(words) < 4 or words[0] in _NOBODY else (by, source, *words[:3])
        self.has_cue = not _CUE_WORDS.isdisjoint(words)

    @cached_property
    def sentences(self) -> list[str]:
        """Its sentences but for questions."""
        found = _SENTENCE_END.split(self.text)
        return [sentence for sentence in found if not sentence.rstrip().endswith(("?", "？"))]

    @cached_property
    def contents(self) -> list[tuple[frozenset[str], frozenset[str]]]:
        """The stems of each sentence, and those of them that are no value."""
        return [(frozenset(_stems(said)), frozenset(_stems(said, values=False))) for said in self.sentences]

    @cached_property
    def stems(self) -> dict[str, None]:
        """The stems of its words that say something, in order."""
        return dict.fromkeys(_stems(self.text))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The stems that stand next to each other."""
        return frozenset(pairwise(_stems(self.text)))

    @cached_property
    def needed(self) -> frozenset[str]:
        """The stems of what must be done."""
        return frozenset(map(_stem, _NEEDED.findall(self.lower)))

    @cached_property
    def claims(self) -> list[Claim]:
        """The claims that something said before holds no more."""
        is_contrast = _CONTRAST.search(self.lower)
        found: list[Claim] = []
        for sentence in self.sentences:
            for cue in _CUE.finditer(sentence.lower()):
                claim = _claim(cue, sentence) if is_contrast or not cue["past"] else None
                if claim is not None:
                    found.append(claim)
        return found


def _claim(cue: re.Match[str], sentence: str) -> Claim | None:
    """Return what a cue says of the words behind it, in quotes or up to the end of their clause, or of its sentence."""
    kind, behind = cue.lastgroup or "", sentence[cue.end() :]
    if kind == "changed":
        return Claim((*_stems(sentence),), kind)
    quote = _QUOTE.match(behind)
    if quote is not None:
        kind, said = "done" if kind == "done" else "quoted", quote[1]
    elif kind == "quoted":
        return None
    else:
        said = _CLAUSE_END.split(behind, maxsplit=1)[0]
    stems = (*_stems(said),)
    is_name = len(stems) == 1 and len(stems[0]) > 3 and kind in ("past", "gone") and not said.islower()
    return Claim(stems, kind) if len(stems) > 1 or is_name else None


def _stems(text: str, values: bool = True) -> Iterator[str]:
    """Yield the stems of the words that say something, without numbers and names where `values` is False."""
    for word in _WORD.findall(text):
        lower = word.lower()
        if lower not in _LITTLE and (len(word) > 1 or word.isdecimal()) and (values or not _VALUE.search(word)):
            yield _stem(lower)


def _stem(word: str) -> str:
    """Return a word without its ending.

    >>> [_stem(word) for word in ("groceries", "grocery", "planning", "plan", "moved", "14:30")]
    ['grocer', 'grocer', 'plan', 'plan', 'mov', '14:30']
    """
    if len(word) < 4 or word[0].isdigit():
        return word
    short = _ENDING.sub("", word)
    short = short if len(short) > 2 else word
    return short[:-1] if len(short) > 3 and (short[-1] == short[-2] or short[-1] in "yi") else short


def has_other_value(older: Statement, newer: Statement) -> bool:
    """Return True if both are one sentence, with the same words but for the value at its end."""
    if len(older.sentences) != 1 or len(newer.sentences) != 1:
        return False
    old, new = _WORD.findall(older.sentences[0]), _WORD.findall(newer.sentences[0])
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
    for older, newer in chain(_restated(statements), _taken_back(statements)):
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


def _taken_back(statements: Sequence[Statement]) -> Iterator[tuple[Statement, Statement]]:
    """Yield statements with what takes them back: of those that come first, as far as MOST_CLAIMS and MOST_LIKELY."""
    with_cue = [statement for statement in statements if statement.has_cue][:MOST_CLAIMS]
    for newer in with_cue:
        for claim in newer.claims[:MOST_OF_ONE]:
            likely = (older for older in statements if claim.longest in older.lower)  # quicker, and true of few
            earlier = (older for older in likely if older.by == newer.by and older.when < newer.when)
            yield from ((older, newer) for older in islice(earlier, MOST_LIKELY) if claim.concerns(older))

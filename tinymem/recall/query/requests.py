"""Requests: what was asked before in the words of the question is no answer to it.

An agent in a loop, or a person beside it, asks again and again in the same words, of another thing each time or of the
same. Such a request is closer to the question than its answer is, and lifts the results that stand beside it. Nor is it
an answer where an agent said that its memory has nothing of that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinymem.protocols import Ids
from tinymem.recall.candidates import Candidates
from tinymem.recall.features import Rows
from tinymem.recall.passages import is_question
from tinymem.recall.selection.opened import OpenedSteps
from tinymem.recall.snapshot import ACT, SAID, TOOL, Snapshot
from tinymem.stores.bm25 import highest
from tinymem.stores.words import STOP_WORDS

__all__ = ["Request", "without_requests"]

LONGER = 2  # times as long as the question a request is at most, or
SHORT = 300  # so many characters
LOOKED_AT = 256  # passages that are read at most, the best by words
LEAST_WORDS = 5  # of a question that can be known by its form
ALIKE = 0.6  # share of the words of both that a request has in common with the question
SHARED = 0.5  # of the words of a sentence that only says what somebody wants to know, those of the question at least
STEM = 3  # letters that words of one stem begin with, at least, and
ENDING = 2  # letters behind them of the shorter word, at most
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[^\W_]\W)[A-Z]\w+|(?<=\W)\d[\w.:]*")  # or a number, but for a sentence's first word
_SENTENCE_END = re.compile(r"(?<=[.!?？。…:])[\"')\]]*\s+|(?<=[？。])|\n+")
_LEAD = r"^\W*(?:(?:ok(?:ay)?|so|and|but|now|next|first|then|well|hm+|sorry|unfortunately|again|also)\b\W*)*"
# Words of a sentence that says what somebody wants to know, beside what that is about
_TELLING = frozenset(
    """
    answer ask asked asking asks check checking dear determine figure find finding get give good great hello help hey hi
    know learn let look looking lookup memory morning must need needed needing notes okay ok please question quick
    recall remember remind report say search searching see should show still tell telling thanks thank thing thx trying
    user want wanted wants wonder wondering would write
    """.split()  # noqa: SIM905 (a list of strings reads worse)
)
_INTENT = re.compile(
    _LEAD + r"(?:(?:i|we)\b[^.!?]*?\b(?:tell|know|ask(?:ed)?|find|look|check|see|search|figure|learn|report|confirm|"
    r"determine|wonder(?:ing)?|remember|recall|answer|get|need(?:s|ed)?|say|write)\b|please\b|tell me\b|remind me\b|"
    r"(?:thanks?|thx|hello|hey|hi|good morning)\b)",
    re.IGNORECASE,
)
_OWN_INTENT = re.compile(
    _LEAD + r"(?:let me|let['’]s|let us|look(?:ing)? (?:up|for)|search(?:ing)?|check(?:ing)?|find(?:ing)?(?: out)?|"
    r"need(?:ed)?|the user (?:asks?|asked|wants?|needs?)|(?:the )?question)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(_LEAD + r"(?:who|whom|whose|what|when|where|which|why|how)\b", re.IGNORECASE)
_KNOWN = r"(?:context|info(?:rmation)?|knowledge|memor(?:y|ies)|notes?|records? (?:of|on|about))"
_DENIAL = re.compile(  # that an agent's memory has something
    rf"{_LEAD}(?:(?:it (?:seems|looks|appears)(?: like| that)*|as far as i (?:can (?:see|tell)|know))\W*)?(?:"
    rf"(?:i|we)['’]?\w*\b[^.!?]*\b(?:\w+n['’]t|not|cannot|unable to|never)\b[^.!?]*?\b(?:know|aware|sure|recall|"
    rf"remember|anything (?:about|on|regarding|for|related)|{_KNOWN})\b"
    rf"|(?:i|we)['’]?\w*\b[^.!?]*\b(?:no|nothing|zero)\b[^.!?]*?\b(?:idea|clue|about|{_KNOWN})\b"
    r"|(?:there\b[^.!?]*\b)?(?:no|nothing|none)\b[^.!?]*\b(?:in|from) (?:(?:my|our|the|this|past|earlier|long-term) )*"
    r"(?:memory|memories|notes|context|history|knowledge|archive)\b"
    rf"|(?:there (?:is|are|was|were)(?:n['’]t any)? )?no {_KNOWN}\b"
    r"|(?:(?:my|our|the) )?(?:memory|notes|context|history|archive)\b[^.!?]*\b(?:no|nothing|not|\w+n['’]t|empty)\b)",
    re.IGNORECASE,
)
_OFFER = re.compile(_LEAD + r"(?:if you|could you|can you|would you|let me know|feel free|i can|happy to)\b", re.I)


def without_requests(
    question: str, found: Candidates, catalog: Snapshot, hidden: Collection[int], steps: OpenedSteps
) -> Candidates:
    """Return candidates as if texts that ask alike had nothing of the question, and without these.

    They ask of the same, of something else, or among the steps `hidden` of anything. What somebody asked and somebody
    answered stays: without the one nobody knows what the other is about. What is asked stands in a prompt already, and
    is hidden like the rest of that.
    """
    rows = _find_short(found, catalog, max(LONGER * len(question), SHORT), hidden)
    if rows.size:
        rows = rows[_find_asking(question, rows, catalog, np.isin(catalog.step[rows], [*hidden]), steps)]
    if not rows.size:
        return found
    signals = {name: getattr(found, name).copy() for name in ("cosine", "bm25", "terms")}
    for signal in signals.values():
        signal[rows] = 0
    return replace(found, rows=np.setdiff1d(found.rows, rows), **signals)


def _find_short(found: Candidates, catalog: Snapshot, length: int, hidden: Collection[int]) -> Ids:
    """Return the rows of short texts in words: those with most words of the question, best first, and all `hidden`."""
    terms = found.marks(found.terms[found.rows]).sum(axis=1)
    rows = found.rows[terms * 2 >= max(len(found.rarity), 1)]
    if hidden:
        newest = np.array(sorted(hidden)[-LOOKED_AT:], np.int64)
        rows = np.union1d(rows, np.flatnonzero(np.isin(catalog.step, newest))[-LOOKED_AT:])
    places = catalog.places[rows]
    short: Ids = rows[(places["kind"] != TOOL) & (places["end"] - places["start"] <= length)]
    return short[highest(found.bm25[short], LOOKED_AT)]


def _find_asking(
    question: str, rows: Ids, catalog: Snapshot, is_hidden: npt.NDArray[np.bool_], steps: OpenedSteps
) -> npt.NDArray[np.bool_]:
    """Mark the texts that ask alike, but for those that somebody answered."""
    request, places = Request(question), catalog.places
    texts, here = _texts_of(rows, catalog, steps), places[rows]
    may_ask = is_hidden | (here["kind"] == ACT) | here["asks"]  # what people state may contradict the question
    is_alike = may_ask & [*map(request.is_alike, texts, ~is_hidden)]
    asks: npt.NDArray[np.bool_] = is_alike | [*map(request.only_asks, texts, _is_by_agent(here))]
    behind = _find_answers(rows, catalog)
    is_open = asks & ~is_alike & (behind >= 0)
    answers = behind[is_open]
    texts = _texts_of(answers, catalog, steps)
    asks[is_open] = [*map(request.only_asks, texts, _is_by_agent(places[answers]))]
    return asks


def _find_answers(rows: Ids, catalog: Snapshot) -> Ids:
    """Return the row behind each text that may answer it, as people talk; -1 for none. A denial is not answered."""
    asking = Rows(catalog, rows)
    here, behind = asking.here, asking.after()
    is_talk = (here["kind"] == SAID) & (catalog.kind[behind] == SAID)
    return np.where(is_talk & (here["asks"] | ~here["reply"]), behind, -1)


def _is_by_agent(places: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    by_agent: npt.NDArray[np.bool_] = (places["kind"] == ACT) | places["reply"]
    return by_agent


def _texts_of(rows: Ids, catalog: Snapshot, steps: OpenedSteps) -> list[str]:
    places = catalog.places_of(rows)
    opened = steps.passages(places)
    return [opened[place].said.text if place in opened else "" for place in places]


class Request:
    """A question as a request, with its words read once: tells whether a text asks as it does.

    >>> request = Request("I need the ticket of module alder, please.")
    >>> request.is_alike("I need the ticket of module birch, please.", of_another=False)
    True
    >>> request.is_alike("The ticket of module alder is T-17.", of_another=False)
    False
    """

    def __init__(self, question: str) -> None:
        is_request = is_question(question) or _OPEN.match(question) or _INTENT.match(question)
        self._words, self._content = request_words(question), _content(question) if is_request else []

    def is_alike(self, text: str, of_another: bool) -> bool:
        """Return whether a text begins as the question does and has most of its words: its answer seldom does.

        One `of_another` must ask of something else; a number that differs is no other thing.
        """
        said = request_words(text)
        asked, words = {*self._words}, {*said}
        if of_another and not any(word.isalpha() for word in asked - words):
            return False
        is_begun_alike = said[:1] == self._words[:1] and len(self._words) >= LEAST_WORDS
        return is_begun_alike and len(asked & words) >= ALIKE * len(asked | words)

    def only_asks(self, text: str, by_agent: bool) -> bool:
        """Return whether a text only asks as the question does, or denies that anything is known of it.

        Each of its sentences says what somebody wants to know, or is a question; one of yes or no, which may tell what
        it asks, has no other words than the question. What an agent says that it needs is a request, too, and it alone
        denies: of a person both are facts. Bare keywords ask nothing, and find a question as they find anything.

        >>> request = Request("Who owns ledger?")
        >>> request.only_asks("I have to tell the owner of ledger. Who owns ledger?", by_agent=False)
        True
        >>> request.only_asks("Who owns ledger? Nora does.", by_agent=False)
        False
        >>> request.only_asks("I couldn't find anything about ledger in memory.", by_agent=True)
        True
        """
        if not self._content:
            return False
        sentences = [sentence for sentence in _SENTENCE_END.split(text) if _WORD.search(sentence)]
        is_denial = by_agent and any(map(_DENIAL.match, sentences))
        left = [said for said in sentences if not (is_denial and (_DENIAL.match(said) or _OFFER.match(said)))]
        return bool(sentences) and all(_asks(sentence, self._content, by_agent) for sentence in left)


def _asks(sentence: str, asked: Sequence[str], by_agent: bool) -> bool:
    """Return whether a sentence asks about as much as a question, and tells nothing, as a name that this has not."""
    asks = is_question(sentence)
    is_intent = _INTENT.match(sentence) or (by_agent and _OWN_INTENT.match(sentence))
    if not asks and not is_intent:
        return False
    found = _content(sentence)
    shared = sum(_is_alike(word, asked) for word in found)
    if shared < SHARED * len(found):
        return False
    if asks and (shared == len(found) or _OPEN.match(sentence)):
        return True
    return bool(is_intent or by_agent) and all(_is_alike(name.lower(), asked) for name in _NAME.findall(sentence))


def request_words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(text.lower())


def _content(text: str) -> list[str]:
    """Return the words of a text that say what it is about."""
    return [word for word in request_words(text) if word not in STOP_WORDS and word not in _TELLING]


def _is_alike(word: str, others: Iterable[str]) -> bool:
    """Return whether a word has the stem of one of the others, as "owner" and "owns" have."""
    for other in others:
        stem = max(STEM, min(len(word), len(other)) - ENDING)
        if word == other or (word[:stem] == other[:stem] and not (word + other).isdecimal()):
            return True
    return False

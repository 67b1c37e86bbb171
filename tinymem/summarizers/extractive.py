"""The default summarizer: without a model or a network, it picks the most telling lines of a run, word for word.

Agents need identifiers, paths, numbers, errors and decisions again, and a paraphrase gets these wrong. Every line of
the summary is verbatim and names its step, so that it can be checked.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence

from tinymem.errors import InputError
from tinymem.messages.fitting import beginning
from tinymem.messages.tokens import counter_from
from tinymem.protocols import TokenCounter
from tinymem.recall.query.identifiers import identifiers
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.step import Step, check_steps
from tinymem.stores.words import STOP_WORDS
from tinymem.summarizers.pieces import Piece, pieces_of

__all__ = ["ExtractiveSummarizer"]

NAME, NUMBER, WORD = 2.0, 1.5, 1.0  # how much an identifier, a term with a digit and another word weigh
LONGEST_TERM = 64  # characters; a longer one is data
SPREAD = 1.0  # how much is gained by a line of a text that has none in the summary yet
EXPONENT = 0.65  # of the cost that a gain is divided by
PER_LINE = 2.0  # tokens of a line break, and what the estimate of four characters a token misses
CHARACTERS = 12  # a token, at most: so much is chosen before tokens are counted
SLACK = 2_000  # characters beyond that
LEAST_CUT = 40  # characters of a last line that is cut because it does not fit

_MAY_NAME = re.compile(r"[\d_/]|\.[\w./-]|[a-z][A-Z]")  # something of this is in every identifier
# Scripts without spaces between words: each of their characters is a term.
_TERM = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


class ExtractiveSummarizer:
    r"""A summarizer by extraction: lines of the steps, in order, each behind its step's number and its speaker.

    Weighted coverage of terms, with a reward for diversity: Lin and Bilmes, A Class of Submodular Functions for
    Document Summarization (ACL 2011). A choice S of lines is worth

        F(S) = sum over terms t of weight(t) * max over lines of S that hold t of worth(line)
             + SPREAD * sum over texts of sqrt(worth of the lines of S from that text, each alone)

    so that a line adds little when its terms are there already, or much of its text is. A term weighs more
    the rarer it is in the run (inverse line frequency), and as an identifier or a number; a line is worth more in a
    task, an answer, an error or a person's words than in a listing, and less when it differs from others only in its
    numbers. Lines are taken greedily by gain over a power of their cost (Lin and Bilmes 2010), in an order that does
    not depend on the budget: with more of it come more lines, and none goes.

    The same steps give the same summary. Of very long runs 400,000 characters are read. Any number of threads may use
    one.

    >>> from tinymem import ActionStep, MessageStep
    >>> steps = [MessageStep("user", "Good morning!"), MessageStep("user", "Staging listens on port 8443."),
    ...          ActionStep(tool_name="bash", observation="ok\nok\nOSError: [Errno 98] address in use: 10.0.0.7")]
    >>> print(ExtractiveSummarizer().summarize(steps, 35))
    user: Staging listens on port 8443.
    bash: OSError: [Errno 98] address in use: 10.0.0.7

    Args:
        counter: A TokenCounter, the name of an encoding or a model, or None for the default.
    """

    name = "extractive"

    def __init__(self, counter: TokenCounter | str | None = None) -> None:
        self._counter = counter_from(counter)

    @classmethod
    def from_name(cls, argument: str) -> ExtractiveSummarizer:
        """Make the summarizer named `"extractive"`."""
        if argument:
            raise InputError(f'the extractive summarizer takes nothing after its name, and "{argument}" was given')
        return cls()

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        """Return the most telling lines, in at most `max_tokens`; "" where there are none, or no room for one.

        Control characters are replaced and white space is folded.

        Raises:
            InputError: `max_tokens` is no whole number.
        """
        check_non_negative_int("max_tokens", max_tokens)
        pieces = pieces_of(check_steps("steps", steps)) if max_tokens else []
        chosen = _ranked(pieces, CHARACTERS * max_tokens + SLACK)
        low, high = 0, len(chosen) + 1  # how many of them fit
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._fits(_joined({at: pieces[at].line for at in chosen[:middle]}), max_tokens)
            low, high = (middle, high) if fits else (low, middle)
        shown = {at: pieces[at].line for at in chosen[:low]}
        if low < len(chosen):
            shown |= self._cut(pieces, shown, chosen[low], max_tokens)
        return _joined(shown)

    def _fits(self, text: str, max_tokens: int) -> bool:
        return self._counter.count(text) <= max_tokens

    def _cut(self, pieces: Sequence[Piece], shown: dict[int, str], at: int, max_tokens: int) -> dict[int, str]:
        """Return the beginning of piece `at` that fits beside the `shown` ones, if it says enough."""
        label, text = pieces[at].label, pieces[at].text
        cut = beginning(text, lambda part: self._fits(_joined({**shown, at: label + part}), max_tokens))
        return {at: label + cut} if len(cut) >= LEAST_CUT else {}

    def __repr__(self) -> str:
        return f"<ExtractiveSummarizer, tokens by {self._counter.name}>"


def _joined(lines: dict[int, str]) -> str:
    return "\n".join(lines[at] for at in sorted(lines))


def _terms(text: str) -> dict[str, float]:
    """Return the terms of a piece, in lower case, with their weights."""
    found = {
        word: WORD if word.isalpha() or not any(map(str.isdigit, word)) else NUMBER
        for word in _TERM.findall(text.lower())
        if word not in STOP_WORDS and len(word) <= LONGEST_TERM
    }
    if _MAY_NAME.search(text):
        found.update(dict.fromkeys(map(str.lower, identifiers(text)), NAME))
    return found


def _ranked(pieces: Sequence[Piece], characters: int) -> list[int]:
    """Rank pieces, best first, until they are more than `characters` long; pieces that add nothing are left out."""
    lines = [_terms(piece.text) for piece in pieces]
    frequency = Counter(term for line in lines for term in line)
    rarity = {term: math.log1p(len(lines) / count) for term, count in frequency.items()}
    for line in lines:
        for term in line:
            line[term] *= rarity[term]
    alone = [piece.worth * sum(line.values()) for piece, line in zip(pieces, lines, strict=True)]
    covered: dict[str, float] = {}  # the worth with which each term is in the summary
    spent: dict[int, float] = {}  # by part: the worth of its chosen lines, each alone

    def rank(at: int) -> float:
        """Return the gain of a piece over its cost; it never grows, since F is submodular."""
        piece = pieces[at]
        if not covered:
            return (alone[at] + SPREAD * math.sqrt(alone[at])) / math.pow(len(piece.line) / 4 + PER_LINE, EXPONENT)
        new = sum(weight * max(0.0, piece.worth - covered.get(term, 0.0)) for term, weight in lines[at].items())
        before = spent.get(piece.part, 0.0)
        more = SPREAD * (math.sqrt(before + alone[at]) - math.sqrt(before)) if new else 0.0
        return (new + more) / math.pow(len(piece.line) / 4 + PER_LINE, EXPONENT)

    heap = [(-rank(at), at) for at in range(len(pieces))]
    heapq.heapify(heap)
    chosen: list[int] = []
    while heap and heap[0][0] < 0 and characters > 0:
        at = heap[0][1]
        if (now := -rank(at)) > heap[0][0]:  # others were chosen since
            heapq.heapreplace(heap, (now, at))
            continue
        heapq.heappop(heap)
        chosen.append(at)
        characters -= len(pieces[at].line)
        spent[pieces[at].part] = spent.get(pieces[at].part, 0.0) + alone[at]
        for term in lines[at]:
            covered[term] = max(covered.get(term, 0.0), pieces[at].worth)
    return chosen

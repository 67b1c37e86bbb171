"""The default summarizer: without a model or a network, it picks the most telling lines of a run, word for word.

Agents need identifiers, paths, numbers, errors and decisions again, and a paraphrase gets these wrong. Every line of
the summary is verbatim and names its step, so that it can be checked; long lines are cut at sentences. Of each text
only the beginning and the end are read, so that time is bounded.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from textwrap import wrap
from typing import NamedTuple

from tinymem.errors import InputError
from tinymem.messages.fitting import beginning
from tinymem.messages.tokens import counter_from
from tinymem.protocols import TokenCounter
from tinymem.recall.query.identifiers import identifiers
from tinymem.recall.render import RESULTS, one_line
from tinymem.recall.selection.diversity import wording
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step, check_steps
from tinymem.steps.types import MessageStep, SummaryStep
from tinymem.stores.words import words
from tinymem.summarizers.writing import opened

__all__ = ["ExtractiveSummarizer", "labelled_parts"]

LOOKED_AT = 400_000  # characters of all texts together,
LEAST_LOOKED_AT = 400  # but of each at least so many, half from its beginning and half from its end
LONGEST_LINE = 240  # characters; a longer one is cut at its sentences
LONGEST_NAME = 40  # characters of a speaker's or a tool's name
LEAST_CUT = 40  # characters of a last line that is cut because it does not fit

# How much a line of each kind of part is worth; of other kinds 1.
WORTH = {
    "task": 3.0, "final_answer": 3.0, "summary": 2.0, "scratchpad": 2.0, "signal": 2.0, "error": 2.0, "message": 2.0,
    "call": 0.7, "code": 0.6, "observation": 0.6, "system_prompt": 0.5,
}  # fmt: skip
CUE = 1.6  # times as much is a line worth with a word of failure or decision,
STATEMENT = 1.3  # and a message of a person about themselves
CUES = ("error", "exception", "fail", "fatal", "denied", "refused", "timed out", "timeout", "not found", "no such",
        "cannot", "exit code", "decid", "decision", "agreed", "instead of", "will use", "must ", "never ", "always ",
        "root cause", "because", "deadline", "approved", "rejected", "remember", "important")  # fmt: skip

NAME, WORD = 2.0, 1.0  # how much an identifier and another word weigh
EXPONENT = 0.65  # of the cost that a gain is divided by
NEW = 0.6  # of the weight of its terms: so much a line must add
PER_LINE = 2.0  # tokens of a line break, and what the estimate of four characters a token misses

_ABOUT_ME = re.compile(r"\b(?:i|my|our|call me)\b")
_ESCAPED = re.compile(r"\\([\\\"n])")  # in the JSON of a call's arguments
_SENTENCE = re.compile(r"(?<=[.!?;])\s|(?<=[。！？；])")


class ExtractiveSummarizer:
    r"""A summarizer by extraction: lines of the steps, in order, each behind its step's number and its speaker.

    Lines are taken by their worth for their cost. A line is worth the more the more telling its terms are: a term
    weighs more the rarer it is in the run (inverse line frequency), and as an identifier or a number; a line counts
    more in a task, an answer, an error or a person's words than in a listing. A line is left out whose terms stand in
    better lines for the most part. The order does not depend on the budget: with more of it come more lines, and none
    goes.

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
        chosen = _rank(_lines_of(check_steps("steps", steps)))[:max_tokens]  # each has a token at least

        def is_over(lines: Sequence[_ScoredLine]) -> bool:
            return self._counter.count(_joined(lines)) > max_tokens

        count = bisect_left(range(len(chosen)), True, key=lambda last: is_over(chosen[: last + 1]))
        shown = chosen[:count]
        if count < len(chosen):
            line = chosen[count]
            cut = beginning(line.text, lambda text: not is_over([*shown, line._replace(text=text)]))
            if len(cut) >= LEAST_CUT:
                shown.append(line._replace(text=cut))
        return _joined(shown)

    def __repr__(self) -> str:
        return f"<ExtractiveSummarizer, tokens by {self._counter.name}>"


# -- the lines of a run -----------------------------------------------------------------------------------------------


class _ScoredLine(NamedTuple):
    """A line: its place in the run, its step's number and speaker, its text, its worth."""

    place: int
    label: str
    text: str
    worth: float


def _joined(lines: Sequence[_ScoredLine]) -> str:
    return "\n".join(line.label + line.text for line in sorted(lines))


def labelled_parts(steps: Sequence[Step]) -> list[tuple[str, Part]]:
    """Return the parts of all steps, in order, each with its label.

    A summary is without its fence, a final action is the answer, and code in a call stands as written.
    """
    found: list[tuple[str, Part]] = []
    for step in map(opened, steps):
        is_final = isinstance(step, ActionStep) and step.is_final
        for part in step.parts():
            text = _ESCAPED.sub(_as_written, part.text) if part.kind == "call" else part.text
            found.append((_label(step, part), Part("final_answer" if is_final else part.kind, text)))
    return found


def _as_written(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _label(step: Step, part: Part) -> str:
    """Return the step's number with a speaker, a tool or a kind of step; "" for summaries, whose lines have labels."""
    if isinstance(step, SummaryStep):
        return ""
    number = "" if step.step_number is None else f"#{step.step_number} "
    return f"{number}{one_line(_who(step, part))[:LONGEST_NAME]}: "


def _who(step: Step, part: Part) -> str:
    if isinstance(step, MessageStep):
        return step.speaker or ("result" if step.role == "tool" else step.role)
    if not isinstance(step, ActionStep):
        return step.type.replace("_", " ")
    if part.kind not in RESULTS:
        return step.speaker or part.kind
    tool = step.results[part.message - 1].name[:LONGEST_NAME] if step.results else "output"
    return f"{tool} error" if part.kind == "error" else tool


def _lines_of(steps: Sequence[Step]) -> list[_ScoredLine]:
    """Return the lines of a run, in order."""
    parts = labelled_parts(steps)
    room = max(LEAST_LOOKED_AT, LOOKED_AT // max(1, len(parts)))
    found: list[_ScoredLine] = []
    for label, part in parts:
        for text in _texts_of(part.text, room):
            found.append(_ScoredLine(len(found), label, text, _worth(text.lower(), part.kind)))
    return found


def _worth(text: str, kind: str) -> float:
    """Return what a line is worth by its kind, and by its words: of failure or decision, or a person's own."""
    worth = WORTH.get(kind, 1.0)
    if any(cue in text for cue in CUES):
        worth *= CUE
    return worth * STATEMENT if kind == "message" and _ABOUT_ME.search(text) else worth


def _texts_of(text: str, room: int) -> Iterator[str]:
    """Yield the lines at the beginning and the end of a text, and long ones as sentences, cut at white space."""
    text = text.strip()
    if len(text) > room:  # no word is cut in two
        head, tail = text[: room // 2].rsplit(maxsplit=1), text[-(room // 2) :].split(maxsplit=1)
        text = f"{head[0]}\n{tail[-1]}"
    for line in clean(text).splitlines():
        folded = " ".join(line.split())
        if len(folded) <= LONGEST_LINE:
            yield folded
        else:
            yield from chain.from_iterable(wrap(sentence, LONGEST_LINE) for sentence in _SENTENCE.split(folded))


# -- the choice -------------------------------------------------------------------------------------------------------


def _rank(lines: Sequence[_ScoredLine]) -> list[_ScoredLine]:
    """Rank lines by their worth for their cost, without those whose terms, by weight, mostly stand in better lines."""
    weights = [_terms(line.text) for line in lines]
    frequency = Counter(chain.from_iterable(weights))
    values: list[float] = []
    for line, terms in zip(lines, weights, strict=True):
        for term in terms:
            terms[term] *= math.log1p(len(lines) / frequency[term])
        cost = len(line.label + wording(line.text)) / 4 + PER_LINE  # of what is said again the first is taken
        values.append(line.worth * sum(terms.values()) / math.pow(cost, EXPONENT))
    told: set[str] = set()
    chosen: list[_ScoredLine] = []
    for place in sorted(range(len(lines)), key=values.__getitem__, reverse=True):
        terms = weights[place]
        new = sum(weight for term, weight in terms.items() if term not in told)
        if new > NEW * sum(terms.values()):
            chosen.append(lines[place])
            told.update(terms)
    return chosen


def _terms(text: str) -> dict[str, float]:
    """Return the terms of a line, in lower case, with their weights."""
    return {**dict.fromkeys(words(text), WORD), **dict.fromkeys(map(str.lower, identifiers(text)), NAME)}

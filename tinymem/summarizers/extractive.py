"""The default summarizer: without a model or a network, it picks the most telling lines of a run, word for word.

Agents need identifiers, paths, numbers, errors and decisions again, and a paraphrase gets these wrong. Every line of
the summary is verbatim and names its step, so that it can be checked; long lines are cut at sentences. Of each text
only the beginning and the end are read, so that time is bounded.
"""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tinymem.errors import InputError
from tinymem.messages.fitting import beginning
from tinymem.messages.tokens import counter_from
from tinymem.protocols import TokenCounter
from tinymem.recall.query.identifiers import identifiers
from tinymem.recall.render import one_line, speaker_key
from tinymem.recall.selection.diversity import Utterance
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step, check_steps
from tinymem.steps.types import MessageStep, SummaryStep
from tinymem.stores.words import STOP_WORDS
from tinymem.summarizers.writing import unfenced

__all__ = ["ExtractiveSummarizer", "labelled_parts"]

LOOKED_AT = 400_000  # characters of all texts together,
LEAST_LOOKED_AT = 400  # but of each at least so many, half from its beginning and half from its end
MOST_LINES = 8_000  # beyond that the less worthy are left out
LONGEST_LINE = 240  # characters; a longer one is cut at its sentences
LONGEST_NAME = 40  # characters of a speaker's or a tool's name
LONGEST_TERM = 64  # characters; a longer one is data
LEAST_CUT = 40  # characters of a last line that is cut because it does not fit

# How much a line of each kind of part is worth; of other kinds 1.
WORTH = {
    "task": 3.0, "final_answer": 3.0, "summary": 2.0, "scratchpad": 2.0, "signal": 2.0, "error": 2.0, "message": 2.0,
    "reply": 1.3, "call": 0.7, "code": 0.6, "observation": 0.6, "system_prompt": 0.5,
}  # fmt: skip
CUE = 1.6  # times as much is a line worth with a word of failure, and with one of decision,
STATEMENT = 1.3  # a message of a person about themselves,
LAST = 1.3  # and the last line of a longer result
FAILURES = ("error", "exception", "fail", "fatal", "panic", "denied", "refused", "timed out", "timeout", "not found",
            "no such", "cannot", *(f"exit code {code}" for code in range(1, 10)))  # fmt: skip
DECISIONS = ("decid", "decision", "agreed", "chose", "instead of", "will use", "must ", "never ", "always ", "do not ",
             "don't ", "root cause", "because", "deadline", "approved", "rejected", "remember",
             "important")  # fmt: skip

NAME, NUMBER, WORD = 2.0, 1.5, 1.0  # how much an identifier, a term with a digit and another word weigh
EXPONENT = 0.65  # of the cost that a gain is divided by
NEW = 0.6  # of the weight of its terms: so much a line must add
PER_LINE = 2.0  # tokens of a line break, and what the estimate of four characters a token misses
CHARACTERS = 12  # a token, at most: so much is chosen before tokens are counted
SLACK = 2_000  # characters beyond that

_LINE = re.compile(r"[^\n\r\u2028\u2029]+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s|(?<=[。！？；])")
_DIGITS = re.compile(r"\d+")
_ABOUT_ME = re.compile(r"\b(?:i|my|our|call me)\b")
_ESCAPED = re.compile(r"\\([\\\"nrt])")  # in the JSON of a call's arguments
_WRITTEN = {"n": "\n", "r": "\r", "t": "\t"}
_MAY_NAME = re.compile(r"[\d_/]|\.[\w./-]|[a-z][A-Z]")  # something of this is in every identifier
# Scripts without spaces between words: each of their characters is a term.
_TERM = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


class ExtractiveSummarizer:
    r"""A summarizer by extraction: lines of the steps, in order, each behind its step's number and its speaker.

    Lines are taken by their worth for their cost. A line is worth the more the more telling its terms are: a term
    weighs more the rarer it is in the run (inverse line frequency), and as an identifier or a number; a line counts
    more in a task, an answer, an error or a person's words than in a listing, and less when it differs from others only
    in its numbers. A line is left out whose terms stand in better lines for the most part. The order does not depend on
    the budget: with more of it come more lines, and none goes.

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
        lines = _lines_of(check_steps("steps", steps)) if max_tokens else []
        chosen = _rank(lines, CHARACTERS * max_tokens + SLACK)

        def is_over(shown: Mapping[int, str]) -> bool:
            return self._counter.count(_joined(shown)) > max_tokens

        def first(count: int) -> dict[int, str]:
            return {place: str(lines[place]) for place in chosen[:count]}

        count = bisect_left(range(1, len(chosen) + 1), True, key=lambda count: is_over(first(count)))
        shown = first(count)
        if count < len(chosen):
            place = chosen[count]
            label, text = lines[place].label, lines[place].text
            cut = beginning(text, lambda part: not is_over({**shown, place: label + part}))
            if len(cut) >= LEAST_CUT:
                shown[place] = label + cut
        return _joined(shown)

    def __repr__(self) -> str:
        return f"<ExtractiveSummarizer, tokens by {self._counter.name}>"


def _joined(lines: Mapping[int, str]) -> str:
    return "\n".join(lines[place] for place in sorted(lines))


# -- the lines of a run -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ScoredLine:
    """A line: its step's number and speaker before it, its text, its worth, the place of its text among all."""

    label: str
    text: str
    worth: float
    source: int

    def __str__(self) -> str:
        return self.label + self.text


def labelled_parts(steps: Sequence[Step]) -> list[tuple[str, Part]]:
    """Return the parts of all steps, in order, each with its label."""
    found: list[tuple[str, Part]] = []
    for step in steps:
        found += [(_label(step, part), part) for part in _parts(step)]
    return found


def _parts(step: Step) -> Sequence[Part]:
    """Return the parts of a step.

    A summary is without its fence, the result of a final action is the answer, and code in a call stands as written.
    """
    parts: Sequence[Part] = step.parts()
    if isinstance(step, SummaryStep):
        return [replace(part, text=unfenced(part.text)) for part in parts]
    if not isinstance(step, ActionStep):
        return parts
    written = [replace(part, text=_as_written(part.text)) if part.kind == "call" else part for part in parts]
    if not step.is_final:
        return written
    return [replace(part, kind="final_answer") if part.kind == "observation" else part for part in written]


def _as_written(call: str) -> str:
    return _ESCAPED.sub(lambda found: _WRITTEN.get(found[1], found[1]), call)


def _label(step: Step, part: Part) -> str:
    """Return the step's number with a speaker, a tool or a kind of step; "" for summaries, whose lines have labels."""
    if isinstance(step, SummaryStep):
        return ""
    number = "" if step.step_number is None else f"#{step.step_number} "
    return f"{number}{one_line(_who(step, part))[:LONGEST_NAME]}: "


def _who(step: Step, part: Part) -> str:
    if isinstance(step, ActionStep) and part.kind in ("observation", "error", "final_answer"):
        tool = step.results[part.message - 1].name if step.results else "output"
        return f"{tool[:LONGEST_NAME]} error" if part.kind == "error" else tool
    if isinstance(step, ActionStep):
        return part.kind if part.kind in ("call", "code") else step.speaker or part.kind
    if isinstance(step, MessageStep):
        return step.speaker or ("result" if step.role == "tool" else step.role)
    return step.type.replace("_", " ")


def _lines_of(steps: Sequence[Step]) -> list[_ScoredLine]:
    """Return the lines of a run, in order; of those that say the same the one that is worth most."""
    speakers: list[str] = []
    for step in steps:
        speakers += [speaker_key(step, part) for part in _parts(step)]
    room = max(LEAST_LOOKED_AT, LOOKED_AT // max(1, len(speakers)))
    found: list[_ScoredLine] = []
    for source, (label, part) in enumerate(labelled_parts(steps)):
        found += [_ScoredLine(label, text, worth, source) for text, worth in _texts_of(part, room)]
    # Rows, progress and a log's lines differ from others in numbers only: they share a shape.
    shapes = [_DIGITS.sub("0", line.text) for line in found]
    frequency = Counter(shapes)
    best: dict[tuple[str, str], int] = {}
    for place, line in enumerate(found):
        same = Utterance(line.text, speakers[line.source]).saying
        if same not in best or found[best[same]].worth < line.worth:
            best[same] = place
    rated: list[_ScoredLine] = []
    for place in sorted(best.values()):
        rated.append(replace(found[place], worth=found[place].worth / math.sqrt(frequency[shapes[place]])))
    most = heapq.nlargest(MOST_LINES, range(len(rated)), key=lambda place: (rated[place].worth, -place))
    return [rated[place] for place in sorted(most)]


def _texts_of(part: Part, room: int) -> Iterator[tuple[str, float]]:
    """Yield the lines of a part, each with its worth."""
    lines: list[str] = []
    for text in _ends(part.text, room):
        lines += [line for line in _LINE.findall(clean(text)) if not line.isspace()]
    for number, line in enumerate(lines, 1):
        is_last = number == len(lines) > 3 and part.kind in ("observation", "error")
        for text in _cut(" ".join(line.split())):
            if any(map(str.isalnum, text)):
                yield text, _worth(text, part.kind) * (LAST if is_last else 1)


def _worth(text: str, kind: str) -> float:
    """Return what a line is worth by its kind, and by its words: failures, decisions, statements of a person."""
    worth = WORTH.get(kind, 1.0)
    lower = text.lower()
    for cues in (FAILURES, DECISIONS):
        if any(map(lower.__contains__, cues)):
            worth *= CUE
    return worth * STATEMENT if kind == "message" and _ABOUT_ME.search(lower) else worth


def _ends(text: str, room: int) -> list[str]:
    """Return `text`, or its beginning and its end, without the words that are cut in two."""
    if len(text) <= room:
        return [text]
    head, tail = text[: room // 2], text[-(room // 2) :]
    begins = [place for place in (tail.find("\n"), tail.find(" ")) if place >= 0]
    return [head[: max(head.rfind("\n"), head.rfind(" "), 0)], tail[min([len(tail), *begins]) :]]


def _cut(line: str) -> Iterator[str]:
    """Yield a line, or the sentences of a long one; long sentences are cut at white space."""
    for sentence in _SENTENCE.split(line) if len(line) > LONGEST_LINE else [line]:
        start = 0
        while len(sentence) - start > LONGEST_LINE:
            space = sentence.rfind(" ", start + LONGEST_LINE // 2, start + LONGEST_LINE)
            end = space if space > 0 else start + LONGEST_LINE
            yield sentence[start:end].strip()
            start = end
        yield sentence[start:].strip()


# -- the choice -------------------------------------------------------------------------------------------------------


def _terms(text: str) -> dict[str, float]:
    """Return the terms of a line, in lower case, with their weights."""
    weights: dict[str, float] = {}
    for term in _TERM.findall(text.lower()):
        if term not in STOP_WORDS and len(term) <= LONGEST_TERM:
            weights[term] = NUMBER if any(map(str.isdigit, term)) else WORD
    if _MAY_NAME.search(text):
        weights.update(dict.fromkeys(map(str.lower, identifiers(text)), NAME))
    return weights


def _rank(lines: Sequence[_ScoredLine], characters: int) -> list[int]:
    """Rank lines by their worth for their cost, until they are more than `characters` long.

    A line is left out whose terms, by weight, stand in better lines for the most part.
    """
    weights = [_terms(line.text) for line in lines]
    frequency = Counter(chain.from_iterable(weights))
    for terms in weights:
        for term in terms:
            terms[term] *= math.log1p(len(lines) / frequency[term])
    values: list[float] = []
    for line, terms in zip(lines, weights, strict=True):
        values.append(line.worth * sum(terms.values()) / math.pow(len(str(line)) / 4 + PER_LINE, EXPONENT))
    told: set[str] = set()
    chosen: list[int] = []
    for place in sorted(range(len(lines)), key=lambda place: (-values[place], place)):
        terms = weights[place]
        new = sum(weight for term, weight in terms.items() if term not in told)
        if characters > 0 and new > NEW * sum(terms.values()):
            chosen.append(place)
            characters -= len(str(lines[place]))
            told.update(terms)
    return chosen

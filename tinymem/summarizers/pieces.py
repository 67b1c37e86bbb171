"""The pieces of an extractive summary: the lines of a run, long ones cut at sentences, each word for word.

A piece's *worth* depends on its kind: a person's statement, a final answer or an error tells more than a line of a
listing. Of each text only the beginning and the end are read, so that time is bounded.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinymem.recall.diversity import Utterance, UtteranceCounts
from tinymem.recall.render import format_mark, one_line, speaker_key
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step
from tinymem.steps.types import MessageStep, SummaryStep
from tinymem.summarizers.writing import unfenced

__all__ = ["Piece", "labelled_parts", "pieces_of"]

LOOKED_AT = 400_000  # characters of all texts together,
LEAST_LOOKED_AT = 400  # but of each at least so many, half from its beginning and half from its end
LONGEST = 240  # characters of a piece
SHOWN_NAME = 40  # characters of a speaker's or a tool's name
MOST = 8_000  # pieces; beyond that the less worthy are left out

# How much a piece of each kind of part is worth; of other kinds 1.
WORTH = {
    "task": 3.0, "final_answer": 3.0, "summary": 2.0, "scratchpad": 2.0, "signal": 2.0, "error": 2.0, "message": 2.0,
    "reply": 1.3, "call": 0.7, "code": 0.6, "observation": 0.6, "system_prompt": 0.5,
}  # fmt: skip
FAILS = 1.6
DECIDES = 1.6
STATES = 1.3
ENDS = 1.3

_LINE = re.compile(r"[^\n\r\u2028\u2029]+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s|(?<=[。！？；])")
_DIGITS = re.compile(r"\d+")
_ESCAPED = re.compile(r"\\([\\\"nrt])")  # in the JSON of a call's arguments
_WRITTEN = {"n": "\n", "r": "\r", "t": "\t"}
_FAILS = re.compile(  # of lower-case text, as the others
    r"error\b|exception\b|\bfail(?:ed|s|ure)?\b|\bfatal\b|\bpanic\b|\bdenied\b|\brefused\b|\btimed? ?out\b|"
    r"\bnot found\b|\bno such\b|\bcannot\b|\bexit (?:code|status) [1-9]"
)
_DECIDES = re.compile(
    r"\bdeci(?:ded?|sion)\b|\bagreed?\b|\bchosen?\b|\binstead of\b|\bwill use\b|\bmust\b|\bnever\b|\balways\b|"
    r"\bdo(?:n't| not)\b|\broot cause\b|\bbecause\b|\bdeadline\b|\bapproved\b|\brejected\b|\bremember\b|\bimportant\b"
)
_STATES = re.compile(r"\b(?:i|my|our|call me)\b")
# Parts of all that these find: looking for them first takes a tenth of the time, and most pieces have none.
_FAILS_WITH = ("error", "exception", "fail", "fatal", "panic", "denied", "refused", "time", "not found", "no such",
               "cannot", "exit ")  # fmt: skip
_DECIDES_WITH = ("deci", "agree", "chose", "instead", "will use", "must", "never", "always", "do not", "don't", "root",
                 "because", "deadline", "approved", "rejected", "remember", "important")  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """A piece of a summary.

    Attributes:
        label: The text before it: its step's number and its speaker.
        text: The text, cleaned and with white space folded.
        worth: Its worth.
        part: The place of its part among those of all steps.
        mark: What stands behind it: how often it was said, if more than once.
    """

    label: str
    text: str
    worth: float
    part: int
    mark: str = ""

    @property
    def line(self) -> str:
        """The piece as a line of a summary."""
        return self.label + self.text + self.mark


def labelled_parts(steps: Sequence[Step]) -> list[tuple[str, Part]]:
    """Return the parts of all steps, in order, each with its label."""
    return [(_label(step, part), part) for step in steps for part in _parts(step)]


def _parts(step: Step) -> Sequence[Part]:
    """Return the parts of a step.

    A summary is without its fence, the result of a final action is the answer, and code in a call stands as written.
    """
    if isinstance(step, SummaryStep):
        return [replace(part, text=unfenced(part.text)) for part in step.parts()]
    if not isinstance(step, ActionStep):
        return step.parts()
    parts = [replace(part, text=_as_written(part.text)) if part.kind == "call" else part for part in step.parts()]
    if not step.is_final:
        return parts
    return [replace(part, kind="final_answer") if part.kind == "observation" else part for part in parts]


def _as_written(call: str) -> str:
    return _ESCAPED.sub(lambda found: _WRITTEN.get(found[1], found[1]), call)


def _label(step: Step, part: Part) -> str:
    """Return the step's number with a speaker, a tool or a kind of step; "" for summaries, whose lines have labels."""
    if isinstance(step, SummaryStep):
        return ""
    number = "" if step.step_number is None else f"#{step.step_number} "
    return f"{number}{one_line(_who(step, part))[:SHOWN_NAME]}: "


def _who(step: Step, part: Part) -> str:
    if isinstance(step, ActionStep) and part.kind in ("observation", "error", "final_answer"):
        results = step.results
        tool = results[part.message - 1].name if results else "output"
        return f"{tool[:SHOWN_NAME]} error" if part.kind == "error" else tool
    if isinstance(step, ActionStep):
        return part.kind if part.kind in ("call", "code") else step.speaker or part.kind
    if isinstance(step, MessageStep):
        return step.speaker or ("result" if step.role == "tool" else step.role)
    return step.type.replace("_", " ")


def pieces_of(steps: Sequence[Step]) -> list[Piece]:
    """Return the pieces of `steps`, in order; of equal texts the one that is worth most, with their number."""
    parts = [(speaker_key(step, part), _label(step, part), part) for step in steps for part in _parts(step)]
    room = max(LEAST_LOOKED_AT, LOOKED_AT // max(1, len(parts)))
    pieces = [piece for at, (_, label, part) in enumerate(parts) for piece in _pieces(at, label, part, room)]
    said = [Utterance.of(piece.text, parts[piece.part][0]) for piece in pieces]
    sayings = UtteranceCounts(
        one for one, piece in zip(said, pieces, strict=True) if piece.label
    )  # a summary's are counted
    # Rows, progress and a log's lines differ from others in numbers only: they share a shape.
    shape_of = {piece.text: _DIGITS.sub("0", piece.text) for piece in pieces}
    shapes = Counter(shape_of[piece.text] for piece in pieces)
    found: dict[Any, tuple[Piece, Utterance]] = {}
    for piece, one in zip(pieces, said, strict=True):
        same = sayings.of(one) if one.words else piece.text
        if same not in found or found[same][0].worth < piece.worth:
            found.pop(same, None)
            found[same] = piece, one
    rated = [
        replace(
            piece, worth=piece.worth / math.sqrt(shapes[shape_of[piece.text]]), mark=format_mark(*sayings.times(one))
        )
        for piece, one in found.values()
    ]
    best = heapq.nlargest(MOST, range(len(rated)), key=lambda at: (rated[at].worth, -at))
    return [rated[at] for at in sorted(best)]


def _pieces(at: int, label: str, part: Part, room: int) -> Iterator[Piece]:
    worth = WORTH.get(part.kind, 1.0)
    lines = [line for text in _ends(part.text, room) for line in _LINE.findall(clean(text)) if not line.isspace()]
    for number, line in enumerate(lines, 1):
        last = ENDS if number == len(lines) > 3 and part.kind in ("observation", "error") else 1.0
        for text in _cut(" ".join(line.split())):
            if any(map(str.isalnum, text)):
                yield Piece(label, text, worth * last * _cues(text, part.kind), at)


def _ends(text: str, room: int) -> list[str]:
    """Return `text`, or its beginning and its end, without the words that are cut in two."""
    if len(text) <= room:
        return [text]
    head, tail = text[: room // 2], text[-(room // 2) :]
    begins = [at for at in (tail.find("\n"), tail.find(" ")) if at >= 0]
    return [head[: max(head.rfind("\n"), head.rfind(" "), 0)], tail[min([len(tail), *begins]) :]]


def _cut(line: str) -> Iterator[str]:
    """Yield a line, or the sentences of a long one; long sentences are cut at white space."""
    if len(line) <= LONGEST:
        yield line
        return
    for sentence in _SENTENCE.split(line):
        start = 0
        while len(sentence) - start > LONGEST:
            space = sentence.rfind(" ", start + LONGEST // 2, start + LONGEST)
            end = space if space > 0 else start + LONGEST
            yield sentence[start:end].strip()
            start = end
        yield sentence[start:].strip()


def _cues(text: str, kind: str) -> float:
    """Return the worth that the words of a piece add: failures, decisions, statements of a person."""
    lower = text.lower()
    states = STATES if kind == "message" and _STATES.search(lower) else 1.0
    fails = FAILS if _holds_any(lower, _FAILS_WITH) and _FAILS.search(lower) else 1.0
    return states * fails * (DECIDES if _holds_any(lower, _DECIDES_WITH) and _DECIDES.search(lower) else 1.0)


def _holds_any(text: str, parts: Sequence[str]) -> bool:
    return any(map(text.__contains__, parts))

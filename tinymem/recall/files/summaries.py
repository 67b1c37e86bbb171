"""Summaries of what files showed: a line that quotes one that is gone says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tinymem.recall.files.changes import Changes
from tinymem.recall.files.lines import SHORTEST
from tinymem.steps.step import Step

__all__ = ["with_marks"]

_NUMBER = re.compile(r"#(\d{1,12}) ")  # of the step that a line of a summary is from
_ESCAPED = re.compile(r"\\n|\\(.)")  # in the JSON of a call's arguments


def with_marks(summary: str, changes: Changes, fetch: Callable[[Sequence[int]], Mapping[int, Step]]) -> str:
    """Return a summary, with a mark behind each line that quotes lines of a step that are gone from their file.

    Args:
        summary: Its lines begin with the numbers of their steps.
        changes: What changed since.
        fetch: Reads steps by their numbers.
    """
    lines = summary.split("\n")
    begins = [_NUMBER.match(line) for line in lines]
    steps = fetch(sorted({int(begin[1]) for begin in begins if begin}))
    changes.expect(steps.values())
    gone = {number: _gone(step, changes) for number, step in steps.items()}
    marks = [
        _mark(line, gone.get(int(begin[1]), {}) if begin else {}) for line, begin in zip(lines, begins, strict=True)
    ]
    return "\n".join(f"{line} ({mark})" if mark else line for line, mark in zip(lines, marks, strict=True))


def _gone(step: Step, changes: Changes) -> dict[str, str]:
    """Return the lines of a step that are gone, white space folded, with what says so."""
    changes.follow()
    found: dict[str, str] = {}
    parts = step.parts()
    for place, part in enumerate(parts):
        for first, last, mark in changes.since(step, parts, place, 0, len(part.text)).spans:
            text = part.text[first:last]
            text = _ESCAPED.sub(lambda escaped: escaped[1] or "\n", text) if part.kind == "call" else text
            folded = (" ".join(line.split()) for line in text.splitlines())
            found |= {line: mark for line in folded if len(line) >= SHORTEST}
    return found


def _mark(line: str, gone: Mapping[str, str]) -> str:
    said = _NUMBER.sub("", line, count=1).partition(": ")[2]
    found = (mark for text, mark in gone.items() if text in line or (len(said) >= SHORTEST and said in text))
    return next(found, "")

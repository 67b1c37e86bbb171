"""Summaries of what files showed: a line that quotes one that is gone says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tinymem.recall.files.changes import Changes
from tinymem.recall.files.lines import SHORTEST
from tinymem.steps.step import Step

__all__ = ["with_marks"]

_NUMBERED = re.compile(r"#(\d{1,12}) (?:.*?: |.*$)(.*)")  # the step that a line of a summary is from, and what it said
_ESCAPED = re.compile(r"\\n|\\(.)")  # in the JSON of a call's arguments


def with_marks(summary: str, changes: Changes, fetch: Callable[[Sequence[int]], Mapping[int, Step]]) -> str:
    """Return a summary, with a mark behind each line that quotes lines of a step that are gone from their file.

    Args:
        summary: Its lines begin with the numbers of their steps.
        changes: What changed since.
        fetch: Reads steps by their numbers.
    """
    lines = summary.split("\n")
    found = [_NUMBERED.match(line) for line in lines]
    steps = fetch(sorted({int(match[1]) for match in found if match}))
    changes.follow()
    changes.read(steps.values())
    gone = {number: _gone(step, changes) for number, step in steps.items()}
    for place, match in enumerate(found):
        mark = _mark(match, gone.get(int(match[1]), {})) if match else ""
        lines[place] += f" ({mark})" if mark else ""
    return "\n".join(lines)


def _gone(step: Step, changes: Changes) -> dict[str, str]:
    """Return the lines of a step that are gone, white space folded, with what says so."""
    found: dict[str, str] = {}
    parts = step.parts()
    for place, part in enumerate(parts):
        for first, last, mark in changes.since(step, parts, place, 0, len(part.text)).spans:
            text = part.text[first:last]
            if part.kind == "call":
                text = _ESCAPED.sub(lambda escaped: escaped[1] or "\n", text)
            folded = (" ".join(line.split()) for line in text.splitlines())
            found |= {line: mark for line in folded if len(line) >= SHORTEST}
    return found


def _mark(quoted: re.Match[str], gone: Mapping[str, str]) -> str:
    """Return the mark of the first line that a line of a summary quotes, whole or in part."""
    for line, mark in gone.items():
        if line in quoted[0] or (len(quoted[2]) >= SHORTEST and quoted[2] in line):
            return mark
    return ""

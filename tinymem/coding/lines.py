"""Lines of files as small numbers, without indents and the numbers that tools put before them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias
from zlib import crc32

__all__ = ["ShownLine", "code_lines", "lines_in_json", "lines_in_text", "shown_codes"]

SHORTEST = 12  # characters of a line that says something
# What `cat -n`, grep and their like put before a line: its number, or the path and the number
_NUMBER = r"[^\S\n]*(?:(?:[A-Za-z]:)?[^\s:]+:(?=\d))?L?\d{1,6}(?:→|[\t:|-])"
_NUMBERED = re.compile(f"(?m)^{_NUMBER}.*$")
# A line behind that, its indent, and the signs of a patch
_LINE = re.compile(rf"(?m)^(?:{_NUMBER})?(?:[^\S\n]|[+-])*(?![\s+-])([^\n]+)")
_JSON_LINE = re.compile(r'\\n|((?:[^"\\]|\\[^n])+)')  # up to a quote or an escaped line feed


ShownLine: TypeAlias = tuple[int, int, int]  # a line as it stands in a text, from its start to its end, and its code


def code_lines(text: str) -> list[int]:
    """Return the codes of the lines of `text`, in order, without those that say nothing."""
    return [code for _, _, code in lines_in_text(text, 0, len(text))]


def shown_codes(result: str) -> tuple[int, ...]:
    """Return the codes of the lines of a file in a tool's result: of those with numbers, where most have some."""
    numbered = _NUMBERED.findall(result)
    return tuple(code_lines("\n".join(numbered) if 2 * len(numbered) > result.count("\n") else result))


def lines_in_text(text: str, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of `text` that reach into `[start, end)`."""
    for found in _LINE.finditer(text, text.rfind("\n", 0, start) + 1):
        if found.start() >= end:
            break
        said = found[1].rstrip()
        if len(said) >= SHORTEST:
            yield found.start(), found.end(), crc32(said.encode("utf-8", "replace"))


def lines_in_json(text: str, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of the strings of a call's arguments that reach into `[start, end)`."""
    for found in _JSON_LINE.finditer(text, max(0, text.rfind("\\n", 0, start))):
        if found.start() >= end:
            break
        with suppress(ValueError):
            said = json.loads(f'"{found[1] or ""}"', strict=False)
            for code in code_lines(said.replace("\n", " ")):
                yield found.start(), found.end(), code

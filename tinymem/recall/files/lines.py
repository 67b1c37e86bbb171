"""Lines of files as small numbers, without indents and the numbers that tools put before them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np

__all__ = ["ShownLine", "code_lines", "lines_in_json", "lines_in_text", "pack_codes", "shown_codes", "unpack_codes"]

SHORTEST = 12  # characters of a line that says something
# What `cat -n`, grep and their like put before a line: its number, or the path and the number
_NUMBER = re.compile(r"\s*(?:(?:[A-Za-z]:)?[^\s:]{1,200}[:-])?L?\d{1,6}(?:→|[\t:|-])")
_LINE = re.compile(r"[^\n]+")
_JSON_LINE = re.compile(r'\\n|((?:[^"\\]|\\[^n])+)')  # up to a quote or an escaped line feed


class ShownLine(NamedTuple):
    """A line as it stands in a text, from `start` to `end`, and its code."""

    start: int
    end: int
    code: int


def code_lines(text: str) -> list[int]:
    """Return the codes of the lines of `text`, in order, without those that say nothing."""
    return [code for line in text.splitlines() if (code := _code(line)) is not None]


def shown_codes(result: str) -> tuple[int, ...]:
    """Return the codes of the lines of a file in a tool's result: of those with numbers, where most have some."""
    lines = result.splitlines()
    numbered = [line for line in lines if _NUMBER.match(line)]
    return tuple(code_lines("\n".join(numbered if 2 * len(numbered) > len(lines) else lines)))


def lines_in_text(text: str, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of `text` that reach into `[start, end)`."""
    yield from _shown(text, _LINE.finditer(text, text.rfind("\n", 0, start) + 1), end)


def lines_in_json(text: str, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of the strings of JSON that reach into `[start, end)`."""
    for found in _JSON_LINE.finditer(text):
        if found.end() <= start or found[1] is None:
            continue
        if found.start() >= end:
            break
        try:
            said = json.loads(f'"{found[0]}"', strict=False)
        except ValueError:
            continue
        if (code := _code(said)) is not None:
            yield ShownLine(found.start(), found.end(), code)


def _shown(text: str, lines: Iterator[re.Match[str]], end: int) -> Iterator[ShownLine]:
    for found in lines:
        if found.start() >= end:
            break
        if (code := _code(found[0])) is not None:
            yield ShownLine(found.start(), found.end(), code)


def _code(line: str) -> int | None:
    numbered = _NUMBER.match(line)
    said = line[numbered.end() if numbered else 0 :].strip().lstrip("+- \t")  # the signs of a patch
    return crc32(said.encode("utf-8", "replace")) if len(said) >= SHORTEST else None


def pack_codes(codes: Sequence[int]) -> bytes:
    """Return codes in 4 bytes each."""
    return np.array(codes, "<u4").tobytes()


def unpack_codes(packed: bytes) -> list[int]:
    """Return the codes that `pack_codes` packed."""
    codes: list[int] = np.frombuffer(packed, "<u4").tolist()
    return codes

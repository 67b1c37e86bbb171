"""The JSON in lines of files, damaged ones too, with errors that name the line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tinymem.errors import InputError

__all__ = ["DAMAGED", "LONGEST", "RawLine", "json_values", "parse_document", "read_values"]

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
RawLine: TypeAlias = tuple[int, "bytes | None"]
DAMAGED = "damaged "  # and a place: a kind of what is left out
LONGEST = 256 << 20  # bytes of a line of a recorded run


def json_values(line: bytes | None) -> tuple[list[Any], bool]:
    """Return the JSON objects or lists that a line begins with, and whether that is all of it.

    Two that were written onto one line are read; what stands behind a break is not.

    >>> json_values(b'{"a": 1}{"b": 2}{"c"')
    ([{'a': 1}, {'b': 2}], False)
    """
    values: list[Any] = []
    if line is None:
        return values, False
    try:
        text = line.strip(b"\0 \t\r\n").decode("utf-8-sig")
        place = 0
        while place < len(text):
            value, place = _DECODER.raw_decode(text, place)
            if not isinstance(value, (dict, list)):
                return values, False
            values.append(value)
            place = _BLANK.match(text, place).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return values, False
    return values, len(values) == 1 and b"\0" not in line


def read_values(lines: Iterable[RawLine], left_out: Counter[str]) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of lines with the lines' numbers; damaged lines are counted in `left_out`."""
    for number, line in lines:
        if line is not None and not line.strip():
            continue
        values, is_whole = json_values(line)
        if not is_whole:
            left_out[f"{DAMAGED}line {number}"] += 1
        for value in values:
            yield number, value


def parse_document(path: Path, lines: Sequence[RawLine]) -> list[Any]:
    """Return the one JSON value that spans many lines; none where they are lines of JSON of which the first is damaged.

    Raises:
        InputError: They are neither.
    """
    blank = "\n" * (lines[0][0] - 1)
    texts = [line or b"" for _, line in lines]
    try:
        return [json.loads(blank + b"".join(texts).decode("utf-8-sig"))]
    except (ValueError, RecursionError) as error:
        filled = [text for text in texts if text.strip(b"\0 \t\r\n")]
        whole = sum(is_whole and bool(values[0]) for values, is_whole in map(json_values, filled))
        if whole and 2 * whole >= len(filled):
            return []
        raise InputError(f"{path}: not valid JSON: {error}") from error

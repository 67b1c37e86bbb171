"""The JSON in lines of files, damaged ones too, with errors that name the line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from tinymem.errors import InputError

__all__ = ["DAMAGED", "LONGEST", "RawLine", "is_of_lines", "json_values", "parse_document", "read_values"]

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


def is_of_lines(lines: Sequence[RawLine]) -> bool:
    """Return True for lines of JSON of which the first is damaged; False for one JSON value that spans them all."""
    with suppress(ValueError, RecursionError, TypeError):
        json.loads(_joined(lines))
        return False
    texts = [line for _, line in lines if line is not None and line.strip(b"\0 \t\r\n")]
    whole = sum(is_whole and bool(values[0]) for values, is_whole in map(json_values, texts))
    return whole > 0 and 2 * whole >= len(texts)


def _joined(lines: Sequence[RawLine]) -> str:
    """Return the text of lines."""
    return b"".join(line or b"" for _, line in lines).decode("utf-8-sig")


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


def parse_document(path: Path, lines: Sequence[RawLine]) -> Any:
    """Return the one JSON value that spans many lines. Raises InputError."""
    blank = "\n" * (lines[0][0] - 1)
    try:
        return json.loads(blank + _joined(lines))
    except UnicodeDecodeError as error:
        what = "is not a text file" if any(b"\0" in (line or b"") for _, line in lines) else "is not UTF-8"
        raise InputError(f"{path}: {what} (byte {error.start} is {error.object[error.start]:#04x})") from error
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise InputError(f"{place}: not valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line 1: not valid JSON: {error}") from error

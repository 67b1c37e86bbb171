"""Lines of text files, plain or gzipped, and the JSON in them, with errors that name the line."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from tinymem.errors import InputError

__all__ = [
    "LONGEST", "Line", "RawLine", "byte_lines", "is_of_lines", "joined", "json_values", "parse_document",
    "parse_json_line", "read_values", "text_lines",
]  # fmt: skip

GZIP = b"\x1f\x8b"
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
Line: TypeAlias = tuple[int, str]
RawLine: TypeAlias = tuple[int, "bytes | None"]
LONGEST = 256 << 20  # bytes of a line of a recorded run


def text_lines(
    path: Path, longest: int = -1, raw: BinaryIO | None = None, before: int = 0
) -> Generator[Line, None, None]:
    """Yield the lines that are not blank, with their numbers; InputError for one of over `longest` bytes.

    `raw` is a stream to read instead, of which `before` lines were read.
    """
    lines = byte_lines(path, longest, raw, before)
    try:
        for number, line in lines:
            if line is None:
                raise InputError(f"{path}, line {number}: the line is longer than {longest} bytes")
            text = _decoded(line, path, number)
            if text.strip():
                yield number, text
    finally:
        lines.close()


def byte_lines(
    path: Path, longest: int = -1, raw: BinaryIO | None = None, before: int = 0
) -> Generator[tuple[int, bytes | None], None, None]:
    """Yield all lines with their numbers; None for one of over `longest` bytes."""
    number = before
    try:
        with nullcontext(raw) if raw else path.open("rb") as stream:  # opened once and peeked at, so that a pipe works
            is_gzip = stream.peek(2)[:2] == GZIP  # type: ignore[attr-defined]
            file = gzip.GzipFile(fileobj=stream) if is_gzip else stream
            size = longest + 1 if longest >= 0 else -1
            for number, line in enumerate(iter(lambda: file.readline(size), b""), before + 1):
                if len(line) != size:
                    yield number, line
                    continue
                while line and not line.endswith(b"\n"):
                    line = file.readline(size)
                yield number, None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: the gzip data is damaged or cut off ({error})") from error
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with NUL
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


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
        json.loads(joined(lines))
        return False
    texts = [line for _, line in lines if line is not None and line.strip(b"\0 \t\r\n")]
    whole = sum(is_whole and bool(values[0]) for values, is_whole in map(json_values, texts))
    return whole > 0 and 2 * whole >= len(texts)


def joined(lines: Sequence[RawLine]) -> str:
    """Return the text of lines."""
    return b"".join(line or b"" for _, line in lines).decode("utf-8-sig")


def read_values(lines: Iterable[RawLine], damaged: list[str]) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of lines with the lines' numbers; the places of damaged lines are added to `damaged`."""
    for number, line in lines:
        if line is not None and not line.strip():
            continue
        values, is_whole = json_values(line)
        if not is_whole:
            damaged.append(f"line {number}")
        for value in values:
            yield number, value


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        what = "is not a text file" if b"\0" in line else "is not UTF-8"
        raise InputError(
            f"{path}, line {number}: {what} (byte {error.start} of the line is {line[error.start]:#04x})"
        ) from error


def parse_json_line(text: str, path: Path, number: int) -> Any:
    """Parse JSON text that starts on line `number` of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = number + error.lineno - 1
        raise InputError(f"{path}, line {line}, column {error.colno}: not valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: not valid JSON: {error}") from error


def parse_document(path: Path, lines: Sequence[RawLine]) -> Any:
    """Return the one JSON value that spans many lines. Raises InputError."""
    blank = "\n" * (lines[0][0] - 1)
    try:
        text = joined(lines)
    except UnicodeDecodeError as error:
        what = "is not a text file" if any(b"\0" in (line or b"") for _, line in lines) else "is not UTF-8"
        raise InputError(f"{path}: {what} (byte {error.start} is {error.object[error.start]:#04x})") from error
    return parse_json_line(blank + text, path, 1)

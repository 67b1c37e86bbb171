"""Lines of text files, plain or gzipped, and the JSON in them, with errors that name the line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from tinymem.errors import InputError

__all__ = ["Line", "parse_json_line", "text_lines"]

GZIP = b"\x1f\x8b"
Line: TypeAlias = tuple[int, str]


def text_lines(
    path: Path, longest: int = -1, raw: BinaryIO | None = None, before: int = 0
) -> Generator[Line, None, None]:
    """Yield the lines that are not blank, with their numbers; InputError for one of over `longest` bytes.

    `raw` is a stream to read instead, of which `before` lines were read.
    """
    number = before
    try:
        with nullcontext(raw) if raw else path.open("rb") as stream:  # opened once and peeked at, so that a pipe works
            is_gzip = stream.peek(2)[:2] == GZIP  # type: ignore[attr-defined]
            file = gzip.GzipFile(fileobj=stream) if is_gzip else stream
            some = longest + 1 if longest >= 0 else -1
            for number, line in enumerate(iter(lambda: file.readline(some), b""), before + 1):
                if len(line) == some:
                    raise InputError(f"{path}, line {number}: the line is longer than {longest} bytes")
                text = _decoded(line, path, number)
                if text.strip():
                    yield number, text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: the gzip data is damaged or cut off ({error})") from error
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with NUL
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


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

"""The lines of files, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

from tinymem.errors import InputError

__all__ = ["byte_lines"]

GZIP = b"\x1f\x8b"


def byte_lines(
    path: Path, longest: int = -1, raw: BinaryIO | None = None
) -> Generator[tuple[int, bytes | None], None, None]:
    """Yield all lines with their numbers; None for one of over `longest` bytes."""
    number = 0
    try:
        with nullcontext(raw) if raw else path.open("rb") as stream:  # opened once and peeked at, so that a pipe works
            is_gzip = stream.peek(2)[:2] == GZIP  # type: ignore[attr-defined]
            file = gzip.GzipFile(fileobj=stream) if is_gzip else stream
            size = longest + 1 if longest >= 0 else -1
            for number, line in enumerate(iter(lambda: file.readline(size), b""), 1):
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

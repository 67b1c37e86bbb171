"""Lines of files as small numbers, without indents and the numbers that tools put before them; and results of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from struct import pack, unpack
from typing import Any, NamedTuple
from zlib import crc32

__all__ = [
    "READER", "ShownLine", "code_lines", "is_json", "lines_in_json", "lines_in_text", "pack_codes", "shown_codes",
    "text_of_result", "unpack_codes",
]  # fmt: skip

SHORTEST = 12  # characters of a line that says something
# What `cat -n`, grep and their like put before a line: its number, or the path and the number
_NUMBER = r"[^\S\n]*(?:(?:[A-Za-z]:)?[^\s:]+:(?=\d))?L?\d{1,6}(?:→|[\t:|-])"
_NUMBERED = re.compile(f"(?m)^{_NUMBER}.*$")
# A line behind that, its indent, and the signs of a patch
_LINE = re.compile(rf"(?m)^(?:{_NUMBER})?(?:[^\S\n]|[+-])*(?![\s+-])([^\n]+)")
# What a text has where one of its lines may have a number
_FIRST_NUMBER = re.compile(r"\n[^\S\n]*L?\d{1,6}(?:→|[\t:|-])")
_NUMBER_BEHIND_PATH = re.compile(r":\d{1,6}(?:→|[\t:|-])")
_SIGNS = "+-" + "".join(filter(str.isspace, map(chr, range(0x3001)))).replace("\n", "")
_JSON_LINE = re.compile(r'\\n|((?:[^"\\]|\\[^n])+)')  # up to a quote or an escaped line feed

READER = json.JSONDecoder(strict=False)
_TEXTS = ("error", "output", "content", "contents", "text", "result", "stdout", "structuredContent", "data")


class ShownLine(NamedTuple):
    """A line as it stands in a text, from `start` to `end`, and its code."""

    start: int
    end: int
    code: int


def code_lines(text: str) -> list[int]:
    """Return the codes of the lines of `text`, in order, without those that say nothing."""
    if _FIRST_NUMBER.search(f"\n{text}") or _NUMBER_BEHIND_PATH.search(text):
        lines: Iterable[str] = _LINE.findall(text)
    else:  # in a sixth of the time
        lines = (line.lstrip(_SIGNS) for line in text.split("\n"))
    said = map(str.rstrip, lines)
    return [crc32(line.encode("utf-8", "replace")) for line in said if len(line) >= SHORTEST]


def shown_codes(result: str) -> tuple[int, ...]:
    """Return the codes of the lines of a file in a tool's result: of those with numbers, where most have some."""
    numbered = _NUMBERED.findall(result)
    return tuple(code_lines("\n".join(numbered) if 2 * len(numbered) > result.count("\n") else result))


def lines_in_text(text: str, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of `text` that reach into `[start, end)`."""
    for found in _LINE.finditer(text, text.rfind("\n", 0, start) + 1):
        if found.start() >= end:
            break
        for code in code_lines(found[0]):
            yield ShownLine(found.start(), found.end(), code)


def lines_in_json(text: str, start: int, end: int) -> Iterator[ShownLine]:
    """Yield the lines of the strings of JSON that reach into `[start, end)`."""
    for found in _JSON_LINE.finditer(text, max(0, text.rfind("\\n", 0, start))):
        if found.start() >= end:
            break
        with suppress(ValueError):
            said = json.loads(f'"{found[1] or ""}"', strict=False)
            for code in code_lines(said.replace("\n", " ")):
                yield ShownLine(found.start(), found.end(), code)


def pack_codes(codes: Sequence[int]) -> bytes:
    """Return codes in 4 bytes each."""
    return pack(f"<{len(codes)}I", *codes)


def unpack_codes(packed: bytes) -> tuple[int, ...]:
    """Return the codes that `pack_codes` packed."""
    return unpack(f"<{len(packed) // 4}I", packed)


def is_json(result: str) -> bool:
    """Return whether a result looks like JSON on one line."""
    return result[:1] in ("{", "[", '"') and result[-1:] in ("}", "]", '"') and "\n" not in result


def text_of_result(result: str) -> str:
    r"""Return the text in a result of JSON on one line; another result as it is.

    >>> text_of_result('{"content": [{"type": "text", "text": "a\\nb"}]}')
    'a\nb'
    """
    with suppress(ValueError, RecursionError):
        found = _text_in(READER.decode(result)) if is_json(result) else None
        return result if found is None else found
    return result


def _text_in(value: Any) -> str | None:
    """Return the text in a value of JSON; None where it has none that is known as such."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        name = next(filter(value.get, _TEXTS), "")
        found = _text_in(value.get(name))
        return f"error: {found}" if name == "error" and found is not None else found
    if isinstance(value, list):
        texts = [_text_in(block) for block in value]
        known = [text for text in texts if text is not None]
        return "\n".join(known) if known and len(known) == len(value) else None
    return None

"""Lines of files as small numbers, without indents and the numbers that tools put before them; and results of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from struct import pack, unpack
from typing import Any, NamedTuple
from zlib import crc32

__all__ = [
    "READER", "SHORTEST", "ShownLine", "code_lines", "lines_in_json", "lines_in_text", "pack_codes", "shown_codes",
    "text_of_result", "unpack_codes", "without_number",
]  # fmt: skip

SHORTEST = 12  # characters of a line that says something
# What `cat -n`, grep and their like put before a line: its number, or the path and the number
_NUMBER = r"[^\S\n]*(?:(?:[A-Za-z]:)?[^\s:]+:(?=\d))?L?\d{1,6}(?:→|[\t:|-])"
_NUMBERED = re.compile(f"(?m)^{_NUMBER}.*$")
# A line behind that, its indent, and the signs of a patch
_LINE = re.compile(rf"(?m)^(?:{_NUMBER})?(?:[^\S\n]|[+-])*(?![\s+-])([^\n]+)")
_NUMBER_AT_START = re.compile(_NUMBER)
# What a text has where one of its lines may have a number
_FIRST_NUMBER = re.compile(r"\n[^\S\n]*L?\d{1,6}(?:→|[\t:|-])")
_NUMBER_BEHIND_PATH = re.compile(r":\d{1,6}(?:→|[\t:|-])")
_SIGNS = "+-" + "".join(filter(str.isspace, map(chr, range(0x3001)))).replace("\n", "")
_JSON_LINE = re.compile(r'\\n|((?:[^"\\]|\\[^n])+)')  # up to a quote or an escaped line feed
_NESTED_LINE = re.compile(r'\\{1,2}n|((?:[^"\\]|\\{3}["\\]|\\{1,2}[^n"\\])+)')  # in JSON in a string of JSON
_NESTS = re.compile(r'"\s*(?:[{\[]\s*)+\\"')  # a string that begins as JSON
EDGE = 2_000  # characters in which JSON shows that it has JSON in it

READER = json.JSONDecoder(strict=False)
DEPTH = 4  # of JSON in JSON
_TEXTS = ("error", "output", "content", "contents", "text", "result", "stdout", "structuredContent", "data")


class ShownLine(NamedTuple):
    """A line as it stands in a text, from `start` to `end`, its code, and what it says."""

    start: int
    end: int
    code: int
    text: str


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
            yield ShownLine(found.start(), found.end(), code, found[0])


def lines_in_json(text: str) -> Iterator[ShownLine]:
    """Yield the lines of the strings of JSON, and of strings that are JSON again."""
    is_nested = _NESTS.search(text, 0, EDGE) is not None
    for found in (_NESTED_LINE if is_nested else _JSON_LINE).finditer(text):
        if found[1] is None:
            continue
        try:
            said = _unescaped(_unescaped(found[1]) if is_nested else found[1])
        except ValueError:
            continue
        for code in code_lines(said.replace("\n", " ")):
            yield ShownLine(found.start(), found.end(), code, said)


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"', strict=False)) if "\\" in text else text


def without_number(line: str) -> str:
    """Return a line without the number or path that a tool put before it."""
    return _NUMBER_AT_START.sub("", line, count=1) if _NUMBER_AT_START.match(line) else line


def pack_codes(codes: Sequence[int]) -> bytes:
    """Return codes in 4 bytes each."""
    return pack(f"<{len(codes)}I", *codes)


def unpack_codes(packed: bytes) -> tuple[int, ...]:
    """Return the codes that `pack_codes` packed."""
    return unpack(f"<{len(packed) // 4}I", packed)


def text_of_result(result: str) -> str:
    r"""Return the text in a result of JSON on one line, also where it is JSON in a string; another result as it is.

    >>> text_of_result('{"content": [{"type": "text", "text": "a\\nb"}]}')
    'a\nb'
    """
    text = result
    for _ in range(DEPTH):
        if text[:1] not in ("{", "[", '"') or text[-1:] not in ("}", "]", '"') or "\n" in text:
            break
        try:
            found = _text_in(READER.decode(text), DEPTH)
        except (ValueError, RecursionError):
            break
        if found is None:
            break
        text = found
    return text


def _text_in(value: Any, depth: int) -> str | None:
    """Return the text in a value of JSON; None where it has none that is known as such."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and depth:
        name = next(filter(value.get, _TEXTS), "")
        found = _text_in(value.get(name), depth - 1)
        return f"error: {found}" if name == "error" and found is not None else found
    if isinstance(value, list) and depth:
        texts = [_text_in(block, depth - 1) for block in value if isinstance(block, dict)]
        known = [text for text in texts if text is not None]
        return "\n".join(known) if known and len(known) == len(value) else None
    return None

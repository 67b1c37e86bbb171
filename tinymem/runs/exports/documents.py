"""Notes and other documents of text: a message for each section or few paragraphs, said by the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tinymem.runs.exports.chats import LONGEST_NAME, Chat, ExportedChat
from tinymem.upkeep.lines import RawLine

__all__ = ["is_document", "read_document"]

SUFFIXES = (".md", ".markdown", ".txt")
ENOUGH = 1_500  # characters after which the next paragraph begins a new message
_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_FENCE = re.compile(r"\s*(```|~~~)")


def is_document(path: Path) -> bool:
    """Return True for the name of a text file that people write."""
    return path.suffix.lower() in SUFFIXES


def read_document(lines: Iterable[RawLine], path: Path) -> ExportedChat:
    """Read numbered lines; each message begins with the headings that it stands under."""
    chat = Chat()
    texts = ((number, (line or b"").decode("utf-8", "replace")) for number, line in lines)
    for text in _sections(((number, text) for number, text in texts if text.strip()), path.suffix.lower() != ".txt"):
        chat.say("user", text, None, name=path.name[:LONGEST_NAME])
    return chat.done(f"{path.name[:LONGEST_NAME]}#1")


def _sections(lines: Iterable[tuple[int, str]], has_headings: bool) -> Iterator[str]:
    headings: list[tuple[int, str]] = []
    body: list[str] = []
    last, size, is_code = 0, 0, False
    for number, line in lines:
        line, gap, last = line.rstrip("\r\n"), number - last > 1 and bool(body), number
        heading = _HEADING.match(line) if has_headings and not is_code else None
        if body and (heading or (gap and size > ENOUGH and not is_code)):
            yield _with_headings(headings, body)
            body, size, gap = [], 0, False
        if heading:
            headings = [above for above in headings if above[0] < len(heading[1])]
            headings.append((len(heading[1]), line))
            continue
        is_code ^= bool(_FENCE.match(line))
        body += ["", line] if gap else [line]
        size += len(line)
    if body:
        yield _with_headings(headings, body)


def _with_headings(headings: list[tuple[int, str]], body: list[str]) -> str:
    return "\n".join([*(line for _, line in headings), *body])

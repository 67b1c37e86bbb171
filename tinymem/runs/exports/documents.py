"""Notes and other documents of text: a message for each section or few paragraphs, said by the file.

A section has the time of a heading that begins with a date, or of a line that is only one; else that of the file's
name, as daily notes have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from tinymem.runs.exports.chats import LONGEST_NAME, ExportedChat
from tinymem.runs.lines import RawLine

__all__ = ["is_document", "read_document"]

SUFFIXES = (".md", ".markdown", ".txt")
ENOUGH = 600  # characters after which the next paragraph begins a new message
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_FENCE = re.compile(r"\s*(```|~~~)")
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_MONTH = rf"(?P<month>{'|'.join(MONTHS)})[a-z]*\.?"
_SPEAKER = r"(?:(?:user|agent|assistant)\s*\((?:\S+\s+)?)"  # of a session that SpecStory wrote down, and its model
_CLOCK = r"(?P<clock>\d\d[:-]\d\d(?:[:-]\d\d)?)"
_AGENT = re.compile(r"[\s*_]*(?:agent|assistant)\s*\(", re.I)
_DATES = [
    re.compile(rf"[\s#*_]*{_SPEAKER}?(?:[a-z]+day,?\s+)?{date}(?!\d)(?:[T_ ,]+{_CLOCK}Z?\b)?[\s:*_)]*", re.I)
    for date in (
        r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
        rf"{_DAY}\s+{_MONTH},?\s+(?P<year>\d{{4}})",
        rf"{_MONTH}\s+{_DAY},?\s+(?P<year>\d{{4}})",
    )
]


def is_document(path: Path) -> bool:
    """Return True for the name of a text file that people write."""
    return path.suffix.lower() in SUFFIXES


def read_document(lines: Iterable[RawLine], path: Path) -> ExportedChat:
    """Read numbered lines; each message begins with the headings that it stands under."""
    name, begun = path.name[:LONGEST_NAME], _date_in(path.stem)
    chat = ExportedChat(f"{name}#1")
    texts = [(number, (line or b"").decode("utf-8", "replace").rstrip("\r\n")) for number, line in lines]
    for text, when, role in _sections((number, text) for number, text in texts if text.strip()):
        chat.say(role, text, when or begun, name=name)
    return chat


Headings: TypeAlias = list[tuple[int, str]]  # with their levels
Section: TypeAlias = tuple[str, str | None, str]  # its text, the date that it stands under, and the role of who said it


def _sections(lines: Iterable[tuple[int, str]]) -> Iterator[Section]:
    """Yield the sections."""
    headings: Headings = []
    body: list[str] = []
    last, is_code = 0, False
    for number, line in lines:
        gap, last = number - last - 1 if body else 0, number
        heading = None if is_code else _heading(line)
        under = [above for above in headings if above[0] < heading[0]] if heading else headings
        is_long = gap > 1 or (gap and sum(map(len, body)) > ENOUGH)
        if (body and not is_code and (heading or is_long)) or (not body and under != headings):
            yield _section(headings, body)
            body, gap = [], 0
        if heading:
            headings = [*under, heading]
        else:
            is_code ^= bool(_FENCE.match(line))
            body += ["", line] if gap else [line]
    if body or headings:
        yield _section(headings, body)


def _heading(line: str) -> tuple[int, str] | None:
    if heading := _HEADING.match(line):
        return len(heading[1]), line
    return (7, line) if any(date.fullmatch(line) for date in _DATES) else None


def _section(headings: Headings, body: list[str]) -> Section:
    above = [heading for _, heading in headings]
    role = "assistant" if above and _AGENT.match(above[-1]) else "user"
    return "\n".join([*above, *body]), next(filter(None, map(_date_in, reversed(above))), None), role


def _date_in(heading: str) -> str | None:
    """Return the date that a heading begins with, in ISO 8601."""
    found = next(filter(None, (date.match(heading) for date in _DATES)), None)
    if found is None:
        return None
    month = found["month"].lower()[:3]
    number = MONTHS.index(month) + 1 if month in MONTHS else int(month)
    clock = f"T{found['clock'].replace('-', ':')}" if found["clock"] else ""
    return f"{found['year']}-{number:02d}-{int(found['day']):02d}{clock}"

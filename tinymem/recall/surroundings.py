"""Surroundings of an excerpt that govern it: keys of a value, the heading, columns of a table, who speaks.

It stands before an excerpt that begins in the middle of a text. It is looked for a few thousand characters above, since
a text may have 24 MB; only the first line of a paragraph is found however far it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["governing"]

WINDOW = 8_000  # characters above an excerpt that are looked through
WIDE = 160  # characters of a line that are looked at
LEVELS = 3  # keys that are named, the nearest ones

_SEPARATOR = re.compile(r"[|\t,;]")
_CELL = re.compile(r"(?:^|[|\t,;])\s*[-+]?[$€£]?\d[\d.]*%?\s*(?=[|\t,;\n]|$)")
_OPENING = re.compile(r"[^\W_][\w .-]{0,40}:(?: .{0,60}[^.!?])?$|\[.{1,80}\]$")  # "Harbour:", "id: 7", "[harbour]"
_HEADING = re.compile(r"^#{2,6} (.{1,50})", re.MULTILINE)  # of Markdown; "# " begins a comment as well
_LINE = re.compile(r"(?<=\n)([ \t]*)(?:\{\s*)?(\S.{,160})$", re.MULTILINE)  # a record has its first field
_KEY = re.compile(r'(?!else|try|finally|default)(?:- )?(?:"[^"]{1,40}"|[\w.-]{1,40}) ?:|<\w[^<>]+>$')
# Of JSON on one line: the key of what opens, the first field of a record, a text that goes on, what closes, other texts
_NESTED = re.compile(
    r'(?:"(?P<key>[^"\\]{1,40})"\s*:\s*)?'
    r'(?:[{\[](?:\s*(?P<first>"[^"\\]{1,40}"\s*:\s*(?:"[^"\\]{0,60}"|[^\s"{}\[\],]+)))?|"[^"\\]*(?:\\.[^"\\]*)*\Z)'
    r'|(?P<close>[}\]])|(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")'
)
_NAME = r"[^\W\d_a-z][\w.'-]*"
_TURN = re.compile(rf"^(?:\[[\d:. -]+\] ?)?(?:\*\*)?({_NAME}(?: {_NAME}){{0,2}})(?:\*\*)?:(?=[\s*]|$)", re.MULTILINE)


def governing(text: str, start: int) -> str:
    """Return what governs the excerpt of a text that begins at a place, as it is shown before it; "" for nothing."""
    begin = text.rfind("\n", 0, start) + 1
    above, row = text[max(0, start - WINDOW) : start], text[begin : begin + WIDE].partition("\n")[0]
    headings = [] if _HEADING.match(row) else _HEADING.findall(above)
    keys = [*_nested(above.rpartition("\n")[2]), *_keys(above, row)]
    levels = " > ".join([*headings[-1:], *keys[LEVELS - 1 :: -1]])
    lines = levels, _opening(text, begin, row, levels)
    shown, speaker = "".join(f"{line}\n" for line in lines if line), _speaker(text, start, above)
    return shown if speaker in shown else shown + speaker


def _speaker(text: str, start: int, above: str) -> str:
    """Return who goes on to speak at a place, where several speak in turn above it; "" where nobody does."""
    speakers = [] if _TURN.match(text, start) else _TURN.findall(above)
    is_talk = len({*speakers}) > 1 and "\n\n" not in above.rpartition(speakers[-1])[2]
    return f"{speakers[-1]}: " if is_talk else ""


def _keys(above: str, row: str) -> Iterator[str]:
    r"""Yield the keys of the value that a row is in, by indentation, the nearest first.

    >>> list(_keys('{\n "hosts": [\n  {\n    "id": 7,\n    "ports": {\n', '      "sql": 1'))
    ['ports', 'id: 7', 'hosts']
    """
    least = len(row) - len(row.lstrip())
    for indentation, said in reversed(_LINE.findall(above) if least else []):
        if len(indentation) < least:
            least = len(indentation)
            if _KEY.match(said):
                yield said.replace('"', "").strip(" {[,:-<>")


def _nested(line: str) -> list[str]:
    """Return the keys of the value that a line of JSON goes on in, and the first fields of records, the nearest first.

    >>> _nested('{"hosts": [{"id": 1}, {"id": 7, "ports": {"sql": 1')
    ['ports', 'id: 7', 'hosts']
    """
    inside: list[str] = []
    _, begin, rest = line.partition('{"')
    for found in _NESTED.finditer(begin + rest):
        if found["close"]:
            del inside[-1:]
        elif not found["text"]:
            inside.append((found["key"] or found["first"] or "").replace('"', ""))
    return [name for name in reversed(inside) if name]


def _opening(text: str, begin: int, row: str, levels: str) -> str:
    """Return the first line of the paragraph that a row goes on, if it says what the row is; or "".

    It has the names of columns: the same separators as the row, and no cell that is a number. Or it is a title, or the
    first field of a record, where nothing else says what the row is.
    """
    first = text.rfind("\n\n", 0, begin) + 1  # with the line break before it
    line = text[first : first + WIDE].lstrip("\n").partition("\n")[0]
    separators = _SEPARATOR.findall(row)
    is_table = len(separators) > 1 and separators == _SEPARATOR.findall(line)
    is_head = is_table and _CELL.search(row) and not _CELL.search(line)
    is_title = not levels and _OPENING.match(line) and row[-1:] != ":"
    return line if begin > first + 1 and (is_head or is_title) else ""

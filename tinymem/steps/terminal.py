"""Reports for a terminal: text that is safe to print, cut and padded by the cells it takes, plain or through rich.

Anybody may have written the texts of a memory. Shown here, they cannot send escape sequences, break lines, turn the
reading direction of the text beside them, or be read as rich's markup. Tables are drawn here, because rich takes
160 ms for one of 300 rows, and this 10, and because a cell that has no room may stand below its row.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, TypeAlias

from tinymem.steps.content import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

__all__ = [
    "NARROW",
    "Column",
    "Line",
    "ShownText",
    "Table",
    "count_cells",
    "first_words",
    "pad_to_cells",
    "pluralize",
    "printable",
    "safe",
    "terminal_width",
    "truncate_to_cells",
    "wrap_to_cells",
]  # fmt: skip

Line: TypeAlias = Sequence[tuple[str, str]]  # texts, each with its style (rich's words for it)

NARROW = 80  # columns where there is no terminal
GAP, INDENT = "  ", "    "  # between columns, and before what stands below its row
LEAST = {"below": 16, "wrapped": 32, "cut": 6}  # cells of a text beside others, below which it stands, and of a name

# Line breaks that `clean` leaves, and marks that turn the direction of all that follows on the line.
_BREAKS = dict.fromkeys(map(ord, "\t\n\r\u2028\u2029"), " ")
_TURNS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
_UNSAFE = {**_BREAKS, **_TURNS}
_RETURNS = {ord("\r"): "\ufffd", **_TURNS}


def safe(text: str) -> str:
    r"""Make `text` one line of the same length, with nothing in it that a terminal would obey.

    >>> safe("a\x1b[31mb\nc")
    'a�[31mb c'
    """
    return text if text.isascii() and text.isprintable() else clean(text).translate(_UNSAFE)


def printable(text: str) -> str:
    r"""Return `text` of the same length, on its lines, with nothing in it that a terminal would obey.

    >>> printable("a\x1b[31mb\n\tc")
    'a�[31mb\n\tc'
    """
    return text if text.isascii() and text.isprintable() else clean(text).translate(_RETURNS)


def first_words(text: str, most: int) -> str:
    r"""Return the beginning of `text` in at most `most` cells, words one space apart.

    >>> first_words("  Read  the log\nof May", 12)
    'Read the lo…'
    """
    return truncate_to_cells(safe(" ".join(text.lstrip()[: 8 * most].split())), most)


def count_cells(text: str) -> int:
    """Count the columns of a terminal that `text` takes, or a few more: terminals know different Unicode versions."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if character < "\u1100":  # the first that is wide
        return 1
    symbol = character >= "\u2600" and unicodedata.category(character) in ("Cn", "No", "So")
    return 2 if symbol or unicodedata.east_asian_width(character) in "WF" else 1  # Unicode makes ever more symbols wide


def truncate_to_cells(text: str, width: int) -> str:
    """Cut `text` to at most `width` cells, with an ellipsis where something is left out.

    >>> truncate_to_cells("日本語", 4), truncate_to_cells("abc", 0)
    ('日…', '')
    """
    if count_cells(text) <= width:
        return text
    kept, room = 0, width - 1  # the ellipsis takes a cell
    for character in text:
        room -= _cells_of(character)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept]}…" if width > 0 else ""


def wrap_to_cells(text: str, width: int) -> list[str]:
    """Break `text` between words into lines of at most `width` cells; a word that is longer is cut.

    >>> wrap_to_cells("the log of May", 7)
    ['the log', 'of May']
    """
    lines: list[str] = []
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and count_cells(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(truncate_to_cells(word, width))
    return [line.rstrip() for line in lines]


def pad_to_cells(text: str, width: int, right: bool = False) -> str:
    """Fill `text` with spaces up to `width` cells, before it if it goes to the `right`."""
    space = " " * (width - count_cells(text))
    return space + text if right else text + space


def pluralize(count: int, what: str) -> str:
    """Name a number of things.

    >>> pluralize(1, "step"), pluralize(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def terminal_width() -> int:
    """Return the columns of the terminal, as COLUMNS says or it says itself; 80 where there is none."""
    return shutil.get_terminal_size((NARROW, 24)).columns


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: The text above it.
        style: Its style, in rich's words.
        right: Align its cells to the right.
        room: What happens where there is too little room for all columns: it keeps its cells as they are, as numbers
            do, it is cut, or its words are wrapped. Cut and wrapped texts that would get very narrow stand below the
            row, if they are `"below"` or `"wrapped"`.
    """

    title: str
    style: str = ""
    right: bool = False
    room: Literal["kept", "cut", "below", "wrapped"] = "kept"


@dataclass(frozen=True)
class Table:
    """Rows of texts, under titles unless all of these are ""."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def lines(self, width: int | None = None) -> Iterator[Line]:
        """Yield the table, columns two spaces apart, in lines of at most `width` cells."""
        titles = [column.title for column in self.columns]
        rows = [[*map(safe, row)] for row in self.rows]
        if any(titles):
            rows.insert(0, titles)
        widths = [max(map(count_cells, cells)) for cells in zip(*rows, strict=True)]
        below = [] if width is None else self._fit(widths, width)
        beside = [place for place in range(len(widths)) if place not in below]
        for row in rows:
            cells = [self._pieces(place, row[place], widths[place]) for place in beside]
            for line in zip_longest(*cells, fillvalue=""):
                yield self._line(beside, line, widths)
            for place in filter(row.__getitem__, below):
                for piece in self._pieces(place, row[place], max(1, (width or 0) - len(INDENT))):
                    yield [(INDENT, ""), (piece, self.columns[place].style)]

    def _fit(self, widths: list[int], width: int) -> list[int]:
        """Make columns narrower until a row fits the width: texts first. Return those that stand below the row."""
        below: list[int] = []
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
        last_first = reversed(range(len(widths)))
        for place in sorted(last_first, key=lambda place: self.columns[place].room == "cut"):
            room = self.columns[place].room
            if excess <= 0 or room == "kept":
                continue
            narrow = widths[place] - excess
            if room != "cut" and narrow < LEAST[room]:
                below.insert(0, place)
                excess -= widths[place] + len(GAP)
            else:
                narrow = min(widths[place], max(narrow, LEAST[room]))
                excess -= widths[place] - narrow
                widths[place] = narrow
        return below

    def _pieces(self, place: int, cell: str, width: int) -> list[str]:
        """Return a cell in lines of this width."""
        is_wrapped = self.columns[place].room == "wrapped"
        return wrap_to_cells(cell, width) if is_wrapped else [truncate_to_cells(cell, width)]

    def _line(self, places: Sequence[int], pieces: Sequence[str], widths: Sequence[int]) -> Line:
        line: list[tuple[str, str]] = []
        for place, piece in zip(places, pieces, strict=True):
            column = self.columns[place]
            line += [(pad_to_cells(piece, widths[place], column.right), column.style), (GAP, "")]
        return line[:-1]


class ShownText:
    """A report: `str` gives its text, and `rich.print` shows it with colours.

    Attributes:
        width: The columns of a line of its text at most; any number where it is None.
    """

    width: int | None = None

    def blocks(self) -> Iterable[Line | Table]:
        """Return the lines and tables of the report, in order."""
        raise NotImplementedError

    def text(self, width: int | None = None) -> str:
        """Return the report in lines of at most `width` cells."""
        lines = []
        for pieces in self._lines(width):
            line = "".join(text for text, _ in pieces).rstrip()
            lines.append(line if width is None else truncate_to_cells(line, width))
        return "\n".join(lines)

    def _lines(self, width: int | None) -> Iterator[Line]:
        for block in self.blocks():
            if isinstance(block, Table):
                yield from block.lines(width)
                continue
            line = [(safe(text), style) for text, style in block]
            text = "".join(text for text, _ in line)
            if width is None or count_cells(text) <= width:
                yield line
            else:
                yield from ([(piece, line[-1][1])] for piece in wrap_to_cells(text, width))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def __str__(self) -> str:
        return self.text(self.width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        for line in self._lines(min(options.max_width, self.width or options.max_width)):
            yield Text.assemble(*line, no_wrap=True, overflow="ellipsis")

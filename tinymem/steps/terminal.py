"""Reports for a terminal: text that is safe to print, cut and padded by the cells it takes, plain or through rich.

Anybody may have written the texts of a memory. Shown here, they cannot send escape sequences, break lines, turn the
reading direction of the text beside them, or be read as rich's markup. Plain tables are drawn here, because rich takes
160 ms for one of 300 rows, and this 10.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tinymem.steps.content import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
    from rich.table import Table as RichTable

__all__ = [
    "Column",
    "Line",
    "Shown",
    "Table",
    "count_cells",
    "first_words",
    "pad_to_cells",
    "pluralize",
    "printable",
    "safe",
    "truncate_to_cells",
]  # fmt: skip

Line: TypeAlias = Sequence[tuple[str, str]]  # texts, each with its style (rich's words for it)

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
    kept, used = 0, 1  # for the ellipsis
    while kept < len(text) and (used := used + _cells_of(text[kept])) <= width:
        kept += 1
    return f"{text[:kept]}…" if width > 0 else ""


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


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: The text above it.
        style: Its style, in rich's words.
        right: Align its cells to the right.
        yields: Give room to other columns where rich has too little for all.
    """

    title: str
    style: str = ""
    right: bool = False
    yields: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of texts under titles."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def lines(self) -> list[str]:
        """Return the table as plain text, columns two spaces apart."""
        shown = [[column.title for column in self.columns], *([safe(cell) for cell in row] for row in self.rows)]
        widths = [max(map(count_cells, column)) for column in zip(*shown, strict=True)]
        sides = [column.right for column in self.columns]
        return ["  ".join(map(pad_to_cells, row, widths, sides)).rstrip() for row in shown]

    def rich(self) -> RichTable:
        """Return the table as rich draws it. Cells are `Text`, in which rich reads no markup."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            side: JustifyMethod = "right" if column.right else "left"
            drawn.add_column(column.title, style=column.style, justify=side, no_wrap=not column.yields)
        for row in self.rows:
            drawn.add_row(*(Text(safe(cell), no_wrap=True, overflow="ellipsis") for cell in row))
        return drawn


class Shown:
    """A report: `str` gives its text, and `rich.print` shows it with tables and colours."""

    def blocks(self) -> Iterable[Line | Table]:
        """Return the lines and tables of the report, in order."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def __str__(self) -> str:
        lines: list[str] = []
        for block in self.blocks():
            lines += block.lines() if isinstance(block, Table) else [safe("".join(text for text, _ in block)).rstrip()]
        return "\n".join(lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        for block in self.blocks():
            if isinstance(block, Table):
                yield block.rich()
            else:
                yield Text.assemble(*((safe(text), style) for text, style in block))

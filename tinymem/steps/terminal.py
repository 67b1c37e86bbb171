"""Reports for a terminal, drawn by rich: text that is safe to print, in lines and tables.

Anybody may have written the texts of a memory. Shown here, they cannot send escape sequences, break lines, turn the
reading direction of the text beside them, or be read as rich's markup.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tinymem.steps.content import clean

if TYPE_CHECKING:  # rich is imported where something is shown: importing tinymem shall be quick
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

__all__ = ["Column", "Line", "ShownText", "draw", "first_words", "pluralize", "printable", "safe", "table_of",
           "terminal_width"]  # fmt: skip

Line: TypeAlias = Sequence[tuple[str, str]]  # texts, each with its style (rich's words for it)

NARROW = 80  # columns where there is no terminal
UNBOUNDED = 10_000  # columns of a text that may have any number

# What `clean` leaves: line breaks, and marks that turn the direction of all that follows on the line.
_BREAKS = str.maketrans(dict.fromkeys("\t\n\r\u2028\u2029", " "))
_TURNS = dict.fromkeys([ord("\r"), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")


def safe(text: str) -> str:
    r"""Make `text` one line of the same length, with nothing in it that a terminal would obey.

    >>> safe("a\x1b[31mb\nc")
    'a�[31mb c'
    """
    return printable(text.translate(_BREAKS))


def printable(text: str) -> str:
    r"""Return `text` of the same length, on its lines, with nothing in it that a terminal would obey.

    >>> printable("a\x1b[31mb\n\tc")
    'a�[31mb\n\tc'
    """
    return text if text.isascii() and text.isprintable() else clean(text).translate(_TURNS)


def first_words(text: str, most: int) -> str:
    r"""Return the beginning of `text` in at most `most` cells, words one space apart.

    >>> first_words("  Read  the log\nof May", 12)
    'Read the lo…'
    """
    from rich.cells import cell_len, set_cell_size

    words = safe(" ".join(text.lstrip()[: 8 * most].split()))
    return words if cell_len(words) <= most else f"{set_cell_size(words, most - 1).rstrip()}…"


def pluralize(count: int, what: str) -> str:
    """Name a number of things.

    >>> pluralize(1, "step"), pluralize(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def terminal_width() -> int:
    """Return the columns of the terminal, as COLUMNS says or it says itself; 80 where there is none."""
    return shutil.get_terminal_size((NARROW, 24)).columns


class Column(NamedTuple):
    """A column of a table: its title, its style in rich's words, and what happens where there is too little room.

    Its cells stay as they are then, as numbers do, or they are cut, or their words are wrapped.
    """

    title: str
    style: str = ""
    right: bool = False
    room: Literal["kept", "cut", "wrapped"] = "kept"


def table_of(columns: Sequence[Column], rows: Iterable[Iterable[str]]) -> Table:
    """Return rows of texts as a table of rich, under titles unless all of these are "", columns two spaces apart."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(column.title for column in columns))
    for title, style, right, room in columns:
        table.add_column(title, style=style, justify="right" if right else "left", no_wrap=room == "kept")
    for row in rows:
        cells = zip(columns, map(safe, row), strict=True)
        table.add_row(*(Text(cell, no_wrap=column.room != "wrapped", overflow="ellipsis") for column, cell in cells))
    return table


def draw(blocks: Iterable[Line | Table], width: int | None = None) -> str:
    """Return lines and tables as text, in lines of at most `width` cells."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width or UNBOUNDED, color_system=None, legacy_windows=False)
    with console.capture() as shown:
        for block in blocks:
            console.print(_for_rich(block))
    return "\n".join(line.rstrip() for line in shown.get().splitlines())


def _for_rich(block: Line | Table) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    return block if isinstance(block, Table) else Text.assemble(*((safe(text), style) for text, style in block))


class ShownText:
    """A report: `str` gives its text, and `rich.print` shows it with colours."""

    def blocks(self) -> Iterable[Line | Table]:
        """Return the lines and tables of the report, in order."""
        raise NotImplementedError

    def text(self, width: int | None = None) -> str:
        """Return the report in lines of at most `width` cells; of any number unless given."""
        return draw(self.blocks(), width)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def __str__(self) -> str:
        return self.text()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        return map(_for_rich, self.blocks())

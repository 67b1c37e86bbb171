"""Text for a terminal: what it takes of room, and that nothing in it is obeyed."""

from __future__ import annotations

import io
import sys
import unicodedata
from itertools import chain

import pytest
from hostile import OBEYED
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from strategies import MODERATE, texts

from tinymem.steps.terminal import (
    Column,
    ShownText,
    Table,
    count_cells,
    first_words,
    pad_to_cells,
    safe,
    truncate_to_cells,
    wrap_to_cells,
)


@MODERATE
@given(texts())
def test_safe_text_has_nothing_that_a_terminal_obeys_and_keeps_its_length(text: str) -> None:
    shown = safe(text)
    assert not OBEYED.search(shown)
    assert len(shown) == len(text) and safe(shown) == shown


@pytest.mark.parametrize("character", [chr(code) for code in range(0xA0) if not 32 <= code < 127])
def test_no_control_character_is_left(character: str) -> None:
    assert safe(f"a{character}b") in ("a b", "a\ufffdb")


def test_what_turns_the_reading_direction_is_replaced_but_right_to_left_letters_stay() -> None:
    assert safe("user\u202eresu") == "user\ufffdresu"
    assert safe("שלום 👩‍👩‍👧") == "שלום 👩‍👩‍👧"


def test_no_character_takes_more_cells_than_are_counted() -> None:
    """By rich's tables, which know a newer Unicode than Python may."""
    sample = chain(range(0x3100), range(0x3100, sys.maxunicode + 1, 53))
    known = (chr(code) for code in sample if unicodedata.category(chr(code)) != "Cs")
    assert [hex(ord(character)) for character in known if cell_len(character) > count_cells(character)] == []


@MODERATE
@given(texts(), st.integers(-2, 30))
def test_fitted_text_fits_and_keeps_what_it_can(text: str, width: int) -> None:
    shown = truncate_to_cells(text, width)
    assert count_cells(shown) <= max(0, width)
    if count_cells(text) <= width:
        assert shown == text
    elif width > 0:
        assert shown[-1] == "…" and text.startswith(shown[:-1])
        assert count_cells(shown) >= width - 1  # one cell is left where a wide character does not fit


@MODERATE
@given(texts(), st.integers(0, 30))
def test_padded_text_fills_its_cells(text: str, width: int) -> None:
    for right in (False, True):
        assert count_cells(pad_to_cells(text, width, right)) == max(width, count_cells(text))
    assert pad_to_cells("a", 3, right=True) == "  a"


def test_the_first_words_of_a_huge_text_are_found_at_once() -> None:
    assert first_words(" \n" * 100_000 + "word " * 1_000_000, 9) == "word wor…"
    assert first_words("\x00\ud800", 9) == "\ufffd\ufffd"
    assert first_words(" \t\n", 9) == ""


def test_a_table_stands_in_columns_whatever_is_in_it() -> None:
    table = Table(
        (Column("name"), Column("n", right=True), Column("x")), [("日本", "7", "a\nb"), ("e", "1,234", "\x1b[2J")]
    )
    lines = ["".join(text for text, _ in line).rstrip() for line in table.lines()]
    assert lines == ["name      n  x", "日本      7  a b", "e     1,234  \ufffd[2J"]


class Report(ShownText):
    """A report of one table."""

    def blocks(self) -> list[Table]:
        cells = ("[red]a[/]", "[link=http://x]y[/link]", "+1.25")
        return [Table((Column("name", "bold", room="cut"), Column("what", room="below"), Column("score")), [cells])]


def test_rich_draws_the_table_without_reading_markup_or_links_in_it() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="truecolor")
    console.print(Report())
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "[red]a[/]" in shown and "[link=http://x]y[/link]" in shown
    assert "\x1b]8" not in shown and "\x1b[31m" not in shown


def test_where_there_is_no_room_texts_stand_below_names_are_cut_and_numbers_stay() -> None:
    assert Report().text(24).splitlines() == [
        "name       score",
        "    what",
        "[red]a[/]  +1.25",
        "    [link=http://x]y[/l…",
    ]
    assert Report().text(15).splitlines()[2] == "[red]a[…  +1.25"


@MODERATE
@given(texts(), st.integers(1, 30))
def test_wrapped_text_has_all_its_words_in_lines_that_fit(text: str, width: int) -> None:
    lines = wrap_to_cells(text, width)
    assert all(count_cells(line) <= width for line in lines)
    if all(count_cells(word) <= width for word in text.split(" ")):
        assert " ".join(lines).split() == text.split()

"""Text for a terminal: what it takes of room, and that nothing in it is obeyed."""

from __future__ import annotations

import io

from hostile import OBEYED
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from strategies import MODERATE, texts

from tinymem.steps.terminal import Column, ShownText, draw, first_words, safe, table_of


@MODERATE
@given(texts())
def test_safe_text_has_nothing_that_a_terminal_obeys_and_keeps_its_length(text: str) -> None:
    shown = safe(text)
    assert not OBEYED.search(shown)
    assert len(shown) == len(text) and safe(shown) == shown


def test_what_turns_the_reading_direction_is_replaced_but_right_to_left_letters_stay() -> None:
    assert safe("user\u202eresu") == "user\ufffdresu"
    assert safe("שלום 👩‍👩‍👧") == "שלום 👩‍👩‍👧"


@MODERATE
@given(texts(), st.integers(1, 30))
def test_first_words_fit_and_are_cut_only_where_they_must_be(text: str, width: int) -> None:
    shown = first_words(text, width)
    assert cell_len(shown) <= width and shown.rstrip("…") in safe(" ".join(text.split()))


def test_a_table_stands_in_columns_whatever_is_in_it() -> None:
    table = table_of(
        (Column("name"), Column("n", right=True), Column("x")), [("日本", "7", "a\nb"), ("e", "1,234", "\x1b[2J")]
    )
    assert draw([table]).splitlines() == ["name      n  x", "日本      7  a b", "e     1,234  \ufffd[2J"]


class Report(ShownText):
    """A report of one table."""

    def blocks(self) -> list[Table]:
        cells = ("[red]a[/]", "[link=http://x]y[/link]", "so it is", "+1.25")
        columns = Column("name", "bold", room="cut"), Column("what", room="cut"), Column("why", room="wrapped")
        return [table_of((*columns, Column("score")), [cells])]


def test_rich_draws_the_table_without_reading_markup_or_links_in_it() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="truecolor")
    console.print(Report())
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "[red]a[/]" in shown and "[link=http://x]y[/link]" in shown
    assert "\x1b]8" not in shown and "\x1b[31m" not in shown


def test_where_there_is_no_room_texts_are_cut_or_wrapped_and_numbers_stay() -> None:
    assert Report().text(32).splitlines() == [
        "name     what     why      score",
        "[red]a…  [link=…  so it    +1.25",
        "                  is",
    ]

"""Lines of files as numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tinymem.coding.lines import code_lines

PIECES = ["\n", " ", "\t", "\r", "\x85", "\u2003", "+", "-", "12", "L7", "→", ":", "src/a.py", "return the value", "é"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_a_line_has_the_same_code_whether_or_not_another_has_a_number(text: str) -> None:
    assert code_lines(f"{text}\n:1:") == code_lines(text)

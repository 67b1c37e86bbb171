"""Shortening to slices: verbatim, long enough, with marks whose numbers add up."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from strategies import IMAGE, THOROUGH

from tinymem.steps.types import ActionStep, MessageStep, TaskStep, ToolCall
from tinymem.window.excerpts import HEAD, JOINED, LEAST, LONG, cut_pieces, excerpt, long_texts

MARK = re.compile(r"\n?… \[([0-9]+) characters left out\] …\n?")


@st.composite
def long_text(draw: st.DrawFn) -> str:
    """Numbered lines, so that every slice stands in the text once only."""
    widths = draw(st.lists(st.integers(1, 90), min_size=8, max_size=60))
    return "\n".join(f"{number} " + "abcdefghij" * (width // 10) for number, width in enumerate(widths))


def shown(short: str) -> list[str]:
    return [part for part in re.split(MARK.pattern.replace("(", "(?:"), short) if part]


def left_out(short: str) -> int:
    return sum(map(int, MARK.findall(short)))


@THOROUGH
@given(long_text(), st.data())
def test_an_excerpt_is_verbatim_slices_and_what_is_missing_is_counted(text: str, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(cut_pieces(text)), unique=True))
    short = excerpt(text, chosen)
    assert len(short) <= len(text)
    if short == text:
        return
    assert len(MARK.sub("", short)) + left_out(short) == len(text)
    at = 0
    for number, part in enumerate(shown(short)):
        found = text.index(part, at)
        is_head = number == 0 and found == 0 and len(part) <= HEAD + JOINED
        assert len(part) >= min(LEAST, len(text)) or is_head
        at = found + len(part)
    for start, end in chosen:
        assert text[start:end] in short


@THOROUGH
@given(long_text(), st.data())
def test_what_was_shortened_can_be_shortened_again(text: str, data: st.DataObject) -> None:
    short = excerpt(text, data.draw(st.lists(st.sampled_from(cut_pieces(text)), unique=True)))
    assert all(not MARK.search(short[start:end]) for start, end in cut_pieces(short))
    again = cut_pieces(short)
    shorter = excerpt(short, data.draw(st.lists(st.sampled_from(again), unique=True)) if again else [])
    if shorter != text:
        assert len(MARK.sub("", shorter)) + left_out(shorter) == len(text)
    assert all(part in text for part in shown(shorter))
    assert excerpt(short, again) == short or not shown(short)[1:]


def test_the_first_line_stays_if_it_is_short() -> None:
    rest = "\n".join(f"line {number} of the log" for number in range(100))
    assert excerpt(f"exit code 1\n{rest}", []).startswith("exit code 1\n… [")
    assert excerpt("x" * 900, []) == "… [900 characters left out] …"
    assert excerpt("", []) == "" and excerpt("short", [(0, 5)]) == "short"


def test_only_results_and_messages_are_long_texts() -> None:
    long = "word " * LONG
    calls = [ToolCall("f", {"a": long}, observation=long + "1"), ToolCall("f", observation="short", error=long + "2")]
    assert long_texts(ActionStep(long, calls)) == [long + "1", long + "2"]
    assert long_texts(ActionStep(code=long, observation=long, error="short")) == [long]
    assert long_texts(MessageStep("user", long)) == [long]
    assert long_texts(MessageStep("user", long, pinned=True)) == []
    assert long_texts(TaskStep(long)) == []
    assert long_texts(MessageStep("user", [{"type": "text", "text": long}, IMAGE])) == []

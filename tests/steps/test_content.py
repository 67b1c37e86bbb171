"""Content: texts and parts, shortening, cleaning."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FILE, IMAGE, THOROUGH, texts

from tinymem.errors import StepError
from tinymem.steps.content import (
    as_text,
    check_content,
    clean,
    map_text,
    shorten,
)

MARK = re.compile("\n… \\[(\\d+) characters left out\\] …\n")


@THOROUGH
@given(st.integers(0, 100_100), st.integers(0, 300))
def test_shortened_text_keeps_head_and_tail_and_says_how_much_is_gone(length: int, max_length: int) -> None:
    text = "".join(chr(0x4E00 + i % 5000) for i in range(length))
    short = shorten(text, max_length)
    assert len(short) == min(length, max_length) and shorten(short, max_length) == short
    if found := MARK.search(short):
        head, tail = short[: found.start()], short[found.end() :]
        assert text.startswith(head) and text.endswith(tail)
        assert int(found[1]) == len(text) - len(head) - len(tail)
        assert len(head) >= len(tail) > 0
    else:
        assert text.startswith(short)


@THOROUGH
@given(texts(100))
def test_clean_text_can_be_encoded_and_keeps_its_offsets(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert len(cleaned) == len(text)
    assert clean(cleaned) == cleaned
    assert "\x00" not in cleaned and "\x1b" not in cleaned
    assert all(new in (old, "\ufffd") for old, new in zip(text, cleaned, strict=True))
    assert clean("a\tb\r\nc\n日本") == "a\tb\r\nc\n日本"


def test_parts_without_text_are_named_and_stay() -> None:
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "See"},
        IMAGE,
        FILE,
        {"type": "refusal", "refusal": "No."},
    ]
    assert as_text(content) == "See\n[image_url]\n[file]\nNo."
    assert map_text(content, str.upper) == [{"type": "text", "text": "SEE"}, *content[1:]]


@pytest.mark.parametrize("bad", [7, ["text"]])
def test_what_is_no_content_is_refused_and_named(bad: object) -> None:
    with pytest.raises(StepError, match="here must be a string or a list of content parts"):
        check_content(bad, "here")  # type: ignore[arg-type]

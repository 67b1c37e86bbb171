"""Passages: disjoint, covering, of bounded size, cut where a reader would."""

from __future__ import annotations

import base64
import json
import random
import textwrap
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import said, sentences
from strategies import THOROUGH, steps, texts
from work import grows_linearly

from tinymem.recall.passages import LEAST, MOST, TARGET, WHOLE, cut, encoded, passages_of
from tinymem.steps.content import clean
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep, MessageStep, TaskStep

PIECES = st.sampled_from(
    ["word ", "\n", "\n\n", " \n \t\n ", "A sentence. ", "x" * 90, "日本語。",
     "👩‍👩‍👧", "\x00", "\ud800", "  ", '" ', "?) "]
)  # fmt: skip
LONG = st.one_of(
    st.lists(PIECES, max_size=700).map("".join),
    st.builds(lambda text, times: text * times, texts(50), st.integers(1, 400)),
    st.text(st.characters(), max_size=3_000),
)


@THOROUGH
@given(LONG)
def test_slices_are_disjoint_in_order_bounded_and_cover_the_text(text: str) -> None:
    slices = cut(text)
    assert slices == cut(text)
    sizes = [end - start for start, end in slices]
    if len(text) <= WHOLE:
        assert sizes == [len(text)]
    else:
        assert all(LEAST <= size <= MOST for size in sizes[:-1]) and 0 < sizes[-1] <= MOST
    assert slices[0][0] == 0
    assert slices[-1][1] == len(text)
    assert all(one[1] == other[0] for one, other in pairwise(slices))
    assert "".join(text[start:end] for start, end in slices) == text


def test_a_text_without_spaces_is_cut_where_sentences_end() -> None:
    text = "".join(f"第{at}次测试服务器重启失败，值班的同事查看了日志。" for at in range(60))
    assert all(text[:end].endswith("。") for _, end in cut(text)) and len(cut(text)) > 2
    quoted = text.replace("。", "。」")
    assert all(quoted[:end].endswith("。」") for _, end in cut(quoted))


@pytest.mark.parametrize("length", [0, 1, WHOLE - 1, WHOLE])
def test_a_short_text_is_one_passage(length: int) -> None:
    assert cut("x" * length) == [(0, length)]
    assert cut("x" * (WHOLE + 1)) == [(0, TARGET), (TARGET, WHOLE + 1)]


@pytest.mark.parametrize(
    ("ending", "weaker"),
    [("\n\n", "\n"), ("\n \t\n", "\n"), ("\n", ". "), (". ", " "), ("。 ", " "), ("?) ", " "), (" ", "")],
)
def test_a_cut_is_made_at_the_strongest_boundary_in_reach(ending: str, weaker: str) -> None:
    # The weaker boundary is nearer to the target.
    filler = "x" * 20
    before = filler * 15 + ending
    text = before + filler * 3 + "x" * (TARGET - len(before) - 60) + weaker + filler * 60
    assert cut(text)[0] == (0, len(before))


@pytest.mark.parametrize("line", ["some words on a line of text\n", "x", "\n \t", "a.b. "])
def test_long_texts_are_cut_in_linear_time(line: str) -> None:
    text = line * (300_000 // len(line))
    assert len(cut(text)) <= len(text) / LEAST + 1
    assert grows_linearly(lambda size: cut(text[:size]), len(text))


@THOROUGH
@given(steps())
def test_offsets_are_offsets_into_the_parts_of_the_step(step: Step) -> None:
    parts = step.parts()
    for row in passages_of(step):
        assert row.text == clean(parts[row.part].text)[row.start : row.end]
        assert row.text == clean(parts[row.part].text[row.start : row.end])
        assert row.kind == parts[row.part].kind
        row.text.encode("utf-8")  # safe for any file and any model
        assert "\x00" not in row.text
        assert row.text.strip()
    for index, part in enumerate(parts):
        here = [row for row in passages_of(step) if row.part == index]
        assert all(one.end <= other.start for one, other in pairwise(here))
        text, texts = clean(part.text), [row.text for row in here]
        assert all(text[start:end] in texts or text[start:end].isspace() for start, end in cut(text) if text)


@pytest.mark.parametrize(
    "step", [said(""), said(" \n\t"), MessageStep("assistant", None), TaskStep([]), ActionStep("")]
)
def test_a_step_without_text_has_no_passages(step: Step) -> None:
    assert passages_of(step) == []


def test_base64_is_in_no_passage() -> None:
    words = '{"url": "data:image/png;base64,', '", "controls": [{"name": "Open gate"}]}'
    picture = base64.b64encode(random.Random(1).randbytes(6_000)).decode()
    assert [row.text for row in passages_of(MessageStep("user", picture.join(words)))] == [*words]


RANDOM = random.Random(3)
BASE64 = base64.b64encode(RANDOM.randbytes(1_599)).decode()
HEX = RANDOM.randbytes(150).hex()
PEM = "\n".join(textwrap.wrap(BASE64, 64)) + "\n"
NUMBERED = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(PEM.splitlines(), 3))
ENCODED = {
    "base64": (f'{{"url": "data:image/png;base64,{BASE64}"}}', ["base64: 2,132 characters"]),
    "base64 in lines": (f"-----BEGIN KEY-----\n{PEM}-----END KEY-----", ["base64: 2,165 characters"]),
    "numbered lines": (f"{NUMBERED}    40\t-----END KEY-----", ["base64: 2,396 characters"]),
    "lines in JSON": (json.dumps({"key": f"of May:\n{PEM}"}), ["base64: 2,198 characters"]),
    "hex": (f"It is {HEX}, they said.", ["hex: 300 characters"]),
    "both": (f"{HEX} {BASE64}", ["hex: 300 characters", "base64: 2,132 characters"]),
    "a list of hashes": ("\n".join(RANDOM.randbytes(32).hex() for _ in range(12)), []),
    "a number": ("7" * 300, []),
    "four lines": ("\n".join(PEM.splitlines()[:4]) + "\n\nIt is a key.", []),
    "a path": ("/".join(["Barn", "mill7.py"] * 40), []),
    "words": (" ".join(sentences(20)), []),
}


@pytest.mark.parametrize(("text", "notes"), ENCODED.values(), ids=ENCODED)
def test_what_is_encoded_has_a_note_of_its_kind_and_length(text: str, notes: list[str]) -> None:
    assert [note for _, _, note in encoded(text, 0, len(text))] == notes


def test_the_note_of_a_passage_counts_what_is_encoded_from_there_on() -> None:
    end = f"{PEM}The end."
    assert [*encoded(end, 400, 700)] == [(400, 700, "base64: 1,765 characters")]
    assert [*encoded(end, len(PEM) - 100, len(end))] == [(len(PEM) - 100, len(PEM) - 1, "base64: 99 characters")]
    assert [*encoded(end, len(PEM), len(end))] == []
    assert [*encoded(f"Here: {BASE64}", 0, 6)] == [(6, 6, "base64: 2,132 characters")], "it is in no passage"


def test_what_is_encoded_is_found_in_linear_time() -> None:
    assert grows_linearly(lambda size: [*encoded(PEM * (size // 1_000), 0, 400)], 2_000_000)


def test_what_repeats_itself_in_a_text_is_one_passage() -> None:
    assert len(passages_of(said("a" * 2_000_000))) <= 2
    assert {row.text for row in passages_of(said(("=" * 79 + "\n") * 9_000))} == {("=" * 79 + "\n") * 5}


@pytest.mark.parametrize(
    ("text", "asks"), [("Where is it?", True), ("どこ？ ", True), ("Here.", False), ("? no", False)]
)
def test_a_step_that_ends_in_a_question_asks(text: str, asks: bool) -> None:
    assert {row.asks for row in passages_of(said(text))} == {asks}
    assert {row.asks for row in passages_of(said(" ".join(sentences(200)) + text))} == {asks}

"""Identifiers: what counts as one, how they are kept, and which passage had each first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import LATER, fill, numbered_texts, open_archive, sentences
from strategies import MODERATE, THOROUGH, texts
from work import grows_linearly

from tinymem import HierarchicalMemory
from tinymem.recall.query.identifiers import LONGEST, NAME, NUMBER, Seen, classes, hashes, identifiers, named, read
from tinymem.recall.search import Search
from tinymem.steps.types import ActionStep, MessageStep, Step

EXAMPLES: dict[str, list[str]] = {
    # names with underscores, digits or humps
    "call load_config twice": ["load_config"],
    "the parseArgs helper": ["parseArgs"],
    "class HTTPServer": [],
    "class HttpServer": ["HttpServer"],
    "order ord77a1 of user2": ["ord77a1", "user2"],
    "MAX_TOKENS": ["MAX_TOKENS"],
    "__init__ and _x": [],  # an underscore stands inside, or it is as good as a word
    "größe_max": ["größe_max"],
    "commit 3f2a9c81": ["3f2a9c81"],
    # paths and dotted names, with their parts
    "open src/app.py": ["src/app.py"],
    "/usr/local/lib/load_all.py:12": ["usr/local/lib/load_all.py", "load_all"],
    "os.path.join": ["os.path.join"],
    "https://example.com/v2/users": ["example.com/v2/users"],
    "see README.md.": ["README.md"],
    "git checkout fix-login-2024": ["fix-login-2024"],
    "tests/test_one.py::test_two[a-b]": ["tests/test_one.py", "test_one", "test_two"],
    # words of a language, numbers, and what is too short
    "Nothing to see here, Mr Smith.": [],
    "well-known": [],
    "UPPER CASE": [],
    "2024 3.14159 10/12/2024 3.14159265": [],
    "booked 2025-03-01, at 2025-03-02T10:00": ["2025-03-01", "2025-03-02"],
    "order 54741": ["54741"],
    "ORD-54741, gh-5516 or node-13?": ["ORD-54741", "54741", "gh-5516", "node-13"],
    "10.0.0.7 runs 2.4.1 and v3.0.0-rc1": ["10.0.0.7", "2.4.1", "v3.0.0-rc1"],
    "INV/2025/00317": ["INV/2025/00317", "00317"],
    "550e8400-e29b-41d4": ["550e8400-e29b-41d4", "550e8400", "e29b", "41d4"],
    "a_b x1 aB": [],
    "a.b/c": [],
    "____ _____1": [],
    "": [],
    # beside letters that need no space
    "订单ORD-54741在12号": ["ORD-54741", "54741"],
    "2024年3月5日第3章": [],
    "請看src/app.pyの中": ["src/app.py"],
    "node-13을 다시": ["node-13"],
    "ＯＲＤ－５４７４１が": ["ORD-54741", "54741"],
    # each once, in order
    "b_name a_name b_name": ["b_name", "a_name"],
}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items(), ids=list(EXAMPLES))
def test_what_is_an_identifier(text: str, expected: list[str]) -> None:
    assert identifiers(text) == expected


NAMES_ONE = (
    "ORD-54741", "src/app.py", "cust_a12", "10.0.0.7", "2.4.1", "node-13", "54741", "1234567890", "README.md",
    "a/bcd/ef", "c5f0d7c1",
)  # fmt: skip
NAMES_NONE = (
    "WeChat", "15th", "1980s", "5-kilometer", "artists/bands", "21.01.2024", "2024-01-21", "HttpServer",
    "flaky",
)  # fmt: skip


def test_a_question_asks_for_what_names_one_thing() -> None:
    for name in NAMES_ONE:
        assert named(identifiers(f"What about {name}?"))[0] == read(hashes(identifiers(name.upper())))[0], name
    for name in NAMES_NONE:
        assert not len(named(identifiers(f"What about {name}?"))), name


def test_a_long_number_is_an_id() -> None:
    assert classes(read(hashes(identifiers("12345678, 1234567")))).tolist() == [NAME, NUMBER]
    assert named(identifiers("What of 12345678?")).tolist() == read(hashes(["12345678"])).tolist()


@pytest.mark.parametrize("held", ["ORD50700", "ORD-50700"])
def test_a_label_is_found_in_each_of_its_spellings(memory: HierarchicalMemory, held: str) -> None:
    memory.add_steps([*numbered_texts(sentences(60)), MessageStep("user", f"{held} went out on Monday.")])
    for asked in ("ORD50700", "ord-50700", "ORD_50700", "ORD-50700"):
        found = memory.recall(f"Where is {asked}?", 200)
        assert max(found.items, key=lambda item: item.score).step.step_number == 61 and found.note == ""


@pytest.mark.parametrize(
    ("asked", "note"),
    [
        ("Where is ORD-99999?", "no step has ORD-99999"),
        ("Where are ORD99999 and ORD-50700?", "no step has ORD99999"),
        ("What says /tmp/ORD-50701.txt of ORD-50701, GPT-4 and covid-19?", ""),
    ],
)
def test_a_label_that_no_step_has_is_said_to_be_unknown(memory: HierarchicalMemory, asked: str, note: str) -> None:
    memory.add_steps([MessageStep("user", "ORD-50700 went out."), MessageStep("user", "See /tmp/ORD-50701.txt.")])
    found = memory.recall(asked, 200)
    assert found.note == note
    (search, _) = memory.tools()
    assert (f"({note})" in search(query=asked)) == bool(note)
    assert memory.recall(f"{asked}\none\ntwo\nthree", 200).note == "", "a stretch of a run asks for no label"


def test_what_is_too_long_is_data_and_no_name() -> None:
    assert identifiers("a1" * (LONGEST // 2)) == ["a1" * (LONGEST // 2)]
    assert identifiers("a1" * (LONGEST // 2) + "b") == []
    assert identifiers("load_config " + "a/" * LONGEST + " src/app.py") == ["load_config", "src/app.py"]


CODE = st.lists(
    st.sampled_from(
        ["load", "_", "config", "/", ".", "-", "9", "B", " ", "\n", "é", "日本", "\ud800", "\x00", "(", "ß"]
    ),
    max_size=30,
).map("".join)


@THOROUGH
@given(texts(80) | CODE)
def test_every_identifier_stands_in_the_text_and_comes_once(text: str) -> None:
    found = identifiers(text)
    assert found == identifiers(text)
    assert len(set(found)) == len(found)
    assert all(name in text and 4 <= len(name) <= LONGEST and not name.isspace() for name in found)


@MODERATE
@given(texts(80) | CODE)
def test_what_is_kept_is_read_again(text: str) -> None:
    codes = read(hashes(identifiers(text)))
    assert codes.dtype == np.uint32
    assert len(codes) == len(identifiers(text))
    for name, code in zip(identifiers(text), codes.tolist(), strict=True):
        assert code in read(hashes(identifiers(f"before {name} after"))).tolist(), "whatever stands around it"


ADVERSARIAL = {
    "snakes": "a_" * 50_000,
    "path": "a/" * 50_000,
    "humps": "aB1_" * 25_000,
    "words as long as names may be": ("_" * (LONGEST - 1) + "a ") * 500,
    "paths as long as names may be": ("a" + "/." * 98 + "a ") * 500,
    "slashes between letters": ("a" + "/" * 999) * 100,
}


@pytest.mark.parametrize("text", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_long_and_odd_texts_take_linear_time(text: str) -> None:
    assert grows_linearly(lambda size: identifiers(text[:size]), len(text))


# which passage had each first, and what the agent typed


def test_rows_that_come_later_do_not_count() -> None:
    codes, typed = 4 * np.arange(3, dtype=np.uint32), np.array([True, False, True])
    seen = Seen(500)
    seen.extend(codes, np.array([5, 6, 9]), typed)
    assert seen.typed(codes, 7).tolist() == [True, False, False], "row 9 is still to come"
    assert seen.typed(codes, 10).tolist() == [True, False, True]
    assert seen.introduced(codes, np.array([5, 6, 6])).tolist() == [True, True, False]


# recall


def an_agents_run() -> list[Step]:
    """An early listing introduces the paths; then much is done that has nothing to do with them."""
    listing = "\n".join(f"services/{name}/handle_{name}_v2.py" for name in ("billing", "refund", "ledger", "invoice"))
    steps: list[Step] = [
        MessageStep("user", "Make the refunds of the shop work again, then see to the rest."),
        ActionStep("What is there?", tool_name="ls", tool_args={"path": "services"}, observation=listing),
    ]
    for at in range(80):
        output = "\n".join(f"worker {at + line} is fine, queue is empty, nothing to do" for line in range(12))
        steps.append(ActionStep("See how it is doing.", tool_name="status", tool_args={"n": at}, observation=output))
    return steps


STRETCH = """The workers are fine, all of them.
The queue is empty.
Nothing is to do there.
Back to the refund: open the file that handles it and fix the amount."""


def test_a_stretch_brings_back_the_listing_that_introduced_a_path_before_the_memory_was_opened(tmp_path: Path) -> None:
    steps = an_agents_run()
    first = open_archive(tmp_path)
    fill(first, steps[:2])
    first.queue.embed_pending()
    first.close()
    archive = open_archive(tmp_path)
    fill(archive, steps[2:])
    found = Search(archive).recall(STRETCH, 300, LATER)
    assert "services/refund/handle_refund_v2.py" in found.text
    listing = next(item for item in found.items if item.step.step_number == 2 and "refund" in item.text)
    assert listing.why["introduces"] > 0
    archive.close()

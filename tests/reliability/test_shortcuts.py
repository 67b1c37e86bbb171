"""What is remembered or worked out in a quicker way is what the slow way gives, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import add, entry, said
from strategies import MODERATE, texts

from tinymem import MessageStep
from tinymem.embedders import static
from tinymem.embedders.static import SPACE
from tinymem.messages import TiktokenCounter
from tinymem.messages.tokens import encoding_of
from tinymem.recall.selection import opened
from tinymem.steps.content import encodable
from tinymem.stores.sqlite.journal import SqliteJournal

LINES = st.text(alphabet="ab A\n\r\t/'1é.\u2028\u00a0-#[<", max_size=60)
WORDS = st.text(alphabet=f"abAB \n\t.é{SPACE}12_<s>/名😀", max_size=60)
SAID = [
    "the parser reads parser tables", "a cache of parsers", "loadConfig reads the config", "nothing of note",
    "parser", "config config config", "über naïve Ωμέγα parser", "x " * 300 + "cache",
]  # fmt: skip


@settings(MODERATE)
@given(st.lists(LINES | texts(), max_size=4))
def test_a_text_has_the_tokens_of_its_lines(parts: list[str]) -> None:
    counter, text = TiktokenCounter(), "\n".join(parts)
    expected = len(encoding_of(counter.name).encode_ordinary(text))
    assert [counter.count(text), counter.count(text), TiktokenCounter().count(text)] == [expected] * 3


@settings(MODERATE)
@given(st.lists(WORDS | texts(), min_size=1, max_size=4), st.integers(0, 30))
def test_tokens_are_the_tokenizers(given: list[str], remembered: int) -> None:
    model = static._model()
    marked = [SPACE + encodable(text).replace(" ", SPACE) for text in given]
    expected = [model._tokenizer.encode(text, add_special_tokens=False).ids for text in marked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "REMEMBERED", remembered)
        assert [ids.tolist() for ids in model.encode(marked)] == expected


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    journal = SqliteJournal(tmp_path / "journal.db")
    add(journal, [entry(said(text, number)) for number, text in enumerate(SAID * 5, 1)])
    return journal


def test_scores_follow_what_others_add_and_remove(journal: SqliteJournal, tmp_path: Path) -> None:
    other = SqliteJournal(tmp_path / "journal.db")
    for number in range(50, 60):
        journal.search_text("cache parser")
        if number % 2:
            add(other, [entry(said(f"parser cache number{number}", number))])
        else:
            other.delete({number - 45: [SAID[(number - 46) % len(SAID)]]})
        fresh = SqliteJournal(tmp_path / "journal.db")
        found, expected = journal.search_text("cache parser"), fresh.search_text("cache parser")
        assert [np.asarray(part).tolist() for part in found] == [np.asarray(part).tolist() for part in expected]
        fresh.close()
    other.close()


@pytest.mark.parametrize("remembered", [0, 40, 10**6])
def test_steps_that_are_remembered_are_those_of_the_journal(remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "REMEMBERED", remembered)
    asked: list[int] = []

    def fetch(numbers: Sequence[int]) -> dict[int, MessageStep]:
        asked.extend(numbers)
        return {number: MessageStep("user", f"Step {number} says so.") for number in numbers if number < 9}

    steps = opened.OpenedSteps(TiktokenCounter(), fetch)
    for numbers in ([1, 2], [2, 3, 9], [1, 4, 5], [2], [6, 7, 8], [1, 2, 3]):
        found = steps.of(numbers)
        assert {number: one.step.text for number, one in found.items()} == {
            number: f"Step {number} says so." for number in numbers if number < 9
        }
    assert (len(asked) == 9) == (remembered == 10**6)

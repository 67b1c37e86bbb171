"""What is remembered or worked out in a quicker way is what the slow way gives, to the last bit."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import add, entry, said
from strategies import MODERATE, texts

from tinymem.embedders import static
from tinymem.embedders.static import SPACE
from tinymem.messages import TiktokenCounter, tokens
from tinymem.recall.candidates import products
from tinymem.steps.content import encodable
from tinymem.stores.sqlite import fulltext
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.stores.sqlite.lengths import Lengths

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
    expected = len(counter._encoding.encode_ordinary(text))
    assert [counter.count(text), counter.count(text), TiktokenCounter().count(text)] == [expected] * 3


def test_counts_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_REMEMBERED", 50)
    counter = TiktokenCounter()
    for number in range(100):
        assert counter.count(f"line {number}\nand another") == len(
            counter._encoding.encode_ordinary(f"line {number}\nand another")
        )
        assert sum(map(len, counter._known)) <= 50


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


def by_fts5(journal: SqliteJournal, words: list[str]) -> list[tuple[int, float]]:
    match = " OR ".join(f'"{word}"' for word in words)
    sql = "SELECT rowid, -rank FROM fulltext WHERE fulltext MATCH ? ORDER BY rank, rowid"
    return [(int(id), float(score)) for id, score in journal._read(sql, (match,))]


@pytest.mark.parametrize("words", [["cache"], ["cache", "parser"], ["config", "cache", "parser", "absent"], ["ωμέγα"]])
def test_scores_are_those_of_fts5(journal: SqliteJournal, words: list[str]) -> None:
    ids, scores, *_ = journal.search_text(" ".join(words))
    expected = by_fts5(journal, words)
    assert ids.tolist() == [id for id, _ in expected]
    scale = scores[0] / expected[0][1]
    assert np.allclose(scores, [score * scale for _, score in expected], rtol=1e-6)


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


def test_what_is_remembered_of_terms_follows_what_is_added_here(journal: SqliteJournal, tmp_path: Path) -> None:
    for number in range(50, 60):
        journal.search_text("cache parser")
        with pytest.raises(ZeroDivisionError), journal.together():
            add(journal, [entry(said("cache cache cache parser", number))])
            raise ZeroDivisionError
        add(journal, [entry(said(f"parser cache cache number{number}", number))])
        fresh = SqliteJournal(tmp_path / "journal.db")
        found, expected = (index.search_text("cache parser") for index in (journal, fresh))
        fresh.close()
        assert [np.asarray(part).tolist() for part in found] == [np.asarray(part).tolist() for part in expected]
    assert journal._fulltext._having, "it was brought up to date, not forgotten"


def test_the_rarest_words_are_found_whatever_was_counted_before(journal: SqliteJournal) -> None:
    def rarest(index: fulltext.FullText, terms: int, postings: int, caps: tuple[int, ...]) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fulltext, "MAX_TERMS", terms)
            patch.setattr(fulltext, "MAX_POSTINGS", postings)
            patch.setattr(fulltext, "CAPS", (*caps, postings + 1, 1 << 62))
            return index._rarest(["parser", "config", "cache", "note", "reads", "absent"])[0]

    index = journal._fulltext
    for terms in (1, 2, 3, 48):
        for postings in (1, 8, 20, 1000):
            found = {tuple(rarest(index, terms, postings, caps)) for caps in ((), (1,), (2, 6), (6, 11), (100,))}
            index._forget()
            assert found == {tuple(rarest(index, terms, postings, ()))}


def test_varints_are_read() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE fulltext USING fts5(terms, content='')")
    sizes = [1, 127, 128, 300, 16_383, 16_384, 20_000]
    connection.executemany("INSERT INTO fulltext VALUES (?)", [("x " * size,) for size in sizes])
    connection.commit()
    lengths = Lengths(connection)
    assert not lengths.refresh()
    assert lengths.of(np.arange(1, 8)).tolist() == sizes
    assert (lengths.count, lengths.total) == (len(sizes), sum(sizes))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (40, 1), (32, 33), (1, 2_500), (17, 2_500), (300, 300), (3, 0), (0, 3)])
def test_products_in_pieces_are_those_of_the_whole(n: int, m: int) -> None:
    random = np.random.default_rng(5)
    left, right = random.standard_normal((n, 256)), random.standard_normal((m, 256))
    found = products(left.astype(np.float32), right.astype(np.float32))
    assert found.shape == (n, m)
    assert found.dtype == np.float32
    assert np.allclose(found, left @ right.T, atol=1e-3)

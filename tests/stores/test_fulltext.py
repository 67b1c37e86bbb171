"""BM25 against a reference in plain Python, and which words find which texts."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE, texts

from tinymem.stores.bm25 import MAX_HITS
from tinymem.stores.sqlite.fulltext import SqliteFullText

K1, B = 1.2, 0.75


class Index:
    """A full-text index in memory, and how many passages are in it."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        self.fulltext = SqliteFullText(self.db)
        self.held: dict[int, str] = {}

    def __del__(self) -> None:
        self.db.close()

    def add(self, passages: Mapping[int, str] | Sequence[str]) -> None:
        new = passages if isinstance(passages, Mapping) else dict(enumerate(passages, len(self.held) + 1))
        self.held |= new
        self.fulltext.add(new.items())

    def remove(self, *ids: int) -> None:
        self.fulltext.remove([(id, self.held.pop(id)) for id in ids])

    def scores(self, query: str) -> dict[int, float]:
        """Score by id, best first."""
        ids, scores, *_ = self.fulltext.search(query)
        assert ids.dtype == np.int64 and scores.dtype == np.float32
        assert (np.diff(scores) <= 0).all()
        return dict(zip(ids.tolist(), scores.tolist(), strict=True))


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    yield made
    made.db.close()


def reference(held: Mapping[int, list[str]], query: Sequence[str]) -> dict[int, float]:
    """BM25 of each passage over the sum of the terms' idf, as the module promises."""
    mean = sum(map(len, held.values())) / max(1, len(held))
    frequency = {term: sum(term in text for text in held.values()) for term in dict.fromkeys(query)}
    idf = {t: max(1e-6, math.log((len(held) - n + 0.5) / (n + 0.5))) for t, n in frequency.items() if n}
    found = {}
    for id, text in held.items():
        total = 0.0
        for term, weight in idf.items():
            count = text.count(term)
            total += weight * count * (K1 + 1) / (count + K1 * (1 - B + B * len(text) / mean))
        if total:
            found[id] = total / sum(idf.values())
    return found


PLAIN = [f"w{n}q" for n in range(12)]  # words that stemming leaves alone


@MODERATE
@given(
    st.lists(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=12) | st.just(20 * PLAIN), max_size=14),
    st.lists(st.sampled_from([*PLAIN, "absent"]), max_size=5),
)
def test_scores_are_bm25_over_the_sum_of_idf(held: list[list[str]], query: list[str]) -> None:
    index = Index()
    index.add([" ".join(text) for text in held])
    expected = reference(dict(enumerate(held, 1)), query)
    assert index.scores(" ".join(query)) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    index.db.close()


@pytest.mark.parametrize("query", ["", "THE Of", "'\"*^:-+~{}[]", "absent"])
def test_a_query_without_a_known_word_finds_nothing(index: Index, query: str) -> None:
    assert index.scores(query) == {}
    index.add(["the of and how is it", "text", "!?"])
    assert index.scores(query) == {}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("def loadConfig(path)", "config"),
        ("class HTTPServerError:", "server"),
        ("read the config", "load_config_file"),
        ("src/tinymem/recall/packing.py:42", "recall/packing.py"),
        ("connect", "connections"),
        ("Ärger im Café", "arger cafe"),
        ("résumé", "re\u0301sume\u0301"),
        ("ошибка сети", "ОШИБКА"),
        ("汽车去修理厂", "我的车"),
        ("データベースを止めました", "データベースはどこですか"),
        ("ﾊﾞｯｸｱｯﾌﾟ失敗", "バックアップ"),
        ("서버를 다시 시작해요", "서버가 어디에"),
        ("订单ＯＲＤ－５４７４１寄到了里昂", "ORD-54741"),
        ("it's Ana's", "ana"),
    ],
)
def test_a_text_is_found_by(index: Index, text: str, query: str) -> None:
    index.add(["something else", text, "and another thing"])
    assert 2 in index.scores(query)


CJK_TEXTS = st.text(st.sampled_from("测试服务器監聽端口データベースがㇰーｶﾞ서버시작々𠀀"), min_size=2, max_size=30)


@MODERATE
@given(CJK_TEXTS, st.data())
def test_a_text_without_spaces_is_found_by_any_two_letters_of_it(text: str, data: st.DataObject) -> None:
    index, at = Index(), data.draw(st.integers(0, len(text) - 2))
    index.add(["something else", text])
    assert 2 in index.scores(f"{text[at : at + 2]} ")
    index.db.close()


@pytest.mark.parametrize(("text", "query"), [("universe", "under"), ("cat", "concatenate"), ("loadConfig", "fig")])
def test_a_text_is_not_found_by_a_part_of_a_word(index: Index, text: str, query: str) -> None:
    index.add([text])
    assert index.scores(query) == {}


def test_operators_and_quotes_in_a_query_are_only_words(index: Index) -> None:
    index.add(["near the coast", "a cat", "x"])
    for query in ('cat" OR "x', "NEAR(cat, 2)", "cat AND nothing", "cat NOT cat", "terms: cat", "cat*", "^cat", "-cat"):
        assert 2 in index.scores(query)
    assert index.scores("ca*") == {}


def test_of_some_passages_the_best_are_found_however_many_others_are_better(index: Index) -> None:
    index.add([*["kumquat"] * (MAX_HITS + 50), "kumquat and much else that is said of fruit", "pears"])
    some = np.array([MAX_HITS + 40, MAX_HITS + 51, MAX_HITS + 52])
    ids = index.fulltext.search("kumquat", among=some).ids
    assert ids.tolist() == [MAX_HITS + 40, MAX_HITS + 51]
    assert not len(index.fulltext.search("kumquat", among=some[:0]).ids)


@MODERATE
@given(st.lists(texts(60), max_size=8), texts(60))
def test_any_query_over_any_text_is_answered_in_bounds(held: list[str], query: str) -> None:
    index = Index()
    index.add([text.encode("utf-8", "replace").decode() for text in held])
    assert all(0 < score < 2.2 for score in index.scores(query).values())
    index.db.close()

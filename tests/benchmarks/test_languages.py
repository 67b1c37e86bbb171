"""The benchmark of languages: its data is whole, what is measured is in the table, and the committed table is true."""

from __future__ import annotations

import json

import pytest

from benchmarks.recall import languages

DATA = json.loads(languages.DATA.read_text("utf-8"))


def test_every_language_has_the_same_number_of_facts_among_as_many_turns() -> None:
    assert DATA.keys() == languages.NAMES.keys()
    for language in DATA.values():
        facts = [fact for fact, _ in language["facts"]]
        said = [unit.text for unit in languages.turns(language, 1)]
        assert len(set(facts)) == 20 and len(set(said)) == len(said) == languages.TURNS + 20
        assert set(facts) < set(said) and languages.turns(language, 1) == languages.turns(language, 1)


def test_a_word_within_a_chinese_sentence_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages, "TURNS", 20)
    told = [fact for fact in DATA["zh"]["facts"] if "ORD-54741" in fact[0] or "度假屋" in fact[0]]
    figures = languages.measured({**DATA["zh"], "facts": told}, seeds=(1, 2))
    assert figures.keys() == {"BM25", "cosine", "recall"}
    assert figures["BM25"] == figures["recall"] == [1] * (1 + len(languages.BUDGETS))

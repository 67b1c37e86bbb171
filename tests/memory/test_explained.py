"""explain: what recall ranks, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from memories import START, sentences
from test_report import drawn

from tinymem import HierarchicalMemory, MessageStep
from tinymem.recall import Explanation
from tinymem.recall.fusion import QUESTION, load_weights
from tinymem.recall.relevance import price_of

MEMORY = {"max_tokens": 400}


# -- what came back


def test_it_explains_exactly_what_recall_brings_back(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", text) for text in sentences(80)])
    query, now = " ".join(sentences(80)[17].split()[:4]), START
    explained = memory.explain(query, 120, now=now)
    assert isinstance(explained, Explanation)
    assert explained.recalled == memory.recall(query, 120, now=now)
    assert (explained.query, explained.budget) == (query, 120)
    assert sorted(explained.items, key=lambda item: item.step.step_number or 0) == [*explained.recalled.items]
    assert [item.score for item in explained.items] == sorted((item.score for item in explained.items), reverse=True)
    assert len(explained.items) > 1 and len(explained.next_best) == 5


def test_contributions_and_a_constant_make_up_the_score(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", text) for text in sentences(40)])
    explained = memory.explain("Which word is it?", 200)
    bias = float(load_weights(memory.stats().embedder).bias[QUESTION])
    for item in [*explained.items, *explained.next_best]:
        assert sum(item.why.values()) + bias == pytest.approx(item.score, abs=0.02)
        assert [*item.why.values()] == sorted(item.why.values(), key=lambda value: -abs(value))


def test_the_text_has_number_date_score_tokens_and_the_strongest_features(memory: HierarchicalMemory) -> None:
    memory.add(MessageStep("user", "The staging server is at 10.0.0.7.", timestamp=START + timedelta(days=2)))
    explained = memory.explain("Where is the staging server?")
    (item,) = explained.items
    lines = str(explained).splitlines()
    assert lines[0] == "Where is the staging server?"
    assert lines[1] == f"1 excerpt, {explained.recalled.tokens} of 1,000 tokens"
    assert lines[2].startswith(f"best score {item.score:+.2f}, highest cosine 0.") and lines[2].endswith("known of it")
    assert lines[4].split() == ["step", "date", "score", "relevance", "tokens", "text", "why"]
    why = ", ".join(f"{name} {value:+.2f}" for name, value in [*item.why.items()][:3])
    start = f"#1 2025-03-03 {item.score:+.2f} {item.relevance:.2f} {item.tokens} The staging server is at 10.0.0.7."
    assert " ".join(lines[5].split()) == f"{start} {why}, length {-price_of(len(item.text)):+.2f}"
    assert len(lines) == 6


# -- what is ranked next


def test_as_many_of_the_next_best_follow_as_are_asked_for(memory: HierarchicalMemory) -> None:
    memory.add_steps([MessageStep("user", text) for text in sentences(80)])
    explained = [memory.explain("Which word is it?", 60, next_best=count) for count in (0, 5, 12)]
    assert [len(one.next_best) for one in explained] == [0, 5, 12]
    assert explained[2].next_best[:5] == explained[1].next_best and "ranked next" in str(explained[1])
    assert explained[0].recalled == explained[1].recalled == explained[2].recalled
    assert {item.step for item in explained[2].next_best}.isdisjoint(item.step for item in explained[2].items)


@pytest.mark.parametrize(
    "more", [{"k": 1}, {"min_relevance": 0}, {"as_of": START}, {"order": "relevance"}, {"ids": True}]
)
def test_it_takes_what_recall_takes(memory: HierarchicalMemory, more: dict[str, Any]) -> None:
    memory.add_steps([MessageStep("user", text, timestamp=START) for text in sentences(20)])
    asked = " ".join(sentences(20)[3].split()[:4])
    assert memory.explain(asked, 200, now=START, **more).recalled == memory.recall(asked, 200, now=START, **more)


# -- around it


@pytest.mark.parametrize("query", ["", " \n", "\x00", "\ud800", "[red]x[/]" * 3_000])
def test_any_query_has_an_explanation(memory: HierarchicalMemory, query: str) -> None:
    assert "0 excerpts" in str(memory.explain(query))
    memory.add_steps([MessageStep("user", text) for text in sentences(5)])
    explained = memory.explain(query)
    assert explained.recalled == memory.recall(query)
    assert len(str(explained).splitlines()[0]) <= 150
    assert max(map(len, drawn(explained, 80).splitlines())) <= 80

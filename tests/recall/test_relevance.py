"""Relevance: a chance from 0 to 1, in the order of the scores, that means the same in small memories and large ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import vocabulary
from strategies import MODERATE

from tinymem import HierarchicalMemory
from tinymem.memory.context.fitting import is_own_message
from tinymem.recall.relevance import WORTH, Signals, calibration, gate

SCORES = st.lists(st.floats(-1e6, 1e6, width=32), max_size=30)
CHAT = ("The staging server is at 10.0.0.7.", "Lunch is at noon today.", "Grandmother sings in a choir on Sundays.")


def relevance(*scores: float, is_stretch: bool = False, words: float = 1.0) -> list[float]:
    count = len(scores)
    signals = np.array(scores, np.float32), np.full(count, words, np.float32), np.ones(count, np.bool_)
    found: list[float] = calibration(is_stretch).relevance(*signals, np.zeros(count, np.float32)).tolist()
    return found


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path / "memory", store="exact") as memory:
        for text in CHAT:
            memory.add_message("user", text)
        yield memory


def texts(memory: HierarchicalMemory, query: str, **limits: float) -> list[str]:
    return [item.text for item in memory.recall(query, **limits).items]  # type: ignore[arg-type]


@MODERATE
@given(SCORES, st.booleans())
def test_relevance_is_a_chance_in_the_order_of_the_scores(scores: list[float], is_stretch: bool) -> None:
    found = relevance(*scores, is_stretch=is_stretch)
    assert len(found) == len(scores)
    assert all(math.isfinite(one) and 0 <= one <= 1 for one in found)
    order = np.argsort(np.array(scores, np.float32), kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0).all()


@MODERATE
@given(st.lists(st.floats(-3, 6), min_size=1, max_size=9), st.integers(0, 900))
def test_steps_that_have_nothing_to_do_with_it_change_nothing(scores: list[float], others: int) -> None:
    alone, among = relevance(*scores), relevance(*scores, *[-20.0] * others)[: len(scores)]
    assert among == pytest.approx(alone, abs=1e-3)


def test_rivals_that_fit_as_well_make_it_less_likely() -> None:
    alone, shared = relevance(2.0)[0], relevance(*[2.0] * 10)[0]
    assert 0 < shared < alone < 1


def test_the_rarer_the_words_that_it_shares_the_likelier_is_a_passage() -> None:
    assert relevance(1.0, 0.0, words=0.2)[0] < relevance(1.0, 0.0, words=1.0)[0] < relevance(1.0, 0.0, words=4.0)[0]


def test_each_signal_speaks_for_the_memory_or_against_it() -> None:
    signals = Signals(score=-1.0, cosine=0.4, unseen=0.2, strange=1.0, coverage=0.5, speaker=0.0, passages=500)
    better = Signals(score=1.0, cosine=0.8, unseen=0.0, strange=0.0, coverage=1.0, speaker=1.0, passages=5)
    for name, value in better._asdict().items():
        assert gate("static").odds(signals._replace(**{name: value})) > gate("static").odds(signals), name
    assert gate("openai:any").odds(signals) == gate("other").odds(signals._replace(cosine=0.9))


def test_a_question_about_something_else_brings_little_and_no_block(chat: HierarchicalMemory) -> None:
    for day in range(300):
        chat.add_message(
            "user", f"Day {day}: the {('oven', 'choir', 'server')[day % 3]} works as it should, thank you."
        )
    for question in ("What is the capital of France?", "xqzv", "Which quarterback threw most touchdowns?"):
        found = chat.recall(question)
        assert (found.is_relevant, found.note) == (False, "nothing relevant") and found.tokens <= 120
        context = chat.context(question)
        assert not context.recalled and all(
            is_own_message(one, chat.long_term.key) is False for one in context.messages
        )
        assert "log-odds -" in str(chat.explain(question))
    own = chat.recall("Where is the staging server?")
    assert own.is_relevant and own.note == "" and CHAT[0] in own.text


def test_a_name_that_is_nowhere_speaks_against_what_is_asked(chat: HierarchicalMemory) -> None:
    chat.add_messages([{"role": "user", "content": "My sister Melanie went camping in the hills with her dog."}])
    chat.add_messages([{"role": "user", "content": f"Meeting {day} was about the budget."} for day in range(60)])
    odds = [chat.explain(f"When did my sister {name} go camping?").odds for name in ("Melanie", "Rosalind")]
    assert odds[0] > 0 and odds[0] - odds[1] > 1


def test_a_block_ends_where_nothing_more_is_worth_its_tokens(chat: HierarchicalMemory) -> None:
    things = vocabulary(12)
    for left, right in product(things, things):
        chat.add_message(
            "user", f"Between the {left} of Monday and the {right} that Ida drew nobody saw much difference."
        )
    question = "Where is the staging server?"
    found = chat.recall(question)
    assert CHAT[0] in found.text and found.tokens < 150 and all(item.relevance >= WORTH for item in found)
    assert chat.recall(question, min_relevance=0).tokens > 800
    nothing = chat.recall(question, min_relevance=0.99)
    assert not nothing.items and not nothing.is_relevant and nothing.note.endswith(", not 0.99")


def test_a_rare_identifier_always_comes_back(chat: HierarchicalMemory) -> None:
    for question in ("10.0.0.7", "Which quarterback threw 10.0.0.7 touchdowns?"):
        assert CHAT[0] in texts(chat, question)


def test_an_answer_ends_at_a_fiftieth_of_its_third_best_chance(chat: HierarchicalMemory) -> None:
    for team in "abcd":
        chat.add_message("user", f"The staging database of team {team} has port 543{team}.")
    for ship in ("ship", "ferry", "barge", "yacht"):
        chat.add_message("user", f"The {ship} of Monday has its own port of call, says Ida.")
    for shelf in range(200):
        chat.add_message("user", f"Shelf {shelf} has {shelf * 7} jars of jam, I think.")
    question = "Which port does the staging database have?"
    every = sorted(item.relevance for item in chat.recall(question, 8_000, min_relevance=0))
    shown = sorted(item.relevance for item in chat.recall(question, 8_000))
    assert shown == [relevance for relevance in every if relevance >= every[-3] / 50]
    assert len(shown) < sum(relevance >= WORTH for relevance in every)


def test_the_least_relevance_is_kept_exactly(chat: HierarchicalMemory) -> None:
    question = "Where is the staging server?"
    every = chat.recall(question, min_relevance=0).items
    assert len(every) == 3
    for least in (0.01, 0.1, 0.99):
        assert texts(chat, question, min_relevance=least) == [one.text for one in every if one.relevance >= least]


def test_k_is_the_most_that_comes_back(chat: HierarchicalMemory) -> None:
    question = "Where is the staging server?"
    every = chat.recall(question, min_relevance=0).items
    best = sorted(every, key=lambda item: -item.score)
    for k in (1, 2, 3, 4):
        assert {*texts(chat, question, k=k, min_relevance=0)} == {one.text for one in best[:k]}

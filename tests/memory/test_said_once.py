"""What is said again and again comes back once, with its number, wherever a memory shows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from memories import START

from tinymem import HierarchicalMemory, MessageStep, Step

OKS = ("ok", "ok.", "OK", "Ok!", "okay", "ok, thanks")
ALARM = "The alarm code is 4471."


def chat(texts: Sequence[str], session: str | None = None) -> list[Step]:
    times = (START + timedelta(hours=at) for at in range(len(texts)))
    return [MessageStep("user", text, timestamp=at, session=session) for at, text in zip(times, texts, strict=True)]


def days(count: int = 300) -> list[Step]:
    return chat([f"Day {day}: look at the build." for day in range(1, count + 1)])


@pytest.fixture
def oks() -> list[Step]:
    return chat([*(OKS[at % 6] for at in range(150)), ALARM, *(OKS[at % 6] for at in range(150))])


@pytest.mark.parametrize("budget", [128, 512, 4_096])
def test_agreement_takes_a_line_for_each_wording(tmp_path: Path, oks: list[Step], budget: int) -> None:
    with HierarchicalMemory(tmp_path) as memory:
        memory.add_steps(oks)
        recalled = memory.recall("What is the alarm code?", budget, min_relevance=0)
        assert {(item.text.strip(".!").lower(), item.times) for item in recalled.items} == {
            (ALARM.strip(".").lower(), 1), ("ok", 200), ("okay", 50), ("ok, thanks", 50)
        }  # fmt: skip
        assert recalled.tokens < 100 and f"user: {ALARM}\n" in recalled.text and "(said 200 times)\n" in recalled.text


def test_routine_takes_one_line_and_a_day_that_is_asked_for_its_own(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path) as memory:
        memory.add_steps([*days(), *chat(["The roof leaks above the printer."])])
        routine = memory.recall("What is wrong with the roof?", 512)
        assert len(routine.items) == 2 and "The roof leaks" in routine.text
        assert "look at the build. (said 300 times, with other numbers)" in routine.text
        asked = memory.recall("What about Day 12?", 512).text
        assert "Day 12: look at the build.\n" in asked and "(said 299 times, with other numbers)" in asked


@pytest.mark.parametrize("name", ["ORD-54741", "ord54741"])
def test_an_identifier_that_the_question_names_is_not_lost_among_others_like_it(tmp_path: Path, name: str) -> None:
    with HierarchicalMemory(tmp_path) as memory:
        memory.add_steps(chat([f"Order ORD-{at} went out by mail." for at in range(54_700, 54_800)]))
        found = memory.recall(f"How did {name} go out?", 256, min_relevance=0)
        assert "Order ORD-54741 went out by mail.\n" in found.text
        assert {item.times for item in found.items} == {1, 99}


def test_only_what_may_come_back_is_counted(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path) as memory:
        memory.add_steps([*chat(["ok", "Ok!", "OK."], session="a"), *chat(["ok"] * 5, session="b")])
        assert [item.times for item in memory.recall("Is it ok?", 256).items] == [8]
        assert [item.times for item in memory.recall("Is it ok?", 256, session="a").items] == [3]
        memory.forget(session="b")
        assert [item.times for item in memory.recall("Is it ok?", 256).items] == [3]


def test_an_answer_of_one_word_is_shown_with_the_best_of_its_questions(tmp_path: Path) -> None:
    asked = ["Shall we move the journal to Postgres?", "Yes.", "Shall we order more paper?", "Yes."]
    with HierarchicalMemory(tmp_path) as memory:
        memory.add_steps([MessageStep("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(asked)])
        for question, answer in (("Does the journal move to Postgres?", 2), ("Did we order paper?", 4)):
            found = memory.recall(question, 512, min_relevance=0)
            (yes,) = (item for item in found.items if item.text == "Yes.")
            assert (yes.step.step_number, yes.times) == (answer, 2)


def test_a_context_shows_the_same_once_too(tmp_path: Path, oks: list[Step]) -> None:
    with HierarchicalMemory(tmp_path, max_tokens=400) as memory:
        memory.add_steps(oks)
        context = memory.context("What is the alarm code?", max_tokens=800)
        assert context.tokens <= 800 and ALARM in context.recalled.text
        others = [item for item in context.recalled.items if item.text != ALARM]
        assert len(others) == 3 and all(item.times > 40 for item in others)


def test_a_summary_shows_the_same_once_too(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, max_tokens=200) as memory:
        memory.add_steps(days(90))
        memory.flush()
        summaries = [episode.summary for episode in memory.medium_term]
        assert summaries and all("(said 40 times, with other numbers)" in summary for summary in summaries)
        assert {summary.count("look at the build") for summary in summaries} == {1}

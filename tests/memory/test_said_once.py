"""What is said again and again comes back once, wherever a memory shows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from memories import START

from tinymem import HierarchicalMemory, MessageStep, Step

MEMORY = {"embedder": "static"}
OKS = ("ok", "ok.", "OK", "Ok!", "okay", "ok, thanks")
ALARM = "The alarm code is 4471."


def chat(texts: Sequence[str], session: str | None = None) -> list[Step]:
    times = (START + timedelta(hours=at) for at in range(len(texts)))
    return [MessageStep("user", text, timestamp=at, session=session) for at, text in zip(times, texts, strict=True)]


@pytest.fixture
def oks() -> list[Step]:
    return chat([*(OKS[at % 6] for at in range(150)), ALARM, *(OKS[at % 6] for at in range(150))])


@pytest.mark.parametrize("budget", [128, 4_096])
def test_agreement_takes_a_line_for_each_wording(memory: HierarchicalMemory, oks: list[Step], budget: int) -> None:
    memory.add_steps(oks)
    recalled = memory.recall("What is the alarm code?", budget, min_relevance=0)
    wordings = sorted(item.text.strip(".!").lower() for item in recalled.items)
    assert wordings == ["ok", "ok, thanks", "okay", ALARM.strip(".").lower()]
    assert recalled.tokens < 100 and f"user: {ALARM}\n" in recalled.text


@pytest.mark.parametrize("name", ["ORD-54741", "ord54741"])
def test_an_identifier_that_the_question_names_is_not_lost_among_others_like_it(
    memory: HierarchicalMemory, name: str
) -> None:
    memory.add_steps(chat([f"Order ORD-{at} went out by mail." for at in range(54_700, 54_800)]))
    found = memory.recall(f"How did {name} go out?", 256, min_relevance=0)
    assert "Order ORD-54741 went out by mail.\n" in found.text


def test_an_answer_of_one_word_is_shown_with_the_best_of_its_questions(memory: HierarchicalMemory) -> None:
    asked = ["Shall we move the journal to Postgres?", "Yes.", "Shall we order more paper?", "Yes."]
    memory.add_steps([MessageStep("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(asked)])
    for question, answer in (("Does the journal move to Postgres?", 2), ("Did we order paper?", 4)):
        found = memory.recall(question, 512, min_relevance=0)
        (yes,) = (item for item in found.items if item.text == "Yes.")
        assert yes.step.step_number == answer

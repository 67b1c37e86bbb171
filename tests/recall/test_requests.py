"""Requests that were made before: they answer nothing, and do not hide what does."""

from __future__ import annotations

import pytest

from tinymem import ActionStep, HierarchicalMemory
from tinymem.recall.query.requests import asks_alike, asks_for_another

MODULES = ("alder", "birch", "cedar", "hazel", "maple", "rowan", "spruce", "willow", "aspen", "beech", "larch")
ASKED = "I need the ticket of the failed build of module alder."


def build_of(module: str, at: int, thought: str) -> ActionStep:
    lines = [f"[{line}] CC obj/{module}_{line * at}.o {line * 7 + at} ms" for line in range(12)]
    lines[5] = f"build of module {module} failed: ticket BLD-{9_000 + at}"
    return ActionStep(thought, tool_name="make", tool_args={"target": at}, observation="\n".join(lines))


def test_earlier_requests_in_the_same_words_do_not_hide_the_answer() -> None:
    asked = [f"I need the ticket of the failed build of module {module}." for module in MODULES[1:]]
    steps = [build_of(module, at, "The next module.") for at, module in enumerate(MODULES)]
    steps += [build_of(f"pine{at}", 20 + at, thought) for at, thought in enumerate(asked)]
    with HierarchicalMemory(store="exact") as memory:
        memory.add_steps(steps)
        found = sorted(memory.recall(ASKED, max_tokens=500), key=lambda item: -item.score)
    assert "BLD-9000" in f"{found[0].text} {found[1].text}"
    assert not any(thought in item.text for item in found for thought in asked)


def test_the_words_of_the_question_itself_come_back() -> None:
    with HierarchicalMemory(store="exact") as memory:
        memory.add_steps([build_of("alder", 1, ASKED), build_of("birch", 2, "The next module.")])
        assert ASKED in memory.recall(ASKED, max_tokens=500).text


@pytest.mark.parametrize(
    ("text", "is_alike", "is_for_another"),
    [
        ("I need the ticket of the failed build of module birch!", True, True),
        (ASKED, True, False),
        (ASKED.replace("alder", "7"), True, True),
        ("The ticket of the failed build of module alder is BLD-17.", False, False),
        ("I built module alder, and it failed for want of memory.", False, False),
    ],
)
def test_a_request_is_known_by_its_form(text: str, is_alike: bool, is_for_another: bool) -> None:
    assert asks_alike(text, ASKED) is is_alike
    assert asks_for_another(text, ASKED) is is_for_another


def test_a_short_question_is_known_by_nothing_and_a_number_is_no_other_thing() -> None:
    assert not asks_alike("Which port?", "Which port now?")
    assert not asks_for_another("Step 12: build the next target.", "Step 13: build the next target.")

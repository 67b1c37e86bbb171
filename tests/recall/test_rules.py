"""What counts as a rule of a person, and what it is good for: a task finds one that it shares no word with."""

from __future__ import annotations

from pathlib import Path

import pytest
from memories import LATER, fill, open_archive, said

from tinymem.embedders.static import StaticEmbedder
from tinymem.recall.passages import passages_of
from tinymem.recall.search import Search
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep, MessageStep, TaskStep


@pytest.mark.parametrize(
    "text",
    [
        "Never push on a Friday.",
        "From now on the reports go to Mara.",
        "We decided to keep the old parser.",
        "Decision: one queue for each region.",
        "Correction: the limit is 40 now.",
        "wildcard imports are banned",
        "A job may run at most five hours.",
        "Don't touch the vendored files.",
        "Ab sofort werden Berichte auf Deutsch geschrieben.",
        "Nunca borres los registros.",
        "Désormais, les tests passent avant tout.",
        "Мы решили оставить старый формат.",
        "从现在起用中文回答。",
        "コミットの前に必ずテストする。",
    ],
)
def test_what_holds_beyond_the_moment_is_a_rule(text: str) -> None:
    assert kinds(MessageStep("user", text)) == kinds(TaskStep(text)) == ["rule"]


@pytest.mark.parametrize(
    "text",
    [
        "Do you always do this?",
        "Never mind the log. Why does it fail? It should not.",
        "It always crashes at start, and the second try hangs.",
        "Fix the flaky test in src/queue.py.",
        "The table of users has no index.",
        "Warum ist der Dienst immer langsam?",
        f"Always show me a diff. {'This is what the service looks like today. ' * 9}",
    ],
)
def test_a_question_a_complaint_a_request_and_a_long_text_are_no_rules(text: str) -> None:
    assert "rule" not in kinds(MessageStep("user", text))


def test_what_a_tool_or_the_agent_says_is_no_rule() -> None:
    text = "Never push on a Friday."
    call = ActionStep(text, tool_name="cat", tool_args={"file": text}, observation=text)
    assert "rule" not in kinds(MessageStep("assistant", text), call, MessageStep("tool", text, tool_call_id="1"))


def test_a_task_finds_a_rule_that_it_shares_no_word_with(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, StaticEmbedder())
    names = [f"{verb}_{noun}" for verb in ("delete", "list", "pack") for noun in ("customer", "card", "page", "row")]
    rule = "We agreed that invoices are kept for eleven years."
    fill(archive, [said(rule), *(looked_at(name) for name in names * 4)])
    found = Search(archive).recall("Delete old receipts of customers.", 150, LATER, min_relevance=0)
    archive.close()
    assert rule in [item.text for item in found.items]


def looked_at(name: str) -> Step:
    output = f"def {name}(old): pass"
    return ActionStep(f"Look at {name}.", tool_name="grep", tool_args={"word": name}, observation=output)


def kinds(*steps: Step) -> list[str]:
    return [row.kind for step in steps for row in passages_of(step)]

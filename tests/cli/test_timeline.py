"""A memory's timeline in slices, the parts of a context, and the next best of a recall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memories import START, sentences

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.inspector.timeline import Timeline
from tinymem.cli.inspector.view import View
from tinymem.errors import InputError
from tinymem.memory import Shares
from tinymem.messages.tokens import PER_REPLY


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    """Sixty steps in two sessions by turns; all but the newest have left the window."""
    shares = Shares(episodes=0.1)
    with HierarchicalMemory(
        tmp_path / "memory", embedder="hashing", store="exact", max_tokens=600, shares=shares
    ) as opened:
        opened.add(TaskStep("Count the crates.", timestamp=START))
        sessions = ("even", "odd") * 29
        said = zip(sessions, sentences(58), strict=True)
        opened.add_steps([MessageStep("user", text, session=session, timestamp=START) for session, text in said])
        opened.add(ActionStep("Look.", tool_name="ls", observation="none", session="odd", timestamp=START))
        yield opened


def numbers(timeline: Timeline) -> list[int]:
    return [line.number for line in timeline.lines(timeline.numbers)]


@pytest.mark.parametrize("session", ["odd", "e*"])
def test_filters_leave_what_passes(memory: HierarchicalMemory, session: str) -> None:
    expected = [step.step_number for step in memory.history(session)]
    assert numbers(Timeline(memory, session=session)) == expected
    in_window = {step.step_number for step in memory.steps}
    assert numbers(Timeline(memory, session=session, tier="window")) == [n for n in expected if n in in_window]
    assert numbers(Timeline(memory, session=session, tier="archive")) == [n for n in expected if n not in in_window]
    assert numbers(Timeline(memory, session=session, type="action")) == ([60] if session == "odd" else [])
    with pytest.raises(InputError, match="tier must be one of window, archive"):
        Timeline(memory, tier="episodes")


def test_forgotten_steps_leave_no_hole(memory: HierarchicalMemory) -> None:
    before = Timeline(memory)
    memory.forget([step.id for step in memory.history(limit=20)][3:17:2])
    after = Timeline(memory)
    assert len(after.numbers) == 53
    assert numbers(after) == [step.step_number for step in memory.history()]
    assert [line.number for line in before.lines(before.numbers[:20])] == numbers(after)[
        :13
    ]  # counted before, read after
    assert (after.place(1), after.place(4), after.place(5), after.place(99)) == (0, 3, 3, 53)
    assert [*after.between(3, 7)] == [3, 5, 7]


def test_the_parts_of_a_context_add_up_in_order(memory: HierarchicalMemory) -> None:
    memory.scratchpad.store("port", 8443)
    memory.medium_term.settle()
    context = memory.context(sentences(58)[3], max_tokens=2_000)
    parts = View(memory).context(sentences(58)[3], 2_000)["parts"]
    assert [part["role"] for part in parts] == [message["role"] for message in context.messages]
    assert sum(part["tokens"] for part in parts) + PER_REPLY == context.tokens
    assert [part["stable"] for part in parts] == [True] * context.stable + [False] * (len(parts) - context.stable)
    tiers = dict.fromkeys(part["tier"] for part in parts)
    assert list(tiers) == ["fixed", "episodes", "window", "scratchpad", "recall"]
    fixed = sum(item.tokens for item in context.items if item.tier == "fixed")
    assert sum(part["tokens"] for part in parts if part["tier"] == "fixed") == fixed

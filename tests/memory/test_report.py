"""debug_memory: true numbers, bounded lists, and whatever a memory holds as text."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, OBEYED
from memories import START, open_memory
from rich.cells import cell_len
from rich.console import Console

from tinymem import HierarchicalMemory, MemoryManager, count_tokens, debug_memory
from tinymem.errors import ClosedError, InputError
from tinymem.memory import Shares
from tinymem.steps.types import ActionStep, MessageStep, Step, SystemPromptStep, TaskStep

MEMORY = {"max_tokens": 400, "shares": Shares(episodes=0.1)}


def chatter(count: int, start: int = 0, **more: Any) -> list[Step]:
    return [
        MessageStep("user", f"Remark {i}: lot {i} holds {i * 7} crates.", **more) for i in range(start, start + count)
    ]


def drawn(report: object, width: int = 100, **options: object) -> str:
    """What rich shows of it."""
    console = Console(file=io.StringIO(), width=width, **options)  # type: ignore[arg-type]
    console.print(report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def tables(report: object) -> dict[str, list[str]]:
    """The lines of each table below its titles, by the first title; "" is what stands before the first."""
    head, *blocks = str(report).split("\n\n")
    return {"": head.splitlines(), **{block.split()[0]: block.splitlines()[1:] for block in blocks}}


# -- the numbers


def test_tokens_by_tier_add_up_to_those_of_stats(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Be brief."), TaskStep("Count."), *chatter(60), TaskStep("Count on.")])
    memory.add_steps([MessageStep("user", "The key is 7.", pinned=True), *chatter(20, 60)])
    memory.flush()
    report, stats = debug_memory(memory, steps=1_000), memory.stats()
    fixed, window, archive = report.tiers
    assert [tier.name for tier in report.tiers] == ["fixed", "window", "archive"]
    assert (report.stats, report.steps, report.tokens) == (stats, stats.steps, count_tokens(memory.to_messages()))
    assert (fixed.steps + window.steps, fixed.tokens + window.tokens) == (stats.window_steps, stats.window_tokens)
    assert archive.steps == stats.archived_steps > 0 < window.steps
    assert sum(tier.tokens for tier in report.tiers) == stats.tokens
    for tier in report.tiers:
        listed = [step for step in report.listed if step.tier == tier.name]
        assert (len(listed), sum(step.tokens for step in listed)) == (tier.steps, tier.tokens)
    assert [step.words for step in report.listed if step.tier == "fixed"] == ["Be brief.", "Count on.", "The key is 7."]
    assert report.episode_count == len([*memory.medium_term]) > 0


def test_sessions_and_episodes_have_their_numbers_and_the_newest_are_shown(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Be brief."), *chatter(60, session="may", timestamp=START)])
    memory.add_steps(chatter(30, 60, session="june", timestamp=START + timedelta(days=31)))
    memory.flush()
    report = debug_memory(memory)
    assert sum(session.tokens for session in report.sessions) == memory.stats().tokens
    _, may, june = tables(report)["session"]
    assert may.split()[:4] == ["may", "2025-03-01", "2025-03-01", "60"]
    assert june.split()[:4] == ["june", "2025-04-01", "2025-04-01", "30"]
    assert [episode.steps for episode in report.episodes] == [40, 20], "june is not closed yet"
    assert sum(episode.tokens for episode in report.episodes) == report.sessions[1].tokens
    for day in range(13):
        memory.add_steps(chatter(25, session=f"day {day}"))
    memory.flush()
    found = tables(report := debug_memory(memory))
    assert len(found["session"]) == 11 and found["session"][-1] == "… 6 earlier sessions, not listed"
    assert found["episode"][8:] == [f"… {report.episode_count - 8} earlier episodes, not listed"]


# -- the list


def test_the_newest_are_listed_and_it_is_said_how_many_are_not(memory: HierarchicalMemory) -> None:
    memory.add_steps(chatter(130))
    report = debug_memory(memory)
    assert [step.number for step in report.listed] == [*range(81, 131)]
    assert str(report).endswith("\n… 80 earlier steps, not listed")
    assert "not listed" not in str(debug_memory(memory, steps=130))
    assert str(debug_memory(memory, steps=0)).endswith("\n… 130 earlier steps, not listed")


def test_the_report_names_what_the_memory_is_made_of(memory: HierarchicalMemory) -> None:
    assert str(debug_memory(memory)).startswith("HierarchicalMemory: 0 steps, 3 tokens as sent\n")
    memory.add_steps(chatter(4))
    lines = str(debug_memory(memory)).splitlines()
    facts = ("namespace default", "embedder  hashing:64", "store     exact", f"path      {memory.path}")
    assert {*facts, "waiting   4 steps, not embedded yet"} <= {*lines}
    assert str(debug_memory(MemoryManager())).splitlines()[-1].split() == ["window", "0", "0"]


# -- what it does not do


def test_what_is_no_memory_or_closed_is_refused(memory: HierarchicalMemory) -> None:
    wrongs: list[Any] = [None, "memory", 7, HierarchicalMemory]
    for wrong in wrongs:
        with pytest.raises(InputError, match="must be a HierarchicalMemory or a MemoryManager, not"):
            debug_memory(wrong)
    memory.close()
    with pytest.raises(ClosedError):
        debug_memory(memory)


# -- what may be in it, and rich


def hostile_memory(path: Path) -> HierarchicalMemory:
    memory = open_memory(path, namespace="[bold]x\x1b[2J", max_tokens=400)
    at = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    memory.add(MessageStep("user", HOSTILE, speaker=HOSTILE, session=HOSTILE, timestamp=at))
    memory.add(ActionStep(HOSTILE, tool_name=HOSTILE, tool_args={HOSTILE: HOSTILE}, observation=HOSTILE * 200))
    memory.add_steps(chatter(14))
    return memory


def test_hostile_texts_are_shown_as_text_plain_and_through_rich(tmp_path: Path) -> None:
    with hostile_memory(tmp_path) as memory:
        for report in (debug_memory(memory), memory.explain("[red]")):
            assert not OBEYED.search(str(report).replace("\n", ""))
            shown = drawn(report, 140, force_terminal=True, color_system="truecolor")
            assert "[red]" in str(report) and "[red]" in shown
            assert "\x1b[31m" not in shown and "\x1b]8" not in shown and "\u202e" not in shown
        for width in (1, 7, 39, 80):
            assert max(map(cell_len, debug_memory(memory).text(width).splitlines())) <= width

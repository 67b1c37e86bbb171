"""debug_memory: true numbers, bounded lists, and whatever a memory holds as text."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from hostile import HOSTILE, OBEYED
from hypothesis import given
from memories import START, python, sqlite
from rich.cells import cell_len
from rich.console import Console
from strategies import MODERATE, histories, steps

from tinymem import AdaptiveMemoryManager, HierarchicalMemory, MemoryManager, count_tokens, debug_memory
from tinymem.embedders import HashingEmbedder
from tinymem.errors import ClosedError, InputError
from tinymem.memory import Shares
from tinymem.messages.tokens import PER_REPLY
from tinymem.protocols import Vectors
from tinymem.steps.types import ActionStep, MessageStep, Step, SystemPromptStep, TaskStep, ToolCall
from tinymem.window.strategies import no_pruning, prune_old_observations

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


class Unwilling(HashingEmbedder):
    """An embedder that can be told to refuse."""

    refuses = False

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        assert not self.refuses, "nothing should be embedded now"
        return super().embed_documents(texts)

    embed_queries = embed_documents


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path / "memory", max_tokens=400, shares=Shares(episodes=0.1)) as opened:
        yield opened


def chatter(count: int, start: int = 0, **more: Any) -> list[Step]:
    return [
        MessageStep("user", f"Remark {i}: lot {i} holds {i * 7} crates.", **more) for i in range(start, start + count)
    ]


def holding(*held: Step) -> MemoryManager:
    memory = MemoryManager(prune_strategy=no_pruning(), auto_prune_at=None)
    memory.add_steps(held)
    return memory


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


def test_a_shortened_step_is_told_with_what_all_of_it_has(tmp_path: Path) -> None:
    strategy = prune_old_observations(keep_last_n=1, max_length=100)
    with open_memory(tmp_path, prune_strategy=strategy) as memory:
        whole = memory.add(ActionStep("Look.", tool_name="cat", observation="line of text " * 200))
        memory.add(ActionStep("Look on.", tool_name="cat", observation="short"))
        report = debug_memory(memory)
        assert [step.shortened for step in report.listed] == [True, False] and "shortened" in str(report)
        assert report.listed[0].characters == len(whole.text) > len(memory.steps[0].text)
        assert sum(tier.tokens for tier in report.tiers) == memory.stats().tokens


@MODERATE
@given(histories())
def test_every_step_of_a_window_is_in_one_tier_and_in_the_list(held: list[Step]) -> None:
    memory = holding(*held)
    report = debug_memory(memory, steps=1_000)
    assert [step.number for step in report.listed] == [step.step_number for step in memory]
    assert report.tokens == count_tokens(memory.to_messages())
    assert [step.tokens for step in report.listed] == [count_tokens(step.to_messages()) - PER_REPLY for step in memory]
    assert sum(tier.steps for tier in report.tiers) == len(memory) == len(report.listed)
    assert (report.stats, report.path, report.episodes) == (None, None, ())


def test_an_adaptive_window_is_counted_as_it_counts_itself() -> None:
    memory = AdaptiveMemoryManager(200, "Be brief.", steps=chatter(40))
    report = debug_memory(memory)
    assert report.kind == "AdaptiveMemoryManager" and report.tokens == memory.tokens <= 200


def test_sessions_and_episodes_have_their_numbers_and_the_newest_are_shown(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Be brief."), *chatter(60, session="may", timestamp=START)])
    memory.add_steps(chatter(30, 60, session="june", timestamp=START + timedelta(days=31)))
    memory.flush()
    report = debug_memory(memory)
    assert sum(session.tokens for session in report.sessions) == memory.stats().tokens
    _, may, june = tables(report)["session"]
    assert may.split()[:4] == ["may", "2025-03-01", "2025-03-01", "60"] and may.endswith("  60 message")
    assert june.split()[:4] == ["june", "2025-04-01", "2025-04-01", "30"]
    assert [episode.steps for episode in report.episodes] == [40, 20], "june is not closed yet"
    assert sum(episode.tokens for episode in report.episodes) == report.sessions[1].tokens
    for day in range(13):
        memory.add_steps(chatter(50, session=f"day {day}"))
    memory.flush()
    found = tables(report := debug_memory(memory))
    assert len(found["session"]) == 11 and found["session"][-1] == "… 6 earlier sessions, not listed"
    assert found["episode"][8:] == [f"… {report.episode_count - 8} earlier episodes, not listed"]


# -- the list


def test_who_is_a_speaker_a_role_or_the_tools_that_are_called() -> None:
    calls = [ToolCall("bash"), ToolCall("read"), ToolCall("bash")]
    listed = [
        (MessageStep("user", "Hi", speaker="Ann"), "Ann"),
        (MessageStep("assistant", "Hi"), "assistant"),
        (ActionStep("Look.", calls), "bash, read"),
        (ActionStep("Look.", calls, speaker="Bo"), "Bo: bash, read"),
        (ActionStep("Sum.", code="1 + 1"), "code"),
        (TaskStep("Ship it"), ""),
    ]
    assert [debug_memory(holding(step)).listed[0].who for step, _ in listed] == [who for _, who in listed]


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


def test_nothing_is_embedded_and_little_is_read_of_a_long_memory(tmp_path: Path) -> None:
    embedder, reads, here = Unwilling(16), list[str](), get_ident()

    def note(statement: str) -> None:
        if get_ident() == here:  # the background reads, too
            reads.append(statement)

    with open_memory(tmp_path, embedder=embedder) as memory:
        memory.add_steps(chatter(500, session="yard"))
        memory.flush()
        memory.long_term.indexing.in_background = False  # or it would embed what waits
        memory.add_steps(chatter(40, 500))
        before = memory.stats()
        embedder.refuses = True
        sqlite(memory.long_term.journal).connection.set_trace_callback(note)
        report = debug_memory(memory)
        sqlite(memory.long_term.journal).connection.set_trace_callback(None)
        embedder.refuses = False
        assert memory.stats() == before and before.waiting_steps == 40
    assert report.steps == 540 and len(str(report).splitlines()) < 90
    assert len(reads) < report.steps / 4 and not [sql for sql in reads if not sql.startswith(("SELECT", "PRAGMA"))]


def test_a_window_alone_is_inspected_without_the_archive() -> None:
    program = """
import sys
from tinymem import MemoryManager, debug_memory
memory = MemoryManager("Be brief.")
debug_memory(memory)
heavy = {"chromadb", "tokenizers", "safetensors", "tinymem.archive.archive", "tinymem.memory.hierarchy"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    process = python(program)
    assert "MemoryManager: 1 step" in process.communicate(timeout=600)[0]
    assert process.returncode == 0


def test_what_is_no_memory_or_closed_is_refused(memory: HierarchicalMemory) -> None:
    wrongs: list[Any] = [None, "memory", 7, HierarchicalMemory]
    for wrong in wrongs:
        with pytest.raises(InputError, match="must be a HierarchicalMemory or a MemoryManager, not"):
            debug_memory(wrong)
    memory.close()
    with pytest.raises(ClosedError):
        debug_memory(memory)


# -- what may be in it, and rich


@MODERATE
@given(steps())
def test_any_step_stands_on_a_line_of_its_own_with_nothing_a_terminal_obeys(step: Step) -> None:
    if isinstance(step, MessageStep) and step.role == "tool":
        return  # its call is not there
    report = debug_memory(holding(step.evolve(session=None)))
    assert len(str(report).splitlines()) == 8
    assert not OBEYED.search(str(report).replace("\n", ""))


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


def test_rich_draws_the_same_numbers_in_tables_and_keeps_within_the_console(memory: HierarchicalMemory) -> None:
    memory.add_steps(chatter(70, session="yard"))
    report = debug_memory(memory, steps=5)
    sizes = [[tier.name, f"{tier.steps:,}", f"{tier.tokens:,}"] for tier in report.tiers]
    for width in (60, 80, 120):
        lines = drawn(report, width).splitlines()
        assert max(map(len, lines)) <= width
        shown = [line.split()[:3] for line in lines]
        assert all(size in shown for size in sizes)

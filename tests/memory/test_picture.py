"""draw_memory: bars to scale, lines that fit, and characters that the terminal has."""

from __future__ import annotations

import doctest
import io
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import START
from rich.cells import cell_len
from strategies import MODERATE, histories
from test_inspection import chatter, drawn, holding, hostile_memory, open_memory

import tinymem.memory.inspection.picture
from tinymem import HierarchicalMemory, MemoryManager, Step, SystemPromptStep, TaskStep
from tinymem.errors import InputError
from tinymem.memory import draw_memory
from tinymem.memory.inspection.picture import BAR, LETTERS
from tinymem.steps.serialization import STEP_TYPES
from tinymem.steps.terminal import cells


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path / "memory", namespace="yard", max_tokens=400) as opened:
        yield opened


def sections(picture: object) -> dict[str, list[str]]:
    """The lines of each section, by its title, the scale left out; "" is what stands before the first."""
    found: dict[str, list[str]] = {}
    for block in str(picture).split("\n\n"):
        title, *lines = block.splitlines()
        found[title.partition(" (one")[0]] = lines
    return found


def test_examples() -> None:
    assert doctest.testmod(tinymem.memory.inspection.picture).failed == 0


# -- what it shows


def test_a_picture_shows_tiers_window_sessions_and_episodes_with_their_numbers(memory: HierarchicalMemory) -> None:
    memory.add_steps([SystemPromptStep("Be brief."), *chatter(60, session="may", timestamp=START)])
    memory.add_steps([TaskStep("Count."), *chatter(30, 60, session="june", timestamp=START + timedelta(days=31))])
    memory.flush()
    picture, stats = draw_memory(memory, 100), memory.stats()
    found = sections(picture)
    title = f"HierarchicalMemory yard: 92 steps, {stats.tokens:,} tokens"
    assert str(picture).splitlines()[0] == title
    assert [line.split()[0] for line in found["tiers"]] == ["fixed", "window", "archive"]
    assert sum(tier.tokens for tier in picture.tiers) == stats.tokens == sum(one.tokens for one in picture.sessions)
    assert found["sessions"][1].startswith("2025-03-01 may") and "60 steps: 60M" in found["sessions"][1]
    assert found["sessions"][2].startswith("2025-04-01 june") and "30 steps: 30M" in found["sessions"][2]
    assert [one.steps for one in picture.episodes] == [40, 20], "june is not closed yet"
    assert sum(one.tokens for one in picture.episodes) == picture.sessions[1].tokens
    assert found["window"][-1].endswith("user: Remark 89: lot 89 holds 623 crates.")
    assert str(picture).endswith("S system prompt, T task, M message")


def test_what_is_not_shown_is_counted(memory: HierarchicalMemory) -> None:
    for day in range(13):
        memory.add_steps(chatter(50, session=f"day {day}"))
    memory.flush()
    picture = draw_memory(memory, 100)
    found, stats = sections(picture), memory.stats()
    assert len(picture.window) == len(found["window"]) == stats.window_steps
    assert len(picture.sessions) == 10 and picture.sessions[-1].session == "day 12"
    rest = stats.tokens - sum(one.tokens for one in picture.sessions)
    assert found["sessions"][0] == f"… 3 earlier sessions, {rest:,} tokens"
    assert len(picture.episodes) == 8
    assert found["episodes"][0] == f"… {picture.episode_count - 8} earlier episodes"


def test_the_steps_of_a_long_window_are_counted_too() -> None:
    picture = draw_memory(holding(*chatter(40)), 100)
    rest = picture.tiers[1].tokens - sum(step.tokens for step in picture.window)
    assert sections(picture)["window"][0] == f"… 24 earlier steps, {rest} tokens"
    assert [step.number for step in picture.window] == [*range(24, 40)]


def test_pinned_steps_have_a_mark() -> None:
    text = str(draw_memory(holding(TaskStep("a", pinned=True), TaskStep("b")), 60))
    assert "*T #0" in text and " T #1" in text and text.endswith("T task, * pinned")


def test_every_type_has_a_letter_of_its_own() -> None:
    assert LETTERS.keys() == STEP_TYPES.keys() and len(set(LETTERS.values())) == len(LETTERS)


def test_of_an_empty_memory_there_is_a_picture(memory: HierarchicalMemory) -> None:
    for empty in (memory, MemoryManager()):
        picture = draw_memory(empty, 60)
        assert ": 0 steps, 0 tokens" in str(picture) and [*sections(picture)][1:] == ["tiers"]


@MODERATE
@given(histories(), st.integers(30, 200))
def test_bars_are_to_scale(held: list[Step], width: int) -> None:
    """A bar has a mark for every so many tokens as its section says, the last of them perhaps not full."""
    picture = draw_memory(holding(*held), width)
    mark = BAR
    numbers = {"tiers": [t.tokens for t in picture.tiers], "window": [s.tokens for s in picture.window]}
    for block in str(picture).split("\n\n")[1:]:
        head, *lines = block.splitlines()
        scale = re.search(rf"\(one {mark} is ([\d,]+) tokens?\)$", head)
        title = head.partition(" ")[0]
        if scale is None or title not in numbers:
            continue
        every = int(scale[1].replace(",", ""))
        bars = [re.search(rf"  [\d,]+  ({mark}*)", line) for line in lines if not line.startswith("… ")]
        lengths = [len(bar[1]) for bar in bars if bar]
        if len(lengths) == len(numbers[title]):
            assert lengths == [-(-tokens // every) for tokens in numbers[title]]


# -- the room it takes


@MODERATE
@given(histories(), st.integers(1, 200))
def test_no_line_is_wider_than_asked(held: list[Step], width: int) -> None:
    text = str(draw_memory(holding(*held), width))
    for line in text.splitlines():
        assert cells(line) <= width and cell_len(line) <= width


@pytest.mark.parametrize("width", [1, 7, 20, 39, 80, 300])
def test_hostile_texts_are_within_the_width_plain_and_through_rich(tmp_path: Path, width: int) -> None:
    with hostile_memory(tmp_path) as memory:
        picture = draw_memory(memory, width)
        plain = str(picture).splitlines()
        assert max(map(cell_len, plain)) <= width
        through_rich = drawn(picture, 400).splitlines()
        assert [line.rstrip() for line in through_rich] == plain


def test_on_a_narrower_console_it_is_drawn_anew_instead_of_wrapped() -> None:
    picture = draw_memory(holding(*chatter(9)), 120)
    shown = [line.rstrip() for line in drawn(picture, 50).splitlines()]
    assert max(map(len, shown)) <= 50 and len(shown) == len(str(picture).splitlines())
    assert "one █ is 1 token" in str(picture) and "one █ is 2 tokens" in "\n".join(shown)  # shorter bars


def test_the_width_is_that_of_the_terminal_or_eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "57")
    assert draw_memory(MemoryManager()).width == 57
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.__stdout__", io.StringIO())  # no terminal
    assert draw_memory(MemoryManager()).width == 80


@pytest.mark.parametrize("width", [0, -1, 2.5, True, "80"])
def test_a_width_that_is_none_is_refused(width: object) -> None:
    with pytest.raises(InputError, match="width must be"):
        draw_memory(MemoryManager(), width)  # type: ignore[arg-type]


def test_through_rich_it_has_colours_and_none_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = draw_memory(holding(*chatter(2)), 60)
    coloured = {"force_terminal": True, "color_system": "truecolor"}
    assert "\x1b[36m" in drawn(picture, 60, **coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3\dm", drawn(picture, 60, **coloured))

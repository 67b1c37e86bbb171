"""The scratchpad of a memory: part of every context, kept over a restart. Milestones, and the shares of the parts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from memories import python

from tinymem import FinalAnswerStep, HierarchicalMemory, MessageStep, Step, TaskStep, keep_last_n_steps
from tinymem.errors import InputError
from tinymem.memory import Shares
from tinymem.recall import Excerpt

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")


def talk(count: int, text: str = "Shelf {i} holds {n} bolts.") -> list[Step]:
    return [MessageStep("user", text.format(i=i, n=i * 7)) for i in range(count)]


# the scratchpad


def test_the_scratchpad_is_in_every_context_just_before_what_is_recalled(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(3)) as memory:
        memory.add_steps([TaskStep("Count the bolts."), *talk(40)])
        assert "scratchpad" not in {item.tier for item in memory.context("shelf 3").items}
        memory.scratchpad.store("total", 1_414)
        memory.scratchpad.fail("counting by hand")
        context = memory.context("shelf 3", max_tokens=1_500)
        texts = [str(message["content"]) for message in context.messages]
        at = next(i for i, text in enumerate(texts) if text.startswith("<scratchpad-"))
        assert "- total: 1414" in texts[at] and "counting by hand" in texts[at]
        assert texts[at + 1].startswith("<recalled-") and context.messages[at]["role"] == "user"
        assert [item.tier for item in context.items].count("scratchpad") == 1
        assert memory.add_messages([context.messages[at]]) == [], "it is never taken for something new"


def test_the_scratchpad_survives_a_restart_and_what_cannot_is_named(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.scratchpad.store("ports", {"db": (5432, 5433)})
        memory.scratchpad.store("client", object())
        memory.scratchpad.observe("The database listens on two ports.")
        memory.scratchpad.recall("ports")["web"] = 80  # no update, but the value itself changes
    with open_memory(tmp_path) as memory:
        pad = memory.scratchpad
        assert pad.recall("ports") == {"db": [5432, 5433], "web": 80}
        assert pad.observations == ["The database listens on two ports."] and "not kept over a restart" in pad.recall(
            "client"
        )
        memory.add(TaskStep("Go on."))
        assert "<object, not kept over a restart: " in str(memory.context().messages)
        pad.clear()
    with open_memory(tmp_path) as memory:
        assert not memory.scratchpad


KILLED = """
import os, sys
from tinymem import HierarchicalMemory
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact")
memory.scratchpad.store("answer", 42)
memory.scratchpad.observe("seen")
print("done", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_each_update_of_the_scratchpad_survives_a_killed_process(tmp_path: Path) -> None:
    with python(KILLED, tmp_path) as process:
        assert process.stdout and process.stdout.readline() == "done\n"
        process.wait()
    with open_memory(tmp_path) as memory:
        assert memory.scratchpad.recall("answer") == 42 and memory.scratchpad.observations == ["seen"]


def test_a_memory_that_never_used_its_scratchpad_keeps_none(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.add(TaskStep("Count."))
        memory.context()
    with open_memory(tmp_path) as memory:
        assert memory.long_term.journal.setting("scratchpad") is None


# shares


def test_a_larger_share_shows_more_of_the_scratchpad(tmp_path: Path) -> None:
    def shown(shares: Shares) -> int:
        with open_memory(tmp_path, shares=shares) as memory:
            return sum(i.tokens for i in memory.context(max_tokens=2_000).items if i.tier == "scratchpad")

    with open_memory(tmp_path) as memory:
        memory.add_steps([TaskStep("Count."), *talk(5)])
        for i in range(200):
            memory.scratchpad.observe(f"Observation {i} tells of the bolts on shelf {i}.")
    assert shown(Shares(scratchpad=0)) == 0 < shown(Shares(scratchpad=0.1)) < shown(Shares(scratchpad=0.4)) < 800


# milestones


def item(memory: HierarchicalMemory, number: int) -> Excerpt:
    return next(item for item in memory.recall("How many bolts?", 2_000).items if item.step.step_number == number)


def test_milestones_rank_higher(tmp_path: Path) -> None:
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(1)) as memory:
        memory.add_steps(talk(12))
        given = memory.add(MessageStep("user", "No bolts on shelf z.", metadata={"milestone": True}))
        pinned = memory.add(MessageStep("user", "Bolts are in boxes.", pinned=True))
        answer = memory.add(FinalAnswerStep("There are 462 bolts."))
        for step in (given, pinned, answer):
            assert item(memory, step.step_number or 0).why["milestone"] > 0
        before = item(memory, 5)
        memory.mark(5)
        after = item(memory, 5)
        assert "milestone" not in before.why and after.score == pytest.approx(before.score + after.why["milestone"])
        memory.mark(given.id, False)
        assert "milestone" not in item(memory, given.step_number or 0).why
    with open_memory(tmp_path, prune_strategy=keep_last_n_steps(1)) as memory:
        assert item(memory, 5).why["milestone"] > 0
        with pytest.raises(InputError, match="no step 999"):
            memory.mark(999)

"""Processes that are really killed: whatever `add` returned for is there, once, and is found."""

from __future__ import annotations

import json
import random
import signal
import threading
from pathlib import Path

import pytest
from memories import count_in, printed, python

from tinymem import HierarchicalMemory
from tinymem.messages import problems
from tinymem.protocols import StepRow
from tinymem.steps.serialization import load_step

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")

# Adds until it is killed. Each step is announced before it is added, and acknowledged when `add` has returned.
WRITER = """
import json, sys
import tinymem.archive.indexing.indexing
from tinymem import ActionStep, HierarchicalMemory, MessageStep
path, store, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
def tell(*what):
    sys.stdout.write(json.dumps(what) + "\\n")
    sys.stdout.flush()
tinymem.archive.indexing.indexing.WAITING = 2_000
memory = HierarchicalMemory(path, embedder="hashing:64", store=store, max_tokens=300)
if store == "chroma":
    memory.long_term.index.exact_up_to = 0  # fill it and ask it, however little there is
tell("open", memory.short_term.next_number)
for i in range(first, first + 100_000):
    at = f"event{i:06}"
    steps = [MessageStep("user", f"{at}: pump {i % 50} reached {i % 977} bar.", id=f"u{i:06}")]
    if i % 3 == 0:
        steps.append(ActionStep("Look.", tool_name="look", observation=f"{at}: valve {i % 41} closed.", id=f"a{i:06}"))
    tell("adding", *[step.id for step in steps])
    tell("added", *[(step.id, step.step_number) for step in memory.add_steps(steps)])
    if i % 40 == 39:
        memory.context(f"pump {i % 50}")
    if store == "chroma" and i % 60 == 59:
        memory.flush()  # the Chroma of the process that was killed before may have the files yet
        tell("indexed", i)
"""


def killed_after(seconds: float, folder: Path, store: str, first: int) -> list[list[object]]:
    """What a writer told before it was killed, `seconds` after it had added something."""
    process = python(WRITER, folder, store, first)
    assert process.stdout is not None
    opened = process.stdout.readline()
    assert opened, "the writer could not open the memory"
    lines = [opened, process.stdout.readline(), process.stdout.readline()]
    assert "added" in lines[-1]
    threading.Timer(seconds, process.kill).start()
    lines += process.stdout
    assert process.wait(timeout=600) == -signal.SIGKILL
    process.communicate()
    return [json.loads(line) for line in lines if line.endswith("\n")]


def check(memory: HierarchicalMemory, told: dict[str, int], announced: set[str]) -> None:
    """Everything that was acknowledged is there, once, with its number; and what else is there was announced whole."""
    rows = memory.long_term.journal.rows(limit=1_000_000)
    held = {row.id: row.number for row in rows}
    assert len(held) == len(rows)
    assert {id: held.get(id) for id in told} == told
    assert held.keys() <= announced
    for id in held:  # a transaction is all or nothing
        if id[0] == "a":
            assert f"u{id[1:]}" in held
        elif int(id[1:]) % 3 == 0:
            assert f"a{id[1:]}" in held
    window = [row.number for row in rows if row.window]
    assert [step.step_number for step in memory.short_term.steps] == window
    assert window == list(range(window[0], rows[-1].number + 1)) if window else not rows


def found(memory: HierarchicalMemory, id: str) -> bool:
    """Whether recall brings the step back when it is asked for what only it says, at the moment when it was said.

    (The words of a whole run collide in the 64 dimensions of the embedder; the moment keeps others out.)
    """
    when = memory.get(id).timestamp
    return id in {e.step.id for e in memory.recall(f"event{id[1:]}", 1_500, since=when, until=when).items}


def parts(row: StepRow) -> range:
    """The parts of a step, each of which is one passage here."""
    return range(len(load_step(row.record).parts()))


def crash_again_and_again(folder: Path, store: str, kills: int, longest: float, seed: int) -> None:
    dice = random.Random(seed)
    (folder.parent / "witness").touch()
    told: dict[str, int] = {}
    announced: set[str] = set()
    for kill in range(kills):
        lines = killed_after(dice.uniform(0, longest), folder, store, 1 + 100_000 * kill)
        assert lines[0][0] == "open"
        for kind, *what in lines:
            if kind == "adding":
                announced.update(str(id) for id in what)
            elif kind == "added":
                told.update((id, number) for id, number in what)  # type: ignore[misc, has-type]
        assert (folder.parent / "witness").exists(), "somebody else deleted this test's folder while it ran"
        with HierarchicalMemory(folder, embedder="hashing:64", store=store, max_tokens=300) as memory:
            check(memory, told, announced)
            context = memory.context("pump 7")
            assert context.tokens <= 300 and problems(context.messages) == []
    assert len(told) >= kills
    with HierarchicalMemory(folder, embedder="hashing:64", store=store, max_tokens=300) as memory:
        sample = dice.sample(sorted(told), min(40, len(told)))
        assert [id for id in sample if not found(memory, id)] == []
        passages = memory.long_term.journal.passages(limit=1_000_000)
        expected = [(row.number, at) for row in memory.long_term.journal.rows(limit=1_000_000) for at in parts(row)]
        assert [row[1:3] for row in passages] == expected, "each passage once, in order"
        assert memory.stats().waiting_steps == 0
        if store == "chroma":
            memory.long_term.queue.embed_pending()
            memory.flush()
            assert count_in(memory.long_term) == memory.stats().passages


def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    crash_again_and_again(tmp_path / "memory", "exact", kills=4, longest=0.15, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("store", "kills", "longest"), [("exact", 40, 0.4), ("chroma", 15, 1.5)])
def test_many_kills_lose_nothing(tmp_path: Path, store: str, kills: int, longest: float) -> None:
    crash_again_and_again(tmp_path / "memory", store, kills, longest, seed=3)


ENDING = """
import os, sys
from tinymem import HierarchicalMemory, MessageStep
memory = HierarchicalMemory(sys.argv[1])
memory.add(MessageStep("user", "The ladder is behind the shed."))
if sys.argv[2] == "hard":
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["soft", "hard"])
def test_a_process_that_ends_without_closing_loses_nothing_and_says_nothing(tmp_path: Path, how: str) -> None:
    assert printed(ENDING, tmp_path, how) == ""
    with HierarchicalMemory(tmp_path) as memory:
        assert "behind the shed" in memory.recall("ladder", 100).text

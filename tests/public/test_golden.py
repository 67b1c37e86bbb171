"""What the library gives in some two hundred scenarios is what it gave when they were written down.

A change that means to give something else writes them again, and says why: TINYMEM_WRITE_GOLDEN=1 pytest -k golden

Memories are made from seeds, and calls are those that people make: recalls, contexts, fits, prompts of sessions, and
the command line. A record keeps places in steps, marks, notes and tokens, which must be the same, and scores, which
must be nearly the same: processors differ in their last digits. Two excerpts whose scores are that near may change
places where only one of them fits. The clock stands still, so that no step falls on another day.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from clock import stop_the_clock
from nearly import are_near, is_same_but_for_decimals
from typer.testing import CliRunner

from tinymem import ActionStep, HierarchicalMemory, MessageStep
from tinymem.cli.demo import QUESTIONS, RECORDING
from tinymem.cli.main import app
from tinymem.memory.context.context import Context
from tinymem.recall.results import Excerpt, Recall
from tinymem.runs.readers import read_runs

GOLDEN = Path(__file__).with_name("golden.json")
Records: TypeAlias = Iterator[tuple[str, Any]]
BEGIN = datetime(2025, 3, 3, 9, tzinfo=timezone.utc)
NOW = BEGIN + timedelta(days=40)
BUDGETS = (150, 600)
VARIES = re.compile(r"(?<=recalled-)\d+|\d+ ms")
PEOPLE = ("Ana", "Ben", "Carol")
TOPICS = ("oven", "choir", "server", "garden", "ferry", "invoice", "piano", "lease")
STATES = ("is late", "was moved to hall 7", "costs 120 euros", "works again", "needs a new owner", "starts at noon")
IN_CHAT = (
    "What does the lease cost?", "Who said that the piano works again?", "When does the ferry start?",
    "What did Carol say about the invoice?", "Which code opens the garden gate?", "What happened on 5 March?",
    "Does Ben like the choir?", "What is the capital of France?", "Tell me about Rosalind's wedding.", "hall 7",
)  # fmt: skip
IN_RUN = (
    "Which port does the gateway listen on?", "What did the test of the parser print?", "Why did the build fail?",
    "src/parser.py", "What stands in settings.py now?", "Which ticket is about the flaky test?", "run the tests",
    "How many rows were rejected?",
)  # fmt: skip


def scenarios(folder: Path) -> Records:
    """Yield the name of each scenario and what it gives today; memories are made below `folder`."""
    in_sample = [question for question, _ in QUESTIONS]
    made = {"sample": (_fill_sample, in_sample), "chat": (_fill_chat, IN_CHAT), "run": (_fill_run, IN_RUN)}
    for name, (fill, questions) in made.items():
        with HierarchicalMemory(folder / name, store="exact", max_tokens=2_000) as memory:
            fill(memory)
            memory.flush()
            for scenario, record in _asked(memory, questions):
                yield f"{name}: {scenario}", record
    yield from _of_sessions(folder / "sessions")
    yield from _of_commands(folder / "chat")


def _fill_sample(memory: HierarchicalMemory) -> None:
    for run in read_runs(RECORDING):
        memory.add_steps(run.steps)


def _fill_chat(memory: HierarchicalMemory) -> None:
    dice = random.Random(1)
    for number in range(240):
        text = f"The {dice.choice(TOPICS)} {dice.choice(STATES)}, {dice.choice(PEOPLE)} told me."
        day = BEGIN + timedelta(days=number // 12, minutes=number % 12)
        memory.add(_said(text, number, day, session=f"day{number // 48}", speaker=dice.choice(PEOPLE)))
    later = ("The garden gate opens with code 4417.", "The lease costs 300 euros from now on.")
    for number, text in enumerate(later, 240):
        memory.add(_said(text, number, BEGIN + timedelta(days=21), session="day5", speaker="Ana"))
    memory.correct("said-240", _said("The garden gate opens with code 9902.", 242, BEGIN + timedelta(days=22)))
    memory.mark("said-3")
    memory.forget(speaker="Ben", session="day1")


def _said(text: str, number: int, time: datetime, **more: Any) -> MessageStep:
    return MessageStep("user", text, id=f"said-{number}", timestamp=time, **more)


def _fill_run(memory: HierarchicalMemory) -> None:
    dice = random.Random(2)
    names = ("port", "rows", "limit", "seed")
    lines = [f"{name} = {dice.randrange(1000)}  # of the {dice.choice(TOPICS)}" for name in names]
    memory.add(_said("Make the gateway pass its tests, and never touch the ledger.", 0, BEGIN))
    for number in range(1, 150):
        name, arguments, result = _act(dice, lines)
        known: dict[str, Any] = {"id": f"act-{number}", "timestamp": BEGIN + timedelta(minutes=number)}
        thought = f"Now the {dice.choice(TOPICS)}: {name}."
        memory.add(ActionStep(thought, tool_name=name, tool_args=arguments, observation=result, **known))


def _act(dice: random.Random, lines: list[str]) -> tuple[str, dict[str, Any], str]:
    """Return a tool, its arguments and its result: a read or edit of the file with these `lines`, or a command."""
    kind, path = dice.randrange(3), "/app/settings.py"
    if kind == 0:
        return "Read", {"file_path": path}, "\n".join(lines)
    if kind == 1:
        place = dice.randrange(len(lines))
        old, new = lines[place], re.sub(r"\d+", str(dice.randrange(1000)), lines[place], count=1)
        lines[place] = new
        return "Edit", {"file_path": path, "old_string": old, "new_string": new}, "The file was updated."
    failure = f"1 failed: TK-{dice.randrange(90):04} at row {dice.randrange(9)}\nExit code 1"
    command = f"pytest tests/test_{dice.choice(('parser', 'gateway', 'ledger'))}.py"
    return "Bash", {"command": command}, dice.choice(("4 passed", failure))


def _asked(memory: HierarchicalMemory, questions: Sequence[str]) -> Records:
    """Yield what a memory gives in every way for these questions, and without one."""
    for question in questions:
        yield f"recall {question!r}", recalled(memory.recall(question, now=NOW))
        for budget in BUDGETS:
            found = memory.recall(question, max_tokens=budget, min_relevance=0, now=NOW)
            yield f"recall {question!r}, {budget} tokens", recalled(found)
        explained = memory.explain(question, max_tokens=300, now=NOW, next_best=3)
        others = [place_of(other) for other in explained.next_best]
        yield f"explain {question!r}", {"odds": round(explained.odds, 2), "items": others}
    first = questions[0]
    until = BEGIN + timedelta(days=9)
    limits = {"k": 2, "ids": True, "diversity": 0.0, "tool": "Bash", "until": until, "speaker": "Ana", "type": "action"}
    for name, value in limits.items():
        limit: dict[str, Any] = {name: value}
        yield f"recall with {name}", recalled(memory.recall(first, max_tokens=400, now=NOW, **limit))
    for budget in (900, 2_000):
        yield f"context, {budget} tokens", shown(memory.context(max_tokens=budget, now=NOW))
        yield f"context {first!r}, {budget} tokens", shown(memory.context(first, max_tokens=budget, now=NOW))
        history = [{"role": "user", "content": "Plan the next week."}, {"role": "assistant", "content": "What of it?"},
                   {"role": "user", "content": first}]  # fmt: skip
        fitted = memory.fit(history, session="fit", max_tokens=budget, now=NOW, archive=False)
        yield f"fit, {budget} tokens", shown(fitted)


def _of_sessions(folder: Path) -> Records:
    """Yield the prompts of two sessions that grow in turn, and of a history that is handed over whole."""
    dice = random.Random(3)
    with HierarchicalMemory(folder, store="exact", max_tokens=700) as memory:
        history: list[dict[str, Any]] = []
        for number in range(16):
            session = f"s{number % 2}"
            text = f"{dice.choice(PEOPLE)}: the {dice.choice(TOPICS)} {dice.choice(STATES)}. " * dice.randrange(1, 12)
            time = BEGIN + timedelta(hours=number)
            memory.add(_said(text, number, time, session=session))
            yield f"prompt {number} of {session}", shown(memory.context(session=session, now=time))
            history += [{"role": "user", "content": text}, {"role": "assistant", "content": f"Noted, {number}."}]
            yield f"fit {number} of a history", shown(memory.fit(history, session="whole", max_tokens=900, now=time))


def _of_commands(folder: Path) -> Records:
    """Yield what commands print of a memory."""
    for command in (("recall", "Which code opens the garden gate?"), ("get", "#241")):
        done = CliRunner().invoke(app, [*command, "--path", str(folder)], env={"COLUMNS": "80", "NO_COLOR": "1"})
        printed = VARIES.sub("N", done.output.replace(str(folder), "FOLDER"))
        yield f"tinymem {' '.join(command)}", {"status": done.exit_code, "text": printed}


def place_of(item: Excerpt) -> list[Any]:
    return [item.step.step_number, item.part, item.start, item.end, round(item.score, 3), round(item.relevance, 3)]


def recalled(found: Recall) -> dict[str, Any]:
    """Return what came back: of each excerpt step, part, place, score, relevance and mark."""
    items = [[*place_of(item), item.mark] for item in found.items]
    return {"tokens": found.tokens, "note": found.note, "items": items}


def shown(context: Context) -> dict[str, Any]:
    """Return what a prompt shows: where each message comes from, and what was recalled."""
    entries = [[entry.kind, entry.input, [step.step_number for step in entry.steps]] for entry in context.entries]
    more = {"tokens": context.tokens, "stable": context.stable, "entries": entries}
    return {**more, "recalled": recalled(context.recalled)}


def is_as_it_was(found: dict[str, Any], written: dict[str, Any]) -> bool:
    """Whether a record is what was written down, but for scores that are near and excerpts that changed places."""
    if "recalled" in written:
        if not is_as_it_was(found["recalled"], written["recalled"]):
            return False
        return places(found["recalled"]) != places(written["recalled"]) or all(
            found[name] == written[name] for name in ("tokens", "stable", "entries")
        )
    if "text" in written:
        return found["status"] == written["status"] and is_same_but_for_decimals(found["text"], written["text"])
    if found.get("note") != written.get("note") or not are_near([found.get("odds", 0)], [written.get("odds", 0)]):
        return False
    now, then = places(found), places(written)
    if now.keys() == then.keys() and found.get("tokens") != written.get("tokens"):
        return False
    return have_changed_places(now, then) and all(
        now[place][2:] == then[place][2:] and are_near(now[place][:2], then[place][:2]) for place in now.keys() & then
    )


def places(record: dict[str, Any]) -> dict[tuple[int, ...], list[Any]]:
    """Return score, relevance and mark or reason by the place of what a record lists."""
    return {tuple(item[:4]): item[4:] for item in record["items"]}


def have_changed_places(now: dict[tuple[int, ...], list[Any]], then: dict[tuple[int, ...], list[Any]]) -> bool:
    """Whether each excerpt that only one of both has scores as one that only the other has."""
    new, gone = [now[place] for place in now.keys() - then], [then[place] for place in then.keys() - now]
    pairs = [(one, gone) for one in new] + [(one, new) for one in gone]
    return all(any(are_near(one[:1], other[:1]) for other in others) for one, others in pairs)


def test_every_scenario_gives_what_it_gave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_the_clock(monkeypatch, BEGIN)
    found = json.loads(json.dumps(dict(scenarios(tmp_path))))
    if "TINYMEM_WRITE_GOLDEN" in os.environ:
        lines = [f"{json.dumps(name)}: {json.dumps(record)}" for name, record in found.items()]
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert found.keys() == golden.keys()
    changed = {name: (golden[name], record) for name, record in found.items() if not is_as_it_was(record, golden[name])}
    assert not changed

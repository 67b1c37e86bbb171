"""What sessions share, and what their files hold besides messages: copies, branches, notes, subagents, own tools."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture
from test_transcripts import Line, claude, codex, item, result, text, use, write

from tinymem import HierarchicalMemory
from tinymem.runs.growing import ingest_growing
from tinymem.runs.hooks.answers import Asked
from tinymem.runs.hooks.reader import InFront, Reader
from tinymem.runs.ingest import ingest_files

SECRET = "The key is in vault slot 9."


def opened() -> HierarchicalMemory:
    return HierarchicalMemory(embedder="hashing:64", store="exact")


def said(memory: HierarchicalMemory) -> list[tuple[str | None, str]]:
    return [(step.session, step.text) for step in memory.history()]


def words(text_: str, clock: str, role: str = "user") -> Line:
    return {**item("message", role=role, content=[text(text_)]), "timestamp": f"2026-03-01T12:00:{clock}.000Z"}


def forked(line: Line) -> Line:
    mark = {"sessionId": "s1", "messageUuid": line["uuid"]}
    return {**line, "uuid": f"fork of {line['uuid']}", "sessionId": "s2", "forkedFrom": mark}


OLD = [claude("user", SECRET), claude("assistant", "Noted.")]
MORE = claude("user", "And the pears?", session="s2")
META = codex("session_meta", id="p")
HISTORY = [words(SECRET, "01"), words("Noted.", "02", "assistant")]
LATER = [words(SECRET, "31"), words("Noted.", "32", "assistant"), words("And the pears?", "33")]
SPAWNED = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
COPIES: dict[str, tuple[list[Line], list[Line]]] = {
    "the same ids": (OLD, [*({**line, "sessionId": "s2"} for line in OLD), MORE]),
    "marked as forked": (OLD, [*(forked(line) for line in OLD), MORE]),
    "the same times": ([META, *HISTORY], [codex("session_meta", id="c"), *HISTORY, LATER[2]]),
    "with the parent's meta": ([META, *HISTORY], [codex("session_meta", id="c", forked_from_id="p"), META, *LATER]),
    "a subagent's": ([META, *HISTORY], [codex("session_meta", id="c", source=SPAWNED), *LATER]),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("add", [ingest_growing, lambda memory, file: ingest_files(memory, [file])])
def test_what_a_session_repeats_is_stored_once_in_whatever_order_files_come(
    tmp_path: Path, name: str, add: Any
) -> None:
    files = [write(tmp_path / f"{at}.jsonl", lines) for at, lines in enumerate(COPIES[name])]
    for order in permutations(files):
        with opened() as memory:
            for file in (*order, *order):
                add(memory, file)
            assert sorted(text for _, text in said(memory)) == ["And the pears?", "Noted.", SECRET]


@pytest.mark.parametrize("name", COPIES)
def test_what_a_session_repeats_is_stored_once_where_its_file_is_read_before_it_goes_on(
    tmp_path: Path, name: str
) -> None:
    first, second = COPIES[name]
    with opened() as memory:
        ingest_growing(memory, write(tmp_path / "0.jsonl", first))
        for lines in (second[:-1], second):
            ingest_growing(memory, write(tmp_path / "1.jsonl", lines))
        assert [text for _, text in said(memory)] == [SECRET, "Noted.", "And the pears?"]


def test_files_of_one_name_are_runs_of_their_own_but_a_moved_file_is_the_same_run(tmp_path: Path) -> None:
    system, asked = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which pears?"}
    pears, plums = ({"role": "assistant", "content": f"Those {text}."} for text in ("pears", "plums"))
    folders = {name: [system, asked, pears] for name in ("one", "moved")} | {"other": [system, asked, plums]}
    with opened() as memory:
        for folder in ("one", "other", "moved", "one", "other"):
            (tmp_path / folder).mkdir(exist_ok=True)
            ingest_files(memory, [write(tmp_path / folder / "run.jsonl", folders[folder])])
        kept = [text for session, text in said(memory) if session == "run.jsonl#1"]
        assert kept == ["Be brief.", "Which pears?", "Those pears."]
        (name,) = {session for session, _ in said(memory)} - {"run.jsonl#1"}
        assert str(name).endswith("/run.jsonl#1") and len(said(memory)) == 6


def test_forgetting_a_session_says_which_other_one_holds_what_it_repeats(tinymem: Run, tmp_path: Path) -> None:
    first, second = (write(tmp_path / f"{at}.jsonl", lines) for at, lines in enumerate(COPIES["the same ids"]))
    tinymem("ingest", str(first), str(second), "--embedder", "hashing:64", "--path", "m")
    done = tinymem("forget", "--session", "s2", "--yes", "--path", "m")
    assert "Forgot 1 step. What s2 repeats of s1 stays there, and goes with `--session s1`." in done.out
    assert "Forgot 2 steps.\n" in tinymem("forget", "--session", "s1", "--yes", "--path", "m").out
    again = tinymem("ingest", str(second), "--path", "m").out
    assert "Added 0 steps" in again


def lines_of(*given: tuple[str, str | None, str, Any]) -> list[Line]:
    return [claude(kind, content, uuid=uuid, parentUuid=parent) for uuid, parent, kind, content in given]


ASKED = ("u1", None, "user", "Count both barns.")
CALLS = [("a1", "u1", "assistant", [use("t1")]), ("a2", "a1", "assistant", [use("t2")])]
SHAPES: dict[str, list[Line]] = {
    "results beside calls": lines_of(
        ASKED, *CALLS, ("r1", "a1", "user", [result("t1", "14")]), ("r2", "a2", "user", [result("t2", "9")]),
        ("a3", "r2", "assistant", "Counted."),
    ),
    "a parent that was lost": lines_of(
        ASKED, *CALLS, ("r1", "gone", "user", [result("t1", "14")]), ("r2", "r1", "user", [result("t2", "9")]),
        ("a3", "r2", "assistant", "Counted."),
    ),
    "a parent that names none": [
        {key: value for key, value in lines_of(ASKED)[0].items() if key != "parentUuid"},
        *lines_of(*CALLS, ("r1", "a1", "user", [result("t1", "14")]), ("r2", "a2", "user", [result("t2", "9")]),
                  ("a3", "r2", "assistant", "Counted.")),
    ],
    "compacted": [
        *lines_of(ASKED, *CALLS, ("r1", "a1", "user", [result("t1", "14")]), ("r2", "a2", "user", [result("t2", "9")])),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "sessionId": "s1"},
        *lines_of(("a3", "b", "assistant", "Counted.")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_what_stands_beside_in_one_answer_is_no_branch(tmp_path: Path, shape: str) -> None:
    with opened() as memory:
        (done,) = ingest_files(memory, [write(tmp_path / "s1.jsonl", SHAPES[shape])])
        seen = {call.id: call.observation for step in memory.history() for call in getattr(step, "tool_calls", ())}
        texts = [text for _, text in said(memory)]
    assert "message of another branch" not in done.left_out
    assert {id: str(seen[id]).count(count) for id, count in (("t1", "14"), ("t2", "9"))} == {"t1": 1, "t2": 1}
    assert texts[0] == "Count both barns." and texts[-1] == "Counted."


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("<ide_opened_file>a.py</ide_opened_file>Rename it.", ["Rename it."]),
        (
            'See:\n<pasted_content id="9e">\n<skill>Sow.</skill>\n</pasted_content id="9e">\nWhy?',
            ["See:\n<skill>Sow.</skill>\n\nWhy?"],
        ),
        ("<teammate-message from='b'>The gate is shut.</teammate-message>", ["The gate is shut."]),
        (
            "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nRename it.",
            ["Rename it."],
        ),
        ("Another language model started to solve this problem and produced a summary of it: ...", []),
        ("<command-message>harvest</command-message>\n<command-name>/harvest</command-name>", ["/harvest"]),
        ("<command-name>/compact</command-name>\n<command-args>keep the ports</command-args>", []),
        ("/compact keep the ports", []),
        ("/compact keep the ports\nand count the gates", ["/compact keep the ports\nand count the gates"]),
        ("Look at <my-tag>this</my-tag>.", ["Look at <my-tag>this</my-tag>."]),
    ],
)
def test_only_what_a_person_typed_is_the_users(tmp_path: Path, given: str, kept: list[str]) -> None:
    lines = [claude("user", given), claude("assistant", "Yes.")]
    items = [codex("session_meta", id="c"), words(given, "01"), words("Yes.", "02", "assistant")]
    for at, file in enumerate((lines, items)):
        with opened() as memory:
            ingest_files(memory, [write(tmp_path / f"{at}.jsonl", file)])
            assert [text for _, text in said(memory)] == [*kept, "Yes."]


def test_what_a_subagent_reports_is_its_own_word_and_its_file_a_session_of_its_own(tmp_path: Path) -> None:
    note = "<task-notification>\n<task-id>a7</task-id>\n<result>Eight gates.</result>\n</task-notification>"
    lines = [claude("user", "Count the gates."), claude("user", note), claude("assistant", "Eight.")]
    inner = [
        claude(kind, words, isSidechain=True, agentId="a7")
        for kind, words in (("user", "Go."), ("assistant", "Eight gates."))
    ]
    (tmp_path / "s1" / "subagents").mkdir(parents=True)
    with opened() as memory:
        write(tmp_path / "s1.jsonl", lines)
        write(tmp_path / "s1" / "subagents" / "agent-a7.jsonl", inner)
        outcomes = ingest_files(memory, [tmp_path])
        roles = [(step.session, getattr(step, "role", "user"), step.speaker, step.text) for step in memory.history()]
    assert sorted(done.steps for done in outcomes) == [1, 3]  # the report once
    assert ("s1", "assistant", "subagent", "Eight gates.") in roles
    assert {session for session, *_ in roles} == {"s1", "s1/a7"}


RULE = "Never push to the shared barn."
ASKS: dict[str, list[Line]] = {
    "Claude Code's": [claude("user", RULE, isSidechain=True, agentId="a7"), claude("assistant", [use("t1")])],
    "of another session": [claude("user", RULE, origin={"kind": "peer"})],
    "in a queue": [{"type": "attachment", "uuid": "q", "sessionId": "s1", "attachment": {
        "type": "queued_command", "prompt": RULE, "commandMode": "prompt", "origin": {"kind": "coordinator"}}}],
    "Codex's": [codex("session_meta", id="c", source=SPAWNED), words(RULE, "01"), words("Yes.", "02", "assistant")],
    "Gemini's": [{"sessionId": "g", "projectHash": "p", "parentSessionId": "f", "startTime": "x"},
                 {"id": "1", "type": "user", "content": RULE}],
}  # fmt: skip


@pytest.mark.parametrize("name", ASKS)
def test_what_a_model_asks_a_subagent_is_no_rule_of_a_person(tmp_path: Path, name: str) -> None:
    own = "Always close the gate."
    file = write(tmp_path / "s2.jsonl", ASKS[name])
    with opened() as memory:
        ingest_growing(memory, write(tmp_path / "s1.jsonl", [claude("user", own, session="s0")]))
        for _ in range(2):
            ingest_growing(memory, file)
        (asked,) = [step for step in memory.history() if step.text == RULE]
        greeted = Reader(memory).greeting(Asked("session-start", {"source": "startup"}, ""), InFront())
        assert own in greeted and RULE not in greeted
        assert (getattr(asked, "role", None), ingest_files(memory, [file])[0].steps) == ("assistant", 0)


def test_calls_of_the_memorys_own_tools_and_their_results_are_left_out(tmp_path: Path) -> None:
    search = {**use("t2"), "name": "ToolSearch", "input": {"query": "select:mcp__tinymem__recall"}}
    own = {**use("t1"), "name": "mcp__plugin_tinymem_tinymem__recall"}
    other = {**use("t3"), "name": "ToolSearch", "input": {"query": "weather"}}
    lines = [
        claude("user", "Which port?"),
        claude("assistant", [own, other]),
        claude("assistant", [search]),
        claude("user", [result("t1", "from the memory"), result("t2", "schema"), result("t3", "rain")]),
        claude("assistant", "8443."),
    ]
    file = tmp_path / "s1.jsonl"
    with opened() as memory:
        for count in range(1, 6):
            ingest_growing(memory, write(file, lines[:count]))
        shown = json.dumps([step.to_messages() for step in memory.history()])
    assert "from the memory" not in shown and "schema" not in shown and "rain" in shown and "8443." in shown

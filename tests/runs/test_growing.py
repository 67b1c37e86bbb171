"""Session files that grow: each is read on from its place, and what is added is what one reading of all would add."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from commands import tinymem as tinymem  # the fixture
from hypothesis import given, settings
from hypothesis import strategies as st
from test_transcripts import CLAUDE, CODEX, claude, result, use, write

from tinymem import HierarchicalMemory
from tinymem.runs import growing
from tinymem.runs.growing import WatchedFolder, ingest_growing
from tinymem.runs.ingest import ingest_files

Line = dict[str, Any]


def opened(path: Path | None = None) -> HierarchicalMemory:
    return HierarchicalMemory(path, embedder="hashing:64", store="exact")


def settings_of(memory: HierarchicalMemory, file: Path) -> dict[str, Any]:
    """The place that the memory keeps of a file."""
    kept: dict[str, Any] = json.loads(memory.long_term.journal.setting(growing._key(file)) or "{}")
    return kept


def messages_of(memory: HierarchicalMemory) -> list[str]:
    """What each session said, message by message, however its messages are gathered in steps."""
    said: list[str] = []
    for step in memory.history():
        said += [f"{step.session} {json.dumps(one, sort_keys=True)}" for one in step.to_messages(style="tools")]
    return sorted(said)


def test_a_file_is_read_from_its_last_prompt_on(tmp_path: Path) -> None:
    file = write(tmp_path / "s1.jsonl", CLAUDE)
    with opened() as memory:
        assert (ingest_growing(memory, file).steps, ingest_growing(memory, file).known) == (4, 0)
        begin = len(json.dumps(CLAUDE[0])) + 1  # of the prompt's line
        assert (settings_of(memory, file)["offset"], settings_of(memory, file)["end"]) == (begin, file.stat().st_size)
        with file.open("a") as more:
            more.write(json.dumps(claude("user", "Thanks.")) + "\n")
        done = ingest_growing(memory, file)
        assert (done.steps, done.known) == (1, 0)


def test_a_result_is_added_to_a_call_that_was_read_before(tmp_path: Path) -> None:
    for lines in (CLAUDE, CODEX):
        file, whole = tmp_path / "s1.jsonl", opened()
        with opened() as memory, whole:
            for end in range(1, len(lines) + 1):
                assert ingest_growing(memory, write(file, lines[:end])).error is None
            ingest_files(whole, [file])
            assert messages_of(memory) == messages_of(whole)


@pytest.mark.parametrize("change", ["shorter", "another", "the end of it", "gone"])
def test_a_file_that_is_not_what_it_was_is_read_whole(tmp_path: Path, change: str) -> None:
    file = write(tmp_path / "s1.jsonl", CLAUDE)
    with opened() as memory:
        ingest_growing(memory, file)
        if change == "gone":
            memory.long_term.journal.keep({growing._key(file): ""})
        edited = [*CLAUDE[:-1], claude("assistant", [{"type": "text", "text": "One port is free. "}], id="m2")]
        lines = {
            "shorter": CLAUDE[:5],
            "another": [claude("user", "Hello.", session="s9") for _ in range(40)],
            "gone": CLAUDE,
        }
        before = memory.stats().steps
        done = ingest_growing(memory, write(file, lines.get(change, edited)))
        assert done.known == {"shorter": 3, "another": 0, "the end of it": 3, "gone": 4}[change]
        assert (
            memory.stats().steps - before == done.steps == {"shorter": 0, "gone": 0, "the end of it": 1}.get(change, 40)
        )


def test_a_damaged_line_is_passed_and_said_once_however_the_file_grows(tmp_path: Path) -> None:
    file, watched = tmp_path / "s1.jsonl", WatchedFolder(tmp_path)
    (tmp_path / "bad.jsonl").write_text("{}\n", "utf-8")
    lines = [json.dumps(line) for line in CLAUDE]
    found = []
    with opened() as memory:
        for _ in range(3):
            lines.append(json.dumps(claude("user", "Go on.")))
            file.write_text("\n".join([*lines[:9], "{damaged", "\0" * 99, *lines[9:]]) + "\n", "utf-8")
            found += [(done.error, {*done.left_out}) for done in watched.changes(memory)]
        assert memory.stats().steps == 7
    (error, _), (_, damaged), *others = found
    assert (
        "bad.jsonl" in str(error)
        and damaged >= {"damaged line 10", "damaged line 11"}
        and others == [(None, set())] * 2
    )


def linked(lines: list[tuple[str, str, str]], session: str = "s1") -> list[Line]:
    """Lines given as id, parent and what is said; an id that begins with a is the assistant's."""
    return [
        claude("assistant" if uuid[0] == "a" else "user", said, session=session, uuid=uuid, parentUuid=parent or None)
        for uuid, parent, said in lines
    ]


TOLD = [("u1", "", "Which port?"), ("a1", "u1", "Port 4100."), ("u2", "a1", "Paint it teal."), ("a2", "u2", "It is.")]
BACK = [("u3", "a1", "Paint it ochre."), ("a3", "u3", "Ochre it is.")]
SAME = [("u3", "a1", "Paint it teal."), ("a3", "u3", "It is.")]
FIRST = [("u0", "", "Which gate?"), ("a0", "u0", "The third.")]


@pytest.mark.parametrize(
    ("back", "shown"),
    [(BACK, ["Which port?", "Port 4100."]), (SAME, ["Which port?", "Port 4100."]), (FIRST, [])],
    ids=["to a prompt", "to the same words", "to the first"],
)
def test_what_is_said_after_going_back_follows_what_was_added_before(
    tmp_path: Path, back: list[tuple[str, str, str]], shown: list[str]
) -> None:
    file, later = tmp_path / "s1.jsonl", [("u9", back[-1][0], "Thanks.")]
    said = [text for _, _, text in [*back, *later]]
    with opened() as memory, opened() as whole:
        for count in (4, 5, 6, 7):
            ingest_growing(memory, write(file, linked([*TOLD, *back, *later][:count])))
        assert [step.text for step in memory.history("s1")] == [*(text for _, _, text in TOLD), *said]
        assert ingest_files(whole, [file])[0].left_out == {"message of another branch": 4 - len(shown)}
        assert [step.text for step in whole.history()] == [*shown, *said]


def test_prompts_that_were_typed_while_the_agent_worked_come_once_however_the_file_grows(tmp_path: Path) -> None:
    queue: Line = {"type": "queue-operation", "sessionId": "s1", "timestamp": "2026-03-01T12:00:01.000Z"}
    typed = {"type": "queued_command", "prompt": "Not the mill.", "commandMode": "prompt"}
    lines: list[Line] = [
        claude("user", "Go."),
        {**queue, "operation": "enqueue"},
        {**queue, "operation": "dequeue"},
        {**queue, "operation": "enqueue", "content": "Not the mill."},
        {**queue, "operation": "enqueue", "content": "Nor the barn."},
        {**queue, "operation": "remove", "content": "Not the mill."},
        {"type": "attachment", "uuid": "q1", "sessionId": "s1", "attachment": typed},
        {**queue, "operation": "dequeue"},
        claude("assistant", "I leave both."),
    ]
    file = tmp_path / "s1.jsonl"
    with opened() as memory:
        for count in range(1, len(lines) + 1):
            ingest_growing(memory, write(file, lines[:count]))
        fork = [{**line, "sessionId": "s2"} for line in lines]  # as --fork-session copies them
        ingest_growing(memory, write(tmp_path / "s2.jsonl", fork))
        roles = [(getattr(step, "role", "user"), step.text) for step in memory.history()]
    assert roles == [
        ("user", "Go."),
        ("user", "Not the mill."),
        ("user", "Nor the barn."),
        ("assistant", "I leave both."),
    ]


SAYS = st.sampled_from(["yes", "go on", "the port is 8443", "no"])
WHERE = st.sampled_from([{"session": "s1"}, {"session": "s2"}, {"isSidechain": True, "agentId": "a7"}])
KINDS = st.sampled_from(["user", "assistant", "call", "result", "other"])
READINGS = st.lists(  # lines that are written before a reading; then the bytes of a line begun, and what a crash undoes
    st.tuples(
        st.lists(st.tuples(KINDS, SAYS, WHERE), max_size=6),
        st.integers(0, 40),
        st.sampled_from(["", "", "place", "begin again"]),
    ),
    min_size=1,
    max_size=8,
)


def lines_of(
    written: list[tuple[str, str, dict[str, Any]]], at: int, calls: list[tuple[str, dict[str, Any]]]
) -> list[Line]:
    lines: list[Line] = []
    for kind, text, where in written:
        name = f"t{at}-{len(lines)}"
        if kind == "call":
            calls.append((name, where))
            lines.append(claude("assistant", [use(name)], **where))
        elif kind == "result" and calls:
            name, where = calls.pop(0)
            lines.append(claude("user", [result(name, f"{text} of {name}")], **where))
        elif kind == "other":
            lines.append({"type": "system", "sessionId": "s1"})
        else:
            lines.append(claude("user" if kind == "result" else kind, text, **where))
    return lines


@settings(max_examples=20)
@given(READINGS)
def test_nothing_is_lost_or_doubled_wherever_a_reading_ends(readings: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, lines = Path(folder) / "s1.jsonl", CLAUDE[:2]
        calls: list[tuple[str, dict[str, Any]]] = []
        with opened() as memory, opened() as whole:
            for at, (written, begun, crash) in enumerate(readings):
                lines = [*lines, *lines_of(written, at, calls)]
                next_line = json.dumps(claude("user", "This line is being written, and it waits."))
                write(file, lines)
                with file.open("a") as more:
                    more.write(next_line[:begun])
                kept = memory.long_term.journal.setting(growing._key(file)) or ""
                assert ingest_growing(memory, file).error is None
                if crash:  # before the place was kept: what was added is there, and the place is the one before
                    memory.long_term.journal.keep({growing._key(file): kept if crash == "place" else ""})
            write(file, lines)
            ingest_growing(memory, file)
            ingest_files(whole, [file])
            assert messages_of(memory) == messages_of(whole)
            assert ingest_files(memory, [file])[0].steps == 0

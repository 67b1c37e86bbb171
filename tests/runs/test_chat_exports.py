"""Exports of chats and records of agents, in small files of the documented formats: sessions, times and speakers."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import tinymem as tinymem  # the fixture

from tinymem import ActionStep, HierarchicalMemory
from tinymem.errors import InputError
from tinymem.messages import steps_from_messages
from tinymem.runs import Run, read_runs
from tinymem.runs.atif import read_trajectory, trajectories
from tinymem.runs.ingest import ingest_files

WHEN = 1_767_225_600  # 2026-01-01


def node(id: str, parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    message = {"id": id, "author": {"role": role}, "create_time": WHEN + int(id), "recipient": "all",
               "content": {"content_type": "text", "parts": [text]}, "metadata": {}, **more}  # fmt: skip
    return {"id": id, "parent": parent, "children": [], "message": message}


CHATGPT = {
    "title": "Ports", "conversation_id": "c-1", "create_time": WHEN, "current_node": "6",
    "mapping": {
        "0": {"id": "0", "parent": None, "children": ["1"], "message": None},
        "1": node("1", "0", "user", "Which port is open?"),
        "2": node("2", "1", "assistant", "I guess 80."),  # a branch that was left
        "3": node("3", "1", "assistant", "scan('h')", recipient="python"),
        "4": node("4", "3", "tool", "port 8443 is open"),
        "5": node("5", "4", "assistant", "", content={"content_type": "thoughts", "thoughts": []}),
        "6": node("6", "5", "assistant", "It is 8443."),
    },
}  # fmt: skip
CLAUDE = {
    "uuid": "c-2", "name": "Ports", "created_at": "2026-01-01T00:00:00Z",
    "chat_messages": [
        {"uuid": "m1", "sender": "human", "created_at": "2026-01-01T00:00:01.000000Z", "text": "Which port is open?",
         "content": [{"type": "text", "text": "Which port is open?"}],
         "attachments": [{"file_name": "hosts.txt", "extracted_content": "h 10.0.0.7"}],
         "files": [{"file_name": "x.png"}]},
        {"uuid": "m2", "sender": "assistant", "created_at": "2026-01-01T00:00:02.000000Z", "text": "It is 8443.",
         "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Looking."},
                     {"type": "tool_use", "id": "t1", "name": "scan", "input": {"host": "h"}},
                     {"type": "tool_result", "content": [{"type": "text", "text": "port 8443 is open"}]},
                     {"type": "text", "text": "It is 8443."}]},
    ],
}  # fmt: skip
GEMINI: dict[str, Any] = {
    "sessionId": "s-3", "projectHash": "ab", "startTime": "2026-01-01T00:00:00.000Z",
    "messages": [
        {"id": "1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "user",
         "content": [{"text": "Which port is open?"}]},
        {"id": "2", "timestamp": "2026-01-01T00:00:02.000Z", "type": "gemini", "content": "Looking.", "thoughts": [],
         "toolCalls": [{"id": "t1", "name": "scan", "args": {"host": "h"}, "status": "success", "result": [
             {"functionResponse": {"id": "t1", "name": "scan", "response": {"output": "port 8443 is open"}}}]}]},
        {"id": "3", "timestamp": "2026-01-01T00:00:03.000Z", "type": "info", "content": "Request cancelled."},
        {"id": "4", "timestamp": "2026-01-01T00:00:04.000Z", "type": "gemini", "content": "It is 8443."},
    ],
}  # fmt: skip
ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.6", "session_id": "s-4", "agent": {"name": "terminus", "version": "1"},
    "steps": [
        {"step_id": 1, "timestamp": "2026-01-01T00:00:01Z", "source": "user",
         "message": [{"type": "text", "text": "Which port is open?"}]},
        {"step_id": 2, "timestamp": "2026-01-01T00:00:02Z", "source": "agent", "message": "Looking.",
         "reasoning_content": "Hm.",
         "tool_calls": [{"tool_call_id": "t1", "function_name": "scan", "arguments": {"host": "h"}}],
         "observation": {"results": [{"source_call_id": "t1", "content": "port 8443 is open"}]},
         "metrics": {"prompt_tokens": 9}},
        {"step_id": 3, "source": "agent", "message": "It is 8443."},
    ],
    "subagent_trajectories": [
        {"schema_version": "ATIF-v1.6", "session_id": "sub", "agent": {"name": "a", "version": "1"},
         "steps": [{"step_id": 1, "source": "user", "message": "Count."}]},
    ],
}  # fmt: skip
USERS = [{"id": "U1", "name": "ann", "profile": {"display_name": "Ann"}}, {"id": "U2", "real_name": "Bob Lee"}]
DAYS = {
    "2026-01-02.json": [{"type": "message", "user": "U2", "text": "8443, <@U1>.", "ts": f"{WHEN + 86_400}.000200"}],
    "2026-01-01.json": [
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "joined", "ts": f"{WHEN}.000100"},
        {"type": "message", "user": "U1", "text": "Which port is open?", "ts": f"{WHEN + 1}.000100"},
    ],
}


def file_of(folder: Path, value: Any) -> Path:
    (path := folder / "export.json").write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def gemini_log(folder: Path) -> Path:
    """The same session in the form of newer versions: a call comes again with its result, and one goes back."""
    asked, call, info, answer = GEMINI["messages"]
    context = {"id": "0", "type": "user", "content": [{"text": "<session_context>Linux</session_context>"}]}
    wrong = {"id": "9", "type": "user", "content": "Forget it."}
    lines = [
        {key: value for key, value in GEMINI.items() if key != "messages"}, {"$set": {"messages": [context]}}, asked,
        {"$set": {"lastUpdated": "2026-01-01T00:00:01.000Z"}}, {**call, "toolCalls": []}, call, info, wrong,
        {"$rewindTo": "9"}, answer,
    ]  # fmt: skip
    (path := folder / "session.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def cursor_of(folder: Path) -> Path:
    rows = {
        "composerData:c-5": {"fullConversationHeadersOnly": [{"bubbleId": id} for id in "abcd"]},
        "bubbleId:c-5:a": {"type": 1, "text": "Which port is open?", "createdAt": "2026-01-01T00:00:01.000Z"},
        "bubbleId:c-5:b": {"type": 2, "text": "", "createdAt": 1000 * WHEN, "toolFormerData": {
            "toolCallId": "t1", "name": "scan", "rawArgs": '{"host": "h"}', "result": "port 8443 is open"}},
        "bubbleId:c-5:c": {"type": 2, "text": ""},
        "bubbleId:c-5:d": {"type": 2, "text": "It is 8443."},
    }  # fmt: skip
    with closing(sqlite3.connect(path := folder / "state.vscdb")) as database, database:
        database.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        database.executemany(
            "INSERT INTO cursorDiskKV VALUES (?, ?)", [(key, json.dumps(v)) for key, v in rows.items()]
        )
    return path


AGENTS: dict[str, tuple[Callable[[Path], Path], str, dict[str, int]]] = {
    "chatgpt": (lambda folder: file_of(folder, [CHATGPT]), "chatgpt/c-1",
                {"message of another branch": 1, "thoughts": 1}),
    "claude": (lambda folder: file_of(folder, [CLAUDE]), "claude.ai/c-2", {"thinking": 1, "file without its text": 1}),
    "gemini": (lambda folder: file_of(folder, GEMINI), "s-3", {"info": 1}),
    "gemini-log": (gemini_log, "s-3", {"info": 1, "note": 1, "message that was gone back on": 1}),
    "cursor": (cursor_of, "cursor/c-5", {"message without a text": 1}),
    "atif": (lambda folder: file_of(folder, ATIF), "s-4", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", AGENTS)
def test_a_conversation_comes_with_calls_times_and_what_was_left_out(name: str, tmp_path: Path) -> None:
    write, session, skipped = AGENTS[name]
    run, *_ = read_runs(write(tmp_path))
    asked, call, answer = run.steps
    assert (run.name, {step.session for step in run.steps}, dict(run.skipped)) == (session, {session}, skipped)
    assert asked.text.startswith("Which port is open?") and answer.text == "It is 8443."
    assert isinstance(call, ActionStep) and "port 8443 is open" in call.text
    assert asked.timestamp.isoformat() == "2026-01-01T00:00:01+00:00"


def slack_folder(folder: Path) -> Path:
    (folder / "general").mkdir(parents=True)
    (folder / "users.json").write_text(json.dumps(USERS), encoding="utf-8")
    for name, said in DAYS.items():
        (folder / "general" / name).write_text(json.dumps(said), encoding="utf-8")
    return folder


def zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w") as archive:
        for file in folder.rglob("*.json"):
            archive.write(file, file.relative_to(folder))
    return folder.with_suffix(".zip")


@pytest.mark.parametrize("pack", [Path, zipped])
def test_a_channel_of_slack_has_its_speakers_by_name(pack: Callable[[Path], Path], tmp_path: Path) -> None:
    (run,) = read_runs(pack(slack_folder(tmp_path / "slack")))
    assert [(step.speaker, step.text) for step in run.steps] == [
        ("Ann", "Which port is open?"),
        ("Bob Lee", "8443, @Ann."),
    ]
    assert (run.name, run.skipped) == ("slack/general", {"channel_join": 1})
    assert [step.timestamp.day for step in run.steps] == [1, 2]


def test_an_archive_of_chats_is_read_as_it_comes_and_twice_is_once(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "conversations.json").write_text(json.dumps([CHATGPT, CLAUDE]), encoding="utf-8")
    export = zipped(tmp_path / "out")
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:16", store="exact") as memory:
        found = [ingest_files(memory, [export])[0] for _ in range(2)]
        sessions = {step.session for step in memory.history()}
    assert [(one.runs, one.steps, one.known) for one in found] == [(2, 6, 0), (2, 0, 6)]
    assert sessions == {"chatgpt/c-1", "claude.ai/c-2"}


def test_subagents_of_a_trajectory_are_runs_of_their_own(tmp_path: Path) -> None:
    assert [run.name for run in read_runs(file_of(tmp_path, ATIF))] == ["s-4", "s-4/sub"]


def test_a_trajectory_that_is_written_says_what_it_said_when_read() -> None:
    ((session, messages), _) = read_trajectory(ATIF)
    steps = steps_from_messages([{k: v for k, v in m.items() if k != "timestamp"} for m in messages], session=session)
    (written,) = trajectories(steps)
    names = ("source", "message", "reasoning_content", "tool_calls", "observation")
    expected = [{name: step[name] for name in names if name in step} for step in ATIF["steps"]]
    expected[0]["message"] = "Which port is open?"
    assert [{name: step[name] for name in names if name in step} for step in written["steps"]] == expected
    assert (written["session_id"], [step["step_id"] for step in written["steps"]]) == ("s-4", [1, 2, 3])


def test_the_command_exports_trajectories_that_it_reads_again(tinymem: Any, tmp_path: Path) -> None:
    tinymem("ingest", str(file_of(tmp_path, ATIF)), "--path", str(tmp_path / "one"))
    out = tinymem("export", "--format", "atif", "--path", str(tmp_path / "one")).out
    assert [json.loads(line)["session_id"] for line in out.splitlines()] == ["s-4", "s-4/sub"]
    (tmp_path / "again.jsonl").write_text(out, encoding="utf-8")
    again: list[Run] = [*read_runs(tmp_path / "again.jsonl")]
    assert [step.text for run in again for step in run.steps] == [
        step.text for run in read_runs(tmp_path / "export.json") for step in run.steps
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.zip", b"PK\x03\x04 broken", "not a text file|not UTF-8|not valid JSON"),
        ("state.vscdb", b"SQLite format 3\0 broken", "no state.vscdb of Cursor"),
        ("folder/users.json", b"[", "not valid JSON"),
        ("folder/a.json", b"[]", "no export that is known"),
        ("folder/conversations.json", b'[{"x": 1}]', "has no conversations"),
    ],
)
def test_what_is_no_export_is_an_error_in_words(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (file := tmp_path / name).parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        list(read_runs(file.parent if name.startswith("folder") else file))

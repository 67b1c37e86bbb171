"""Exports of chats and records of agents, in small files of the documented formats: sessions, times and speakers."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_exports import CHATGPT, CLAUDE, DAYS, GEMINI, OPENCODE, USERS, file_of, gemini_log, node
from commands import tinymem as tinymem  # the fixture

from tinymem import ActionStep, HierarchicalMemory
from tinymem.errors import InputError
from tinymem.runs import read_runs
from tinymem.runs.ingest import ingest_files
from tinymem.steps.types import is_undated

AGENTS: dict[str, tuple[Callable[[Path], Path], str, dict[str, int]]] = {
    "chatgpt": (lambda folder: file_of(folder, [CHATGPT]), "chatgpt/c-1",
                {"message of another branch": 1, "thinking": 1}),
    "claude": (lambda folder: file_of(folder, [CLAUDE]), "claude.ai/c-2", {"thinking": 1, "file without its text": 1}),
    "gemini": (lambda folder: file_of(folder, GEMINI), "s-3", {"info": 1}),
    "gemini-log": (gemini_log, "s-3", {"info": 1, "note": 1, "message of another branch": 1}),
    "opencode": (lambda folder: file_of(folder, OPENCODE), "ses_4",
                 {"note": 2, "step-start": 1, "step-finish": 1, "compaction": 1, "summary": 1,
                  "call of the memory's own tools": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", AGENTS)
def test_a_conversation_comes_with_calls_times_and_what_was_left_out(name: str, tmp_path: Path) -> None:
    write, session, skipped = AGENTS[name]
    run, *_ = read_runs(write(tmp_path), left_out=(left_out := Counter[str]()))
    asked, call, answer = run.steps
    assert (run.name, {step.session for step in run.steps}, left_out) == (session, {session}, skipped)
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
    (run,) = read_runs(pack(slack_folder(tmp_path / "slack")), left_out=(left_out := Counter[str]()))
    assert [(step.speaker, step.text) for step in run.steps] == [
        ("Ann", "Which port is open?"),
        ("Bob Lee", "8443, @Ann."),
    ]
    assert (run.name, left_out) == ("slack/general", {"channel_join": 1})
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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.zip", b"PK\x03\x04 broken", "not valid JSON"),
        ("state.vscdb", b"SQLite format 3\0 broken", "not valid JSON"),
        ("folder/users.json", b"[", "no export that is known"),
        ("folder/a.json", b"[]", "no export that is known"),
        ("folder/conversations.json", b'[{"x": 1}]', "has no conversations"),
    ],
)
def test_what_is_no_export_is_an_error_in_words(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (file := tmp_path / name).parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        list(read_runs(file.parent if name.startswith("folder") else file))


# -- calls and branches


def called(text: str, id: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {"place": text}}


def parallel_chatgpt(folder: Path) -> Path:
    """Two calls, then their results the other way round, and a second result of the first."""
    tools = [("2", "assistant", "east", "fields.look"), ("3", "assistant", "west", "barn.look")]
    nodes = {"1": node("1", None, "user", "Look around.")}
    nodes |= {id: node(id, str(int(id) - 1), role, text, recipient=tool) for id, role, text, tool in tools}
    for id, tool, text in (("4", "barn", "west-7"), ("5", "fields", "east-3"), ("6", "fields", "east-4")):
        author = {"role": "tool", "name": tool}
        nodes[id] = node(id, str(int(id) - 1), "tool", text, author=author)
    return file_of(folder, [{"conversation_id": "p", "mapping": nodes, "current_node": "6"}])


def parallel_claude(folder: Path) -> Path:
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": text} for id, text in (("b", "west-7"), ("a", "east-3"))
    ]
    said = [called("east", "a", "look"), called("west", "b", "look"), *results]
    return file_of(folder, [{"uuid": "p", "chat_messages": [{"sender": "assistant", "content": said}]}])


@pytest.mark.parametrize("write", [parallel_chatgpt, parallel_claude])
def test_results_stand_under_their_own_calls_in_whatever_order(write: Callable[[Path], Path], tmp_path: Path) -> None:
    (run,) = read_runs(write(tmp_path))
    actions = [step for step in run.steps if isinstance(step, ActionStep)]
    pairs = [(str(call.arguments), str(call.observation)) for step in actions for call in step.tool_calls]
    assert [("east" in call, "east-3" in seen, "west-7" in seen) for call, seen in pairs] == [
        (True, True, False), (False, False, True),
    ]  # fmt: skip


def test_several_results_of_a_call_are_one_and_one_without_a_call_stands_where_it_came(tmp_path: Path) -> None:
    said = [{"type": "tool_result", "tool_use_id": id, "content": f"{id}-{n}"} for n, id in enumerate(("x", "a", "a"))]
    entry = {"uuid": "c", "chat_messages": [{"sender": "assistant", "content": [called("east", "a", "look"), *said]}]}
    (run,) = read_runs(file_of(tmp_path, [entry]), left_out=(left_out := Counter[str]()))
    action, apart = run.steps
    assert isinstance(action, ActionStep) and action.tool_calls[0].observation == "a-1\na-2"
    assert (apart.text, left_out) == ("x-0", {"result that stands apart from its call": 1})


@pytest.mark.parametrize("result", ["", [{"functionResponse": {"response": {"output": ""}}}]])
def test_an_empty_result_is_a_result_and_none_is_none(result: Any, tmp_path: Path) -> None:
    message = {"id": "1", "type": "gemini", "content": "", "toolCalls": [{"id": "t", "name": "rm", "result": result}]}
    ((step,),) = [run.steps for run in read_runs(file_of(tmp_path, {"sessionId": "s", "messages": [message]}))]
    assert isinstance(step, ActionStep) and [call.answered for call in step.tool_calls] == [bool(result)]


def test_the_branch_of_claude_that_was_shown_last_is_told(tmp_path: Path) -> None:
    said = [("1", None, "human", "Name a colour."), ("2", "1", "assistant", "Red."), ("3", "1", "assistant", "Blue.")]
    messages = [
        {
            "uuid": id,
            "parent_message_uuid": parent,
            "sender": who,
            "text": text,
            "created_at": f"2026-01-01T00:00:0{id}Z",
        }
        for id, parent, who, text in said
    ]
    (run,) = read_runs(file_of(tmp_path, [{"uuid": "c", "chat_messages": messages}]), left_out=(left := Counter[str]()))
    assert [step.text for step in run.steps] == ["Name a colour.", "Blue."]
    assert left == {"message of another branch": 1}


# -- beside the chats


def test_what_stands_beside_the_chats_is_read_or_counted(tmp_path: Path) -> None:
    told = node("8", "0", "user", "", content={"content_type": "user_editable_context", "user_profile": "I keep bees."})
    chat = {**CHATGPT, "mapping": {**CHATGPT["mapping"], "8": told}}  # type: ignore[dict-item]
    files = {
        "conversations-000.json": [chat], "conversations-001.json": [CLAUDE], "user.json": {"email": "a@b.example"},
        "memories.json": [{"conversations_memory": "The person keeps goats."}],
        "projects.json": [{"uuid": "p", "name": "Farm", "docs": [{"filename": "plan.md", "content": "Sow oats."}]}],
    }  # fmt: skip
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    (tmp_path / "photo.png").write_bytes(b"x")
    runs = [*read_runs(tmp_path, left_out=(left_out := Counter[str]()))]
    texts = {run.name: [step.text for step in run.steps] for run in runs}
    assert texts["chatgpt/custom instructions"] == ["About the user: I keep bees."]
    assert texts["claude.ai/memories"] == ["The person keeps goats."]
    assert texts["claude.ai/project Farm p"] == ["plan.md:\nSow oats."]
    counted = {name for name in left_out if name.startswith("file that was not read")}
    assert counted == {"file that was not read (.json)", "file that was not read (.png)"}


@pytest.mark.parametrize(
    ("others", "skipped"),
    [
        ({"conversations.jsonl": "{}", "notes.md": "Hay."}, "file that was not read (.md)"),
        ({"users.json": "[]"}, ""),
        ({"users.json": "[]", "general/2026-01-01.json": "[]"}, "file that was not read (.jsonl)"),
    ],
)
def test_a_folder_gives_its_runs_or_counts_what_it_did_not_read(
    others: dict[str, str], skipped: str, tmp_path: Path
) -> None:
    said = {"role": "user", "content": "Oats grow best."}
    for name, text in {**others, "run.jsonl": json.dumps(said)}.items():
        (file := tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with HierarchicalMemory(tmp_path / "memory", embedder="hashing:16", store="exact") as memory:
        done = ingest_files(memory, [tmp_path / "in"])
        assert memory.stats().steps == (".jsonl" not in skipped)
    assert {kind for one in done for kind in one.left_out} == {*filter(None, [skipped])}
    assert all(one.error or one.left_out or one.steps for one in done), "each is told of"


NOTES = "# Farm\n\nOats grow best.\n\n## Barn\n\nThe key is under the stone.\n\n```sh\n# no heading\nls\n```\n"


def test_notes_are_passages_of_their_file_under_their_headings(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(NOTES, encoding="utf-8")
    (run,) = read_runs(tmp_path / "notes.md")
    assert [(step.speaker, step.text) for step in run.steps] == [
        ("notes.md", "# Farm\nOats grow best."),
        ("notes.md", "# Farm\n## Barn\nThe key is under the stone.\n\n```sh\n# no heading\nls\n```"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.md", "# Rules\n## Never buy walnuts\n## Barn\n### At night\n", [
            (None, "# Rules\n## Never buy walnuts"), (None, "# Rules\n## Barn\n### At night")]),
        ("a.md", "[[Ann]] keeps bees.\n", [(None, "[[Ann]] keeps bees.")]),
        ("a.md", "{% include x %}\nHello.\n", [(None, "{% include x %}\nHello.")]),
        ("a.txt", "[\nnot closed", [(None, "[\nnot closed")]),
        ("a.txt", "SHEEP\n=====\nBruno.\n\n\nOlga.", [(None, "SHEEP\n=====\nBruno."), (None, "Olga.")]),
        ("a.txt", "One.\n\n\nTwo.\n\nStill two.", [(None, "One."), (None, "Two.\n\nStill two.")]),
        ("a.txt", "2026-03-01\nHay.\n1 April 2026:\nOats.", [
            ("2026-03-01T00:00:00", "2026-03-01\nHay."), ("2026-04-01T00:00:00", "1 April 2026:\nOats.")]),
        ("2026-05-01_08-30-15Z-day.md", "Rye.\n# Monday, June 1st, 2026 09:30: a\n## Barn\nKey.\n# By 2027-01-01\nX.", [
            ("2026-05-01T08:30:15", "Rye."),
            ("2026-06-01T09:30:00", "# Monday, June 1st, 2026 09:30: a\n## Barn\nKey."),
            ("2026-05-01T08:30:15", "# By 2027-01-01\nX.")]),
        ("a.md", "_**User (2026-06-30 15:24:48Z)**_\nRam.\n_**Agent (opus-4 2026-06-30 15:25:00Z)**_\nEwe.", [
            ("2026-06-30T15:24:48", "_**User (2026-06-30 15:24:48Z)**_\nRam."),
            ("2026-06-30T15:25:00", "_**Agent (opus-4 2026-06-30 15:25:00Z)**_\nEwe.")]),
    ],
)  # fmt: skip
def test_notes_of_every_kind_lose_no_words_and_have_the_dates_of_their_headings(
    name: str, text: str, said: list[tuple[str | None, str]], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (run,) = read_runs(tmp_path / name)
    times = [None if is_undated(step) else step.timestamp.replace(tzinfo=None).isoformat() for step in run.steps]
    assert [*zip(times, (step.text for step in run.steps), strict=True)] == said
    assert all((getattr(step, "role", "") == "assistant") == ("Agent (" in step.text) for step in run.steps)


def test_the_export_of_a_memory_is_for_import(tinymem: Any, tmp_path: Path) -> None:
    tinymem("ingest", str(file_of(tmp_path, GEMINI)), "--path", str(tmp_path / "one"))
    (tmp_path / "own.jsonl").write_text(tinymem("export", "--path", str(tmp_path / "one")).out, encoding="utf-8")
    with pytest.raises(InputError, match=r"tinymem import own\.jsonl"):
        list(read_runs(tmp_path / "own.jsonl"))


def test_a_session_of_opencode_has_how_its_commands_ended_and_that_of_a_subagent_is_apart(tmp_path: Path) -> None:
    info = {**OPENCODE["info"], "parentID": "ses_1"}
    (run,) = read_runs(file_of(tmp_path, {**OPENCODE, "info": info}))
    assert run.name == "ses_1/ses_4" and run.steps[0].speaker == "agent"
    assert run.steps[1].text.endswith("is open for nobody\nCommand exited with code 1")

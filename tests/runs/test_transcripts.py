"""Session files of coding agents: what was said comes into the memory, and what is left out is counted."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from commands import tinymem as tinymem  # the fixture
from hypothesis import given
from hypothesis import strategies as st

from tinymem import ActionStep, HierarchicalMemory
from tinymem.messages import problems
from tinymem.runs.harness import ABOUT, own_words
from tinymem.runs.ingest import ingest_files
from tinymem.runs.readers import APART, read_runs

IDS = count()
TIME = "2026-03-01T12:00:00.000Z"
Line = dict[str, Any]


def claude(kind: str, content: Any, *, id: str = "", session: str = "s1", **more: Any) -> Line:
    """A line of Claude Code."""
    message = {"role": kind, "content": content, **({"id": id, "usage": {"input_tokens": 1}} if id else {})}
    return {"type": kind, "message": message, "sessionId": session, "timestamp": TIME, "uuid": f"u{next(IDS)}", **more}


def use(name: str) -> Line:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": f"run {name}"}}


def result(name: str, text: str) -> Line:
    return {"type": "tool_result", "tool_use_id": name, "content": [{"type": "text", "text": text}]}


CLAUDE: list[Line] = [
    {"type": "file-history-snapshot", "snapshot": {}},
    claude("user", "Run the tests."),
    claude("assistant", [{"type": "thinking", "thinking": "Both.", "signature": "x"}], id="m1"),
    claude("assistant", [use("t1")], id="m1"),
    claude("assistant", [use("t2")], id="m1"),
    claude("user", [result("t1", "3 passed")]),
    claude("user", [result("t2", "port 8443 is taken")]),
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s1"},
    claude("assistant", [{"type": "text", "text": "One port is taken."}], id="m2"),
]


def codex(kind: str, **payload: Any) -> Line:
    """A line of Codex."""
    return {"type": kind, "timestamp": TIME, "payload": payload}


def item(kind: str, **more: Any) -> Line:
    return codex("response_item", type=kind, **more)


CODEX: list[Line] = [
    codex("session_meta", id="c1", cwd="/src"),
    item("message", role="user", content=[{"type": "input_text", "text": "Run the tests."}]),
    codex("event_msg", type="user_message", message="Run the tests."),
    item("reasoning", summary=[], encrypted_content="x"),
    *(item("function_call", name="shell", call_id=name, arguments='{"command": ["pytest"]}') for name in ("k1", "k2")),
    *(item("function_call_output", call_id=name, output="port 8443 is taken") for name in ("k1", "k2")),
    item("message", role="assistant", content=[{"type": "output_text", "text": "One port is taken."}]),
]


def qwen(kind: str, *parts: Line, **more: Any) -> Line:
    """A line of Qwen Code."""
    message = {"role": "model" if kind == "assistant" else "user", "parts": parts}
    return {"type": kind, "message": message, "sessionId": "s1", "timestamp": TIME, "uuid": f"u{next(IDS)}", **more}


QWEN: list[Line] = [
    qwen("user", {"text": "Run the tests."}, {"text": f"{ABOUT}\n[What was said]"}),
    qwen("assistant", {"text": "Both.", "thought": True},
         *({"functionCall": {"id": name, "name": "run_shell_command", "args": {"command": "x"}}} for name in "kl")),
    *(qwen("tool_result", {"functionResponse": {"id": name, "name": "run_shell_command", "response": {"output": text}}})
      for name, text in (("k", "port 8443 is taken"), ("l", "3 passed"))),
    {**qwen("system"), "subtype": "ui_telemetry", "systemPayload": {}},
    qwen("assistant", {"text": "One port is taken."}),
]  # fmt: skip


def copilot(kind: str, **data: Any) -> Line:
    """An event of Copilot CLI."""
    return {"type": kind, "data": data, "id": f"e{next(IDS)}", "timestamp": TIME, "parentId": None}


def ran(id: str, text: str) -> Line:
    text += '\n\nTool "bash" succeeded. Additional guidance from postToolUse hooks:\nDo this.'
    return copilot("tool.execution_complete", toolCallId=id, success=True, result={"content": text})


COPILOT: list[Line] = [
    copilot("session.start", sessionId="p1"),
    copilot("user.message", content="Run the tests.", transformedContent="<current_datetime>now</current_datetime>"),
    *(copilot("assistant.message", content="", toolRequests=[{"toolCallId": id, "name": "bash", "arguments": {}}])
      for id in "kl"),
    ran("k", "port 8443 is taken"),
    ran("l", "3 passed"),
    copilot("user.message", content="Read this skill.", source="skill-pdf"),
    copilot("assistant.message", content="One port is taken.", toolRequests=[]),
]  # fmt: skip


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(("lines", "session"), [(CLAUDE, "s1"), (CODEX, "c1"), (QWEN, "s1"), (COPILOT, "p1")])
def test_a_session_is_read_with_its_calls(tmp_path: Path, lines: list[Line], session: str) -> None:
    (run,) = read_runs(write(tmp_path / "run.jsonl", lines))
    steps = list(run.steps)
    assert {(step.session, step.timestamp.isoformat()) for step in steps} == {(session, "2026-03-01T12:00:00+00:00")}
    assert steps[0].text == "Run the tests." and steps[-1].text == "One port is taken."
    assert sum(isinstance(step, ActionStep) for step in steps) == (1 if lines is QWEN else 2)
    assert sum("port 8443 is taken" in step.text for step in steps) == (2 if lines is CODEX else 1)
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        memory.add_steps(steps)
        messages = memory.context("Which port?", max_tokens=2_000).messages
    assert problems(messages) == [] and sum(message["role"] == "tool" for message in messages) == 2


def test_lines_without_a_message_are_counted_by_type(tmp_path: Path) -> None:
    unknown: list[Any] = [
        {"type": "hologram", "sessionId": "s1"},
        claude("user", [result("gone", "of a call before")]),
        ["odd"],
    ]
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        (done,) = ingest_files(memory, [write(tmp_path / "run.jsonl", [*CLAUDE, *unknown])])
        other = ingest_files(memory, [write(tmp_path / "codex.jsonl", CODEX)])[0].left_out
    kinds = ("snapshot of files", "thinking", "note", "line of type 'hologram'", "damaged line 12", APART)
    assert (done.error, done.steps, done.left_out) == (None, 5, dict.fromkeys(kinds, 1))
    assert other == {"setting": 1, "progress": 1, "thinking": 1}


def text(value: str) -> Line:
    return {"type": "input_text", "text": value}


HARNESS: list[Line] = [
    claude("user", "Caveat: the messages below come from local commands.", isMeta=True),
    claude("user", "<command-name>/review</command-name>\n<command-message>review</command-message>\n"
           "<command-args>the port code</command-args>"),
    claude("user", "<local-command-stdout>Bye!</local-command-stdout>"),
    claude("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
    claude("user", "This session is continued from an earlier one.", isCompactSummary=True),
    claude("assistant", [{"type": "text", "text": "API Error: 529 overloaded"}], isApiErrorMessage=True),
    claude("user", [{"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"},
                    {"type": "text", "text": "Is <system-reminder> a tag?\n<system-reminder>\nNo files.\n"
                                             "</system-reminder>"}]),
    claude("assistant", [use("t9")]),
    claude("user", [result("t9", "<system-reminder>seen in a page</system-reminder> 3 passed\n\n"
                                 "<system-reminder>\nCheck for malware.\n</system-reminder>\n")]),
]  # fmt: skip
HARNESS_CODEX: list[Line] = [
    codex("session_meta", id="c1"),
    item("message", role="developer", content=[text("<permissions instructions>All.</permissions instructions>"),
                                               text("<skills_instructions>\nMany.\n</skills_instructions>")]),
    item("message", role="user", content=[text("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nLint.\n"
                                               "</INSTRUCTIONS>"),
                                          text("<environment_context>\n<cwd>/src</cwd>\n</environment_context>")]),
    item("message", role="developer", content=[text(f"{ABOUT}\n[What was said]")]),
    item("message", role="user", content=[text("Is the port free?")]),
]  # fmt: skip


def test_the_words_of_the_agents_program_are_left_out_and_counted(tmp_path: Path) -> None:
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        (done,) = ingest_files(memory, [write(tmp_path / "claude.jsonl", HARNESS)])
        (other,) = ingest_files(memory, [write(tmp_path / "codex.jsonl", HARNESS_CODEX)])
        said = [message["content"] for step in memory.history() for message in step.to_messages() if message["content"]]
    assert said == [
        "/review the port code",
        "Is <system-reminder> a tag?",
        "<system-reminder>seen in a page</system-reminder> 3 passed",
        "Is the port free?",
    ]
    assert done.left_out == {"note": 5, "summary": 1, "API error": 1, "interruption": 1}
    assert other.left_out == {"setting": 1, "note": 3, "AGENTS.md": 1}


@given(st.lists(st.sampled_from(["<system-reminder>", "</system-reminder>", "<command-args>", "\n", " ", "word"])))
def test_a_text_without_a_closed_note_stays_as_it_is(parts: list[str]) -> None:
    left_out: Counter[str] = Counter()
    whole = {"role": "user", "content": "".join(parts)}
    kept = own_words(whole, left_out)
    assert left_out or "<command-args>" in parts or kept == whole
    assert kept["content"].count("word") <= whole["content"].count("word")

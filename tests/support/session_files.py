"""Made-up session files of coding agents, of all the kinds that real ones have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
CROPS = ("beans", "leeks", "kale", "oats", "flax", "peas", "rye", "hops", "corn", "hay")


class Session:
    """A session of Claude Code as it is written, each line behind the one before it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.last: str | None = None

    def add(self, kind: str, content: Any = None, *, behind: str | None = "", **more: Any) -> str:
        """Add a line, and return its id."""
        at = len(self.lines)
        id, parent = f"{self.name}-{at}", self.last if behind == "" else behind
        line = {"type": kind, "uuid": id, "parentUuid": parent, "sessionId": self.name, **more}
        line["timestamp"] = f"2026-03-01T10:{at // 60:02d}:{at % 60:02d}.000Z"
        if content is not None:
            line["message"] = {"role": kind, "content": content}
        self.lines.append(line)
        self.last = id
        return id

    def turn(self, crop: str) -> None:
        """Add a request, thinking, two calls of one answer, their results the other way round, and the answer."""
        self.add("user", f"Where do the {crop} stand, and how many?")
        self.add("assistant", [{"type": "thinking", "thinking": "Two files.", "signature": "x"}])
        calls = [
            self.add("assistant", [{"type": "tool_use", "id": f"{self.last}-c", "name": "Bash", "input": {"at": at}}])
            for at in range(2)
        ]
        ids = [line["message"]["content"][0]["id"] for line in self.lines[-2:]]
        self.add("progress", data={"type": "hook_progress"}, behind=calls[1])
        for call, id in reversed([*zip(calls, ids, strict=True)]):
            self.add("user", [{"type": "tool_result", "tool_use_id": id, "content": f"{crop}, {id}"}], behind=call)
        self.add("assistant", [{"type": "text", "text": f"The {crop} stand in two rows."}])


def claude_session(at: int) -> Session:
    """Make a session of Claude Code, with what each of ten kinds has."""
    session, crop, kind = Session(f"farm-{at}"), CROPS[at % 10], at % 10
    session.turn(crop)
    if kind == 1:
        session.add("user", "<command-message>plough</command-message>\n<command-name>/plough</command-name>\n"
                            f"<command-args>field {at}</command-args>")  # fmt: skip
    elif kind == 2:
        attached = {"type": "queued_command", "prompt": f"Leave gate {at} shut.", "commandMode": "prompt"}
        session.add("attachment", attachment=attached)
    elif kind == 3:
        fork = session.last
        session.add("user", "Paint it teal.")
        session.add("user", "Paint it ochre.", behind=fork)
    elif kind == 4:
        session.add("user", "<task-notification><task-id>7</task-id><result>Eight gates.</result></task-notification>")
    elif kind == 5:
        session.add("system", subtype="compact_boundary", behind=None, logicalParentUuid=session.last)
        session.add("user", "This session is being continued from a previous conversation.", isCompactSummary=True)
    elif kind == 6:
        own = {"type": "tool_use", "id": "own", "name": "mcp__tinymem__recall", "input": {"query": crop}}
        session.add("assistant", [own])
        session.add("user", [{"type": "tool_result", "tool_use_id": "own", "content": "known"}])
    elif kind == 7:
        session.add("user", [{"type": "tool_result", "tool_use_id": "gone", "content": "of no call"}])
    session.turn(CROPS[(at + 3) % 10])
    return session


def codex_lines(at: int) -> Iterator[Line]:
    """Make a session of Codex; the second of two is forked from the first."""
    name = f"mill-{at}"
    more = {"forked_from_id": f"mill-{at - 1}"} if at % 2 else {}
    said = [("developer", "Be brief."), ("user", "<environment_context>\n<cwd>/mill</cwd>\n</environment_context>"),
            ("user", f"Grind the {CROPS[at // 2]}."), ("assistant", "Ground.")]  # fmt: skip
    said += [("user", f"And sack {at}?"), ("assistant", "Tied.")] if at % 2 else []
    yield {"type": "session_meta", "timestamp": "2026-04-01T09:00:00Z", "payload": {"id": name, **more}}
    for second, (role, words) in enumerate(said):
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": words}
        item = {"type": "message", "role": role, "content": [part]}
        yield {"type": "response_item", "timestamp": f"2026-04-01T09:{at:02d}:{second:02d}Z", "payload": item}


def write_sessions(folder: Path) -> None:
    """Write forty files: thirty sessions, copies and subagents of Claude Code among them, and ten of Codex."""
    for at in range(30):
        session = claude_session(at)
        texts = [json.dumps(line) for line in session.lines]
        if at % 10 == 8:
            texts[4:4] = [texts[4][:70], "\0" * 200]
        if at % 10 == 9:
            parent = claude_session(at - 9)
            lines = [{**line, "sessionId": session.name} for line in parent.lines]
            texts = [json.dumps(line) for line in lines] + texts[-1:]
        if at % 10 == 0 and at:
            inner = [{**line, "isSidechain": True, "agentId": f"a{at}"} for line in session.lines]
            below = folder / "claude" / f"farm-{at - 1}" / "subagents"
            below.mkdir(parents=True)
            (below / f"agent-a{at}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in inner), "utf-8")
            continue
        (folder / "claude").mkdir(parents=True, exist_ok=True)
        (folder / "claude" / f"{session.name}.jsonl").write_text("\n".join(texts) + "\n", "utf-8")
    (folder / "codex").mkdir()
    for at in range(10):
        texts = [json.dumps(line) for line in codex_lines(at)]
        (folder / "codex" / f"rollout-{at}.jsonl").write_text("\n".join(texts) + "\n", "utf-8")

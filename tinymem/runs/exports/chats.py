"""Conversations of exports as they are collected: chat messages that are valid, whatever the export holds.

Results stand behind their own calls, by id and in whatever order they come. What no reader of messages would take is
mended here: names that are too long, times that are none. So a damaged part costs no more than itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from tinymem.runs.harness import AGENT
from tinymem.runs.values import time_of

__all__ = ["BRANCH", "Chat", "Entry", "ExportedChat", "Message", "as_json", "first_name", "shown_branch"]

Message: TypeAlias = dict[str, Any]
Entry: TypeAlias = Mapping[str, Any]

BRANCH = "message of another branch"
THINKING = ("thoughts", "reasoning_recap", "thinking", "redacted_thinking")
RECENT = 100  # calls among which that of a result is looked for
LONGEST_NAME = 200  # characters of a name that an export gives


class ExportedChat(NamedTuple):
    """A conversation: the name of its session, its messages, and what was left out, by kind."""

    session: str
    messages: Sequence[Message]
    skipped: Counter[str]


class Chat:
    """The messages of a conversation as they are read.

    Args:
        is_spawned: It is that of a subagent: a model asks in it.

    Attributes:
        messages: They, each result behind its call once `done` was called.
        skipped: What was left out, by kind.
    """

    def __init__(self, is_spawned: bool = False) -> None:
        self._is_spawned = is_spawned
        self.messages: list[Message] = []
        self.skipped: Counter[str] = Counter()
        self._results: dict[str, list[str]] = {}  # of each call
        self._names: dict[str, str] = {}

    def say(self, role: str, text: str, when: Any, **more: Any) -> None:
        """Add what somebody said; nothing where that has no text."""
        if self._is_spawned and role == "user":
            role, more = "assistant", {**more, "name": AGENT}
        if text.strip():
            self._add(when, role=role, content=text, **more)

    def call(self, id: str, name: str, given: Any, when: Any, said: str = "") -> str:
        """Add a call of the assistant, and what it said with it; return the id, another where that was used before."""
        id = id or "call"
        while id in self._results:
            id = f"{id}-{len(self._results)}"
        function = {"name": name[:LONGEST_NAME], "arguments": as_json(given)}
        call = {"id": id, "type": "function", "function": function}
        self._add(when, role="assistant", content=said or None, tool_calls=[call])
        self._results[id], self._names[id] = [], name
        return id

    def result(self, id: Any, text: str, when: Any, name: str = "") -> None:
        """Add what came back from a call; without its call it stands where it came, as a result."""
        if isinstance(id, str) and id in self._results:
            self._results[id].append(text)
        elif text.strip():
            self.skipped["result of an unknown call, kept apart"] += 1
            apart = str(id or f"unknown-{len(self.messages)}")[:LONGEST_NAME]
            self._add(when, role="function", name=name or "tool", tool_call_id=apart, content=text)

    def _add(self, when: Any, **message: Any) -> None:
        time = time_of(when)
        self.messages.append(message if time is None else {**message, "timestamp": time})

    def caller(self, name: str) -> str | None:
        """Return the call that a result of the tool `name` answers which names no call; None where there is none.

        It is the oldest one of that tool without a result, else the newest one, which then has several.
        """
        recent = [*islice(reversed(self._names), RECENT)][::-1]
        unanswered = [id for id in recent if not self._results[id]]
        same = [id for id in recent if not name or _is_same_tool(self._names[id], name)] or unanswered
        return next((id for id in same if id in unanswered), same[-1] if same else None)

    def skip(self, part: Entry) -> None:
        """Count a part that is left out."""
        kind = str(part.get("content_type") or part.get("type") or "part")[:40]
        self.leave_out("thinking" if kind in THINKING else kind)

    def leave_out(self, kind: str, count: int = 1) -> None:
        """Count what is left out; nothing where the count is none."""
        if count > 0:
            self.skipped[kind[:40]] += count

    def done(self, session: str) -> ExportedChat:
        """Return the conversation, each result behind its call."""
        placed: list[Message] = []
        for message in self.messages:
            placed.append(message)
            for call in message.get("tool_calls", ()):
                if seen := self._results[call["id"]]:
                    text = "\n".join(filter(None, seen))
                    result = {"role": "tool", "tool_call_id": call["id"], "content": text}
                    placed.append(result | {key: message[key] for key in ("timestamp",) if key in message})
        return ExportedChat(session, placed, self.skipped)


def _is_same_tool(called: str, name: str) -> bool:
    return called == name or called.partition(".")[0] == name.partition(".")[0]


def shown_branch(parents: Mapping[str, Any], last: str | None) -> list[str]:
    """Return the messages from the first one to `last`, of those with these parents."""
    path: dict[str, None] = {}
    while isinstance(last, str) and last in parents and last not in path:
        path[last] = None
        last = parents[last]
    return [*path][::-1]


def as_json(value: Any) -> str:
    """Return the arguments of a call as JSON; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def first_name(*values: Any) -> str:
    """Return the first text among the values that is not empty, as a name."""
    return next((value for value in values if isinstance(value, str) and value.strip()), "unnamed")[:LONGEST_NAME]

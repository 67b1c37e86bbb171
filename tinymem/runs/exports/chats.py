"""Conversations of exports as they are collected: chat messages that are valid, whatever the export holds.

What no reader of messages would take is mended here: names that are too long, times that are none. So a damaged part
costs no more than itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, TypeAlias

from tinymem.runs.harness import AGENT
from tinymem.runs.values import time_of

__all__ = ["BRANCH", "Entry", "ExportedChat", "Message", "as_json", "first_name", "shown_branch"]

Message: TypeAlias = dict[str, Any]
Entry: TypeAlias = Mapping[str, Any]

BRANCH = "message of another branch"
THINKING = ("thoughts", "reasoning_recap", "thinking", "redacted_thinking")
RECENT = 100  # calls among which that of a result is looked for
LONGEST_NAME = 200  # characters of a name that an export gives


class ExportedChat:
    """A conversation as it is read.

    Args:
        session: The name of its session.
        is_spawned: It is that of a subagent: a model asks in it.

    Attributes:
        session: That name.
        messages: Its messages.
        skipped: What was left out, by kind.
    """

    def __init__(self, session: str, is_spawned: bool = False) -> None:
        self.session, self._is_spawned = session, is_spawned
        self.messages: list[Message] = []
        self.skipped: Counter[str] = Counter()
        self._names: dict[str, str] = {}  # the tool of each call
        self._results: dict[str, Message] = {}

    def say(self, role: str, text: str, when: Any, **more: Any) -> None:
        """Add what somebody said; nothing where that has no text."""
        if self._is_spawned and role == "user":
            role, more = "assistant", {**more, "name": AGENT}
        if text.strip():
            self._add(when, role=role, content=text, **more)

    def call(self, id: str, name: str, given: Any, when: Any, said: str = "") -> str:
        """Add a call of the assistant, and what it said with it; return the id, another where that was used before."""
        id = id or "call"
        while id in self._names:
            id = f"{id}-{len(self._names)}"
        function = {"name": name[:LONGEST_NAME], "arguments": as_json(given)}
        call = {"id": id, "type": "function", "function": function}
        self._add(when, role="assistant", content=said or None, tool_calls=[call])
        self._names[id] = name
        return id

    def result(self, id: Any, text: str, when: Any, tool: str = "") -> None:
        """Add what came back from a call, or from a tool where no call is named; several results of one are one."""
        known = str(id or self._caller(tool) or f"unknown-{len(self.messages)}")[:LONGEST_NAME]
        if known in self._results:
            before = self._results[known]
            before["content"] = "\n".join(filter(None, (before["content"], text)))
        elif text.strip() or known in self._names:
            self._results[known] = self._add(when, role="tool", tool_call_id=known, content=text)

    def _add(self, when: Any, **message: Any) -> Message:
        time = time_of(when)
        self.messages.append(message if time is None else {**message, "timestamp": time})
        return self.messages[-1]

    def _caller(self, tool: str) -> str | None:
        """Return the call that a result of this tool answers: its oldest one without a result, else its newest one."""
        recent = [*islice(reversed(self._names), RECENT)][::-1]
        unanswered = [id for id in recent if id not in self._results]
        same = [id for id in recent if not tool or _is_same_tool(self._names[id], tool)] or unanswered
        return next((id for id in same if id in unanswered), same[-1] if same else None)

    def skip(self, part: Entry) -> None:
        """Count a part that is left out."""
        kind = str(part.get("content_type") or part.get("type") or "part")[:40]
        self.leave_out("thinking" if kind in THINKING else kind)

    def leave_out(self, kind: str, count: int = 1) -> None:
        """Count what is left out; nothing where the count is none."""
        if count > 0:
            self.skipped[kind[:40]] += count


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

"""Branches of a session of Claude Code: each line names the one that it stands behind, so lines are a tree.

Where a person goes back to an earlier prompt, a branch is left; what was shown last is kept. Not every fork is one: the
calls of one answer and their results stand beside each other, and a summary of what was before begins a tree of its
own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tinymem.messages.calls import raw_calls
from tinymem.runs.values import text_in

if TYPE_CHECKING:
    from tinymem.runs.transcripts import Said

__all__ = ["Line", "part"]

BETWEEN = ("isCompactSummary", "isSidechain")  # keys of lines that are no child of the one before
QUEUED = "queued"  # the turn of what was typed while the agent worked


class Line(NamedTuple):
    """A line of a session file.

    Attributes:
        number: Its number in the file; 0 for one behind which something waits that was typed before.
        session: The session that it belongs to.
        uuid: Its id; "" for none.
        parent: The id of the line before it; "" for the first one, None where lines name none.
        role: "user", "assistant", "tool", or "" for a line without a message.
        turn: The id of the answer that it is a part of.
        calls: The calls that it makes, or answers.
        goes_on: It goes on with what is before it, though it is no child of that.
        said: Its messages.
    """

    number: int
    session: str
    uuid: str
    parent: str | None
    role: str
    turn: str
    calls: Sequence[str]
    goes_on: bool
    said: Sequence[Said] = ()

    @staticmethod
    def of(value: Mapping[str, Any], number: int, session: str, said: Sequence[Said] = ()) -> Line:
        """Make one of a line's value and what was read of it."""
        before = text_in(value, "parentUuid") or text_in(value, "logicalParentUuid")
        messages = [each.message for each in said]
        made = [str(call.get("id")) for call in chain.from_iterable(map(raw_calls, messages))]
        answered = [str(message.get("tool_call_id")) for message in messages if message["role"] == "tool"]
        return Line(
            number=number,
            session=session,
            uuid=text_in(value, "uuid"),
            parent=before if "parentUuid" in value else None,
            role=str(messages[0]["role"]) if messages else "",
            turn=QUEUED if value.get("type") == "attachment" else text_in(value, "message", "id"),
            calls=(*made, *answered),
            goes_on=any(value.get(key) for key in BETWEEN) or value.get("subtype") == "compact_boundary",
            said=said,
        )

    @property
    def is_prompt(self) -> bool:
        """True for what somebody typed while the agent did not work."""
        return self.role == "user" and self.turn != QUEUED and not self.goes_on


def part(lines: Sequence[Line]) -> tuple[list[Line], bool]:
    """Return the lines of a file less those of branches that were left.

    Also return whether a line but the first one stands behind one that is not there.
    """
    parents, is_apart = _parents(lines)
    path = _path(lines, parents)
    beside = _Beside([line for line in lines if line.uuid in path], parents)
    made = {*chain.from_iterable(line.calls for line in lines if line.role == "assistant")}
    found: list[Line] = []
    for line in lines:
        if line.uuid not in parents or line.uuid in path or beside.belongs(line, made):
            found.append(line)
            beside.keep(line)
    return found, is_apart


def _parents(lines: Sequence[Line]) -> tuple[dict[str, str], bool]:
    """Return the parent of each line, by its id, and whether one but the first line's is not there.

    Where a parent was lost, or a line goes on with what is before it, that is the line before it in its session.
    """
    known = {line.uuid for line in lines if line.uuid}
    found: dict[str, str] = {}
    newest: dict[str, str] = {}
    is_lost = False
    for line in lines:
        if not line.uuid or line.parent is None:
            continue
        parent = line.parent
        if parent not in known:
            is_lost = is_lost or (parent != "" and line is not lines[0])
            parent = newest.get(line.session, "") if parent or line.goes_on else ""
        found.setdefault(line.uuid, parent)
        newest[line.session] = line.uuid
    return found, is_lost


def _path(lines: Sequence[Line], parents: Mapping[str, str]) -> set[str]:
    """Return the ids of the lines between the last message of each session and its first."""
    last = {line.session: line.uuid for line in lines if line.uuid in parents and line.role}
    path: set[str] = set()
    for uuid in last.values():
        while uuid in parents and uuid not in path:
            path.add(uuid)
            uuid = parents[uuid]
    return path


class _Beside:
    """The lines beside a path that were not left."""

    def __init__(self, path: Sequence[Line], parents: Mapping[str, str]) -> None:
        self._parents = parents
        self._turns = {line.turn for line in path if line.turn}
        self._next_roles: dict[str, str] = {}  # by the id of a line on the path, the role of the next message on it
        for line in reversed(path):
            self._next_roles[parents[line.uuid]] = line.role or self._next_roles.get(line.uuid, "")
        self._kept: dict[str, Line] = {}  # the newest of each id
        self._calls: set[str] = set()

    def keep(self, line: Line) -> None:
        """Take note of a line that is kept."""
        self._kept[line.uuid] = line
        self._calls.update(line.calls if line.role == "assistant" else ())

    def belongs(self, line: Line, made: Collection[str]) -> bool:
        """Return True for a line that was not left, though it is not on the path; `made` are the calls of all lines."""
        parent = self._parents[line.uuid]
        before = self._kept.get(parent)
        if line.role == "tool":  # also one that came before its call, or whose call nobody made
            return any(call in self._calls or (before is not None and call not in made) for call in line.calls)
        if line.role == "assistant":
            is_same = before is not None and before.role == "assistant" and line.turn in ("", before.turn)
            return is_same or line.turn in self._turns
        if line.turn == QUEUED:
            return before is not None
        # typed while the agent worked; who goes back says something else instead
        return before is not None and line.role == "user" and self._next_roles.get(parent) in ("assistant", "tool")

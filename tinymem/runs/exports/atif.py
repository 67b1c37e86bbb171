"""ATIF, the Agent Trajectory Interchange Format of Harbor, written: version 1.4, which has all that text needs.

`tinymem.runs.exports.trajectories` reads it. See https://harborframework.com/docs/trajectory-format
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from tinymem import __version__
from tinymem.archive.folders import open_namespace_journal, to_place
from tinymem.archive.rows import step_of
from tinymem.messages.sendable import name_and_arguments, raw_calls
from tinymem.protocols import Journal
from tinymem.steps.content import as_text
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step
from tinymem.steps.types import is_undated

__all__ = ["export_trajectories", "trajectories"]

Message: TypeAlias = dict[str, Any]

VERSION = "ATIF-v1.4"
SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}


def trajectories(steps: Iterable[Step]) -> Iterator[Message]:
    """Yield a trajectory for each stretch of steps of one session, in order.

    What the format has no field for stands under `extra`: the types, ids, speakers and metadata of steps.
    """
    for session, same in groupby(steps, key=lambda step: step.session):
        written = chain.from_iterable(map(_steps, same))
        yield {
            "schema_version": VERSION,
            "session_id": session or "tinymem",
            "agent": {"name": "tinymem", "version": __version__},
            "steps": [{"step_id": number, **step} for number, step in enumerate(written, 1)],
        }


def _steps(step: Step) -> Iterator[Message]:
    """Yield what a step is in a trajectory: as a rule one step, with what came back as its observation."""
    extra = {"id": step.id, "type": step.type, "speaker": step.speaker, "metadata": step.to_dict().get("metadata")}
    kept = {key: value for key, value in extra.items() if value}
    written: Message | None = None
    for message in step.to_messages(style="tools"):
        if message["role"] in ("tool", "function"):
            result = {"source_call_id": message.get("tool_call_id"), "content": as_text(message.get("content"))}
            written = written or {"source": "agent", "message": "", "extra": kept}
            written.setdefault("observation", {"results": []})["results"].append(result)
            continue
        if written is not None:
            yield written
        written = {} if is_undated(step) else {"timestamp": step.timestamp.isoformat()}
        written["source"] = SOURCES.get(message["role"], "user")
        written["message"] = as_text(message.get("content"))
        thinking, calls = message.get("reasoning_content"), raw_calls(message)
        if thinking:
            written["reasoning_content"] = thinking
        if calls:
            written["tool_calls"] = [*map(_call, calls)]
        written["extra"] = kept
    if written is not None:
        yield written


def _call(call: Mapping[str, Any]) -> Message:
    name, arguments = name_and_arguments(call)
    given = arguments
    with suppress(ValueError, TypeError):  # it is JSON, or a mapping
        given = json.loads(arguments)
    given = given if isinstance(given, Mapping) else {"input": arguments}
    return {"tool_call_id": call.get("id"), "function_name": name, "arguments": given}


def export_trajectories(
    path: str | Path, stream: TextIO, *, namespace: str = "default", progress: Progress | None = None
) -> int:
    """Write a trajectory for each session of a memory, a line each; return how many.

    Raises:
        NotAMemoryError: There is no such memory.
    """
    tell, done, count = progress or no_progress, 0, 0
    _, journal = open_namespace_journal(to_place(path), namespace)
    with closing(journal), journal.reading() as reader:
        total = reader.counts()["steps"]
        sessions = dict.fromkeys(kind.session for kind in reader.tally())
        for trajectory in chain.from_iterable(trajectories(_steps_of(reader, session)) for session in sessions):
            stream.write(f"{json.dumps(trajectory)}\n")
            count, done = count + 1, done + len(trajectory["steps"])
            tell(min(done, total), total)
    return count


def _steps_of(journal: Journal, session: str | None) -> Iterator[Step]:
    after = 0
    while rows := journal.rows(after, session=session):
        after = rows[-1].number
        yield from (step_of(journal, row.record) for row in rows if row.session == session)

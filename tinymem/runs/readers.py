"""Readers of recorded conversations and agent runs, which give steps.

The shape of a file is recognised by its content; each may be gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`;
- session files of coding agents: see `tinymem.runs.transcripts`;
- dumps of LangChain and smolagents: see `tinymem.runs.dumps`;
- exports of ChatGPT, Claude.ai, Gemini CLI and Slack, and ATIF trajectories: see `tinymem.runs.exports`;
- zip archives and folders of these, and Cursor's database: see `tinymem.runs.folders`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tinymem.errors import InputError, MessageError, describe_type
from tinymem.memory.context.fitting import as_message
from tinymem.messages.conversion import message_places, steps_from_messages
from tinymem.messages.formats import chat_messages
from tinymem.runs.dumps import chat_of
from tinymem.runs.exports import Conversation, conversations_of, is_gemini_log, read_gemini_log
from tinymem.runs.folders import conversations_in, is_export
from tinymem.runs.transcripts import Thread, Transcript, is_event
from tinymem.steps.checks import to_path
from tinymem.steps.step import Step
from tinymem.steps.types import UNDATED
from tinymem.upkeep.lines import Line, parse_json_line, text_lines

__all__ = ["Compaction", "Run", "read_runs", "runs_of"]

SHAPES = "a list of chat messages, {'messages': [...]}, {'traj': [...]} or a message"


class Compaction(NamedTuple):
    """A summary that the agent's program put in the place of the first `steps` steps of a run."""

    steps: int
    summary: str


@dataclass(frozen=True)
class Run:
    """One conversation or agent run.

    Attributes:
        name: Its name.
        steps: Its steps; where it is damaged, those before the first malformed message.
        skipped: The number of lines without a message, by their type.
        fault: The damage.
        compactions: Where the agent's program compacted the conversation, in order.
    """

    name: str
    steps: list[Step] = field(repr=False)
    skipped: Mapping[str, int] = field(default_factory=dict)
    fault: InputError | None = None
    compactions: Sequence[Compaction] = ()


def read_runs(path: str | Path, raw: BinaryIO | None = None) -> Iterator[Run]:
    """Read the runs in a file, in order, one at a time.

    The N-th run is named `FILE#N`, and so is the session of its steps; those of coding agents have their own names.

    >>> for run in read_runs("runs.jsonl"):  # doctest: +SKIP
    ...     memory.add_steps(run.steps)

    Args:
        path: The file.
        raw: A buffered stream to read instead, from its position on; `path` is then only its name.

    Raises:
        InputError: Something cannot be read, or has none of the known shapes; the error names file and line. The runs
            before it have been given by then.
    """
    path = to_path("path", path)
    if raw is None and is_export(path):
        yield from (_of_export(one, str(path)) for one in conversations_in(path))
        return
    lines = text_lines(path, raw=raw)
    try:
        for run in _runs_in(path, lines):
            if run.fault is not None:
                lines.close()  # at once, not when the error is collected
            yield run
    finally:
        lines.close()


# -- shapes -----------------------------------------------------------------------------------------------------------


def _runs_in(path: Path, lines: Iterator[Line]) -> Iterator[Run]:
    """Read the runs of a file by its shape, which its first line tells."""
    first = next(lines, None)
    if first is None:
        raise InputError(f"{path} is empty")
    try:
        value = json.loads(first[1])
    except (ValueError, RecursionError):
        yield from _runs_of_document(path, first, lines)
        return
    values = chain([(first[0], value)], ((number, parse_json_line(text, path, number)) for number, text in lines))
    if is_event(value):
        transcript = Transcript(path.stem)
        yield from runs_of(path, values, transcript)
        if not any(thread.events for thread in transcript.threads.values()):
            types = ", ".join(map(repr, transcript.skipped))
            raise InputError(f"{path}: should be {SHAPES}, and has only lines of the types {types}"[:400])
    elif is_gemini_log(value) and "messages" not in value:
        yield _of_export(read_gemini_log(one for _, one in values), str(path))
    elif _is_message(value):
        yield _run((_said(value, f"{path}, line {number}") for number, value in values), f"{path.name}#1")
    else:
        count = 0
        for number, value in values:
            for run in _runs_of_value(value, path, f"line {number}", count):
                count += 1
                yield run


def runs_of(path: Path, values: Iterable[tuple[int, Any]], transcript: Transcript) -> Iterator[Run]:
    """Read lines of a session file behind those that `transcript` has read: a run for each session in them."""
    fault = transcript.read((f"{path}, line {number}", value) for number, value in values)
    grown = [thread for thread in transcript.threads.values() if thread.events]
    skipped: Mapping[str, int] = transcript.skipped
    for thread in grown:
        said = [_Said(place, message, _moment(clock, place)) for place, message, clock in thread.events]
        yield _run(said, thread.session, skipped, thread, fault if thread is grown[-1] else None)
        skipped = {}
    if not grown and fault is not None:
        raise fault


def _runs_of_document(path: Path, first: Line, rest: Iterator[Line]) -> Iterator[Run]:
    """Read one JSON value that spans many lines."""
    number, text = first
    blank = "\n" * (number - 1)
    parts = [blank, text]
    for at, line in rest:
        parts.append("\n" * (at - number - 1) + line)
        number = at
    yield from _runs_of_value(parse_json_line("".join(parts), path, 1), path, "", 0)


def _runs_of_value(value: Any, path: Path, where: str, count: int) -> Iterator[Run]:
    """Read the runs of one value; `count` runs come before it in the file."""
    name = f"{path.name}#{count + 1}"
    place = f"{path}, {where}" if where else str(path)
    if (exported := conversations_of(value, path.stem)) is not None:
        yield from (_of_export(one, place) for one in exported)
    elif (dump := chat_of(value)) is not None:
        messages, skipped = dump
        yield _run(_listed(messages, place), name, skipped)
    elif isinstance(value, Mapping):
        yield _run(_messages_of(value, place), name)
    elif isinstance(value, list) and value and _is_message(value[0]):
        yield _run(_listed(value, place), name)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for at, one in enumerate(value):
            if not isinstance(one, Mapping):
                raise InputError(f"{place}, entry {at}: should be {SHAPES}, not {type(one).__name__}")
            name = f"{path.name}#{count + at + 1}"
            yield _run(_messages_of(one, f"{place}, entry {at}"), name)
    else:
        what = "an empty list" if value == [] else type(value).__name__
        raise InputError(f"{place}: should be {SHAPES}, not {what}")


def _of_export(one: Conversation, place: str) -> Run:
    return _run(_listed([*one.messages], f"{place}, {one.session}"), one.session, one.skipped)


def _messages_of(value: Mapping[str, Any], place: str) -> Iterator[_Said]:
    for key in ("messages", "traj"):
        if isinstance(value.get(key), list):
            return _listed(value[key], place)
    raise InputError(f"{place}: should be {SHAPES}, and has only {', '.join(map(repr, value)) or 'nothing'}"[:400])


def _listed(messages: list[Any], place: str) -> Iterator[_Said]:
    return (_said(message, f"{place}, message {at}") for at, message in enumerate(messages))


# -- messages ---------------------------------------------------------------------------------------------------------


class _Said(NamedTuple):
    """A message, its place in the file, and when it was said, if the file has that."""

    place: str
    message: Mapping[str, Any]
    moment: datetime | None = None


def _as_chat(said: list[_Said]) -> list[_Said]:
    """Return messages of any format as those of a chat, each with the place and time of the one that it came from."""
    given = [one.message for one in said]
    try:
        chat = chat_messages(given)
    except MessageError as error:
        what = str(error).removeprefix(f"message {error.index}: ")
        raise InputError(f"{said[error.index or 0].place}: {what}") from error
    if chat is given or all(one is other for one, other in zip(chat, given, strict=False)):
        return said
    return [said[min(at, len(said) - 1)]._replace(message=message) for at, message in enumerate(chat)]


def _is_message(value: Any) -> bool:
    """Return True for what looks like a chat message, or an item of the Responses API."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("role"), str) or isinstance(value.get("call_id"), str) or value.get("type") == "reasoning"
    )


def _said(value: Any, place: str) -> _Said:
    """Check a message, and remove what mini-swe-agent adds to it; its closing role "exit" becomes "user"."""
    if not _is_message(value):
        keys = f"has only {', '.join(map(repr, value))[:200]}" if isinstance(value, Mapping) else None
        raise InputError(f"{place}: should be a message with a role, and {keys or f'is {type(value).__name__}'}")
    extra = value.get("extra")
    clock = value.get("timestamp", extra.get("timestamp") if isinstance(extra, Mapping) else None)
    message = {key: one for key, one in value.items() if key not in ("extra", "timestamp")}
    if message.get("role") == "exit":
        message["role"] = "user"
    return _Said(place, message, _moment(clock, place))


def _moment(clock: Any, place: str) -> datetime | None:
    """Parse a time: ISO 8601 (UTC where it has no zone), or seconds since 1970."""
    if clock is None or clock == "":
        return None
    try:
        if isinstance(clock, str):
            time = datetime.fromisoformat(clock.replace("Z", "+00:00"))
            return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        return datetime.fromtimestamp(clock, timezone.utc)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise InputError(f"{place}: the time of the message cannot be read: {describe_type(clock)}") from error


def _run(
    messages: Iterable[_Said],
    name: str,
    skipped: Mapping[str, int] | None = None,
    thread: Thread | None = None,
    fault: InputError | None = None,
) -> Run:
    """Convert messages to the steps of a run, up to a malformed one, or to the `fault` behind them all.

    The run may go on with a thread whose earlier messages are not among these.
    """
    said: list[_Said] = []
    try:
        for one in messages:
            said.append(one)
    except InputError as error:
        fault = error
    try:
        said = _as_chat(said)
    except InputError as error:
        said, fault = [], error
    while True:
        try:
            pending = thread.waiting if thread else ()
            made = steps_from_messages([one.message for one in said], session=name, pending=pending)
            break
        except MessageError as error:
            at = error.index or 0
            what = str(error).removeprefix(f"message {error.index}: ")
            said, fault = said[:at], InputError(f"{said[at].place}: {what}")
    steps: list[Step] = []
    places = message_places(made, [step.to_messages(style="tools") for step in made])
    left = [*thread.compactions] if thread is not None else []
    compactions: list[Compaction] = []
    last = next((one.moment for one in said if one.moment is not None), None)
    for step, (at, *_) in zip(made, places, strict=True):
        while left and left[0][0] <= at:  # one before all steps was of a session that this file goes on with
            compactions.append(Compaction(len(steps), left.pop(0)[1]))
        moment = said[at].moment
        own = as_message(step) if thread is not None and thread.goes_on else step
        last = moment or last  # for order: what has no time comes with what was said before it, and is marked
        known = {} if last is None else {"timestamp": last}
        steps.append(own.evolve(**known) if moment else own.evolve(**known, metadata={**own.metadata, UNDATED: True}))
    return Run(name, steps, skipped or {}, fault, compactions)

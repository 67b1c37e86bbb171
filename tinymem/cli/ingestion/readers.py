"""Readers of recorded conversations and agent runs, which give steps.

The shape of a file is recognised by its content; each may be gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`;
- session files of coding agents: see `tinymem.cli.ingestion.transcripts`;
- dumps of LangChain and smolagents: see `tinymem.cli.ingestion.dumps`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tinymem.cli.ingestion.dumps import chat_of
from tinymem.cli.ingestion.transcripts import Thread, Transcript, is_event
from tinymem.errors import InputError, MessageError, kind_of
from tinymem.memory.context.fitting import as_message
from tinymem.messages.conversion import steps_from_messages
from tinymem.messages.formats import chat_messages
from tinymem.steps.checks import a_path
from tinymem.steps.step import Step
from tinymem.upkeep.lines import Line, parsed, text_lines

__all__ = ["Run", "read_runs", "runs_of"]

SHAPES = "a list of chat messages, {'messages': [...]}, {'traj': [...]} or a message"


@dataclass(frozen=True)
class Run:
    """One conversation or agent run.

    `steps` can be read once, before the next run is asked for. It raises InputError at the first malformed message,
    after the steps before it. `skipped` counts lines without a message, by their type.
    """

    name: str
    steps: Iterator[Step] = field(repr=False)
    skipped: Mapping[str, int] = field(default_factory=dict)


def read_runs(path: str | Path, raw: BinaryIO | None = None) -> Iterator[Run]:
    """Read the runs in a file, in order, one at a time.

    The N-th run is named `FILE#N`, and so is the session of its steps; those of coding agents have their own names.

    >>> for run in read_runs("runs.jsonl"):  # doctest: +SKIP
    ...     memory.add_steps(list(run.steps))

    Args:
        path: The file.
        raw: A buffered stream to read instead, from its position on; `path` is then only its name.

    Raises:
        InputError: Something cannot be read, or has none of the known shapes; the error names file and line. The runs
            before it have been given by then.
    """
    path = a_path("path", path)
    lines = text_lines(path, raw=raw)
    with _closed_when_damaged(lines):
        first = next(lines, None)
        if first is None:
            raise InputError(f"{path} is empty")
        try:
            value = json.loads(first[1])
        except (ValueError, RecursionError):
            runs = _of_document(path, first, lines)
        else:
            rest = ((number, parsed(text, path, number)) for number, text in lines)
            values = chain([(first[0], value)], rest)
            runs = _of_events(path, values) if is_event(value) else _of_lines(path, values, _is_message(value))
        for run in runs:
            yield replace(run, steps=_guarded(run.steps, lines))


@contextmanager
def _closed_when_damaged(lines: Generator[Line, None, None]) -> Iterator[None]:
    """Close the file at once when it is damaged, not when the error is collected."""
    try:
        yield
    except InputError:
        lines.close()
        raise


def _guarded(steps: Iterator[Step], lines: Generator[Line, None, None]) -> Iterator[Step]:
    with _closed_when_damaged(lines):
        yield from steps


# -- shapes -----------------------------------------------------------------------------------------------------------


def _of_lines(path: Path, values: Iterable[tuple[int, Any]], one_run: bool) -> Iterator[Run]:
    """Read JSON lines: one run of messages, or a run or more a line."""
    if one_run:
        messages = (_said(value, f"{path}, line {number}") for number, value in values)
        name = f"{path.name}#1"
        yield Run(name, _steps_of(messages, name))
        return
    count = 0
    for number, value in values:
        for run in _of_value(value, path, f"line {number}", count):
            count += 1
            yield run


def _of_events(path: Path, values: Iterable[tuple[int, Any]]) -> Iterator[Run]:
    """Read the session file of a coding agent."""
    transcript = Transcript(path.stem)
    yield from runs_of(path, values, transcript)
    if not transcript.threads:
        types = ", ".join(map(repr, transcript.skipped))
        raise InputError(f"{path}: should be {SHAPES}, and has only lines of the types {types}"[:400])


def runs_of(path: Path, values: Iterable[tuple[int, Any]], transcript: Transcript) -> Iterator[Run]:
    """Read lines of a session file behind those that `transcript` has read: a run for each session in them."""
    fault = transcript.read((f"{path}, line {number}", value) for number, value in values)
    grown = [thread for thread in transcript.threads.values() if thread.events]
    skipped: Mapping[str, int] = transcript.skipped
    for thread in grown:
        said = [_Said(place, message, _moment(clock, place)) for place, message, clock in thread.events]
        last = fault if thread is grown[-1] else None
        yield Run(thread.session, _steps_of(_then(said, last), thread.session, thread), skipped)
        skipped = {}
    if not grown and fault is not None:
        raise fault


def _then(said: Iterable[_Said], fault: InputError | None) -> Iterator[_Said]:
    yield from said
    if fault is not None:
        raise fault


def _of_document(path: Path, first: Line, rest: Iterator[Line]) -> Iterator[Run]:
    """Read one JSON value that spans many lines."""
    number, text = first
    blank = "\n" * (number - 1)
    parts = [blank, text]
    for at, line in rest:
        parts.append("\n" * (at - number - 1) + line)
        number = at
    yield from _of_value(parsed("".join(parts), path, 1), path, "", 0)


def _of_value(value: Any, path: Path, where: str, count: int) -> Iterator[Run]:
    """Read the runs of one value; `count` runs come before it in the file."""
    name = f"{path.name}#{count + 1}"
    place = f"{path}, {where}" if where else str(path)
    if (dump := chat_of(value)) is not None:
        messages, skipped = dump
        yield Run(name, _steps_of(_listed(messages, place), name), skipped)
    elif isinstance(value, Mapping):
        yield Run(name, _of_mapping(value, place, name))
    elif isinstance(value, list) and value and _is_message(value[0]):
        yield Run(name, _steps_of(_listed(value, place), name))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for at, one in enumerate(value):
            if not isinstance(one, Mapping):
                raise InputError(f"{place}, entry {at}: should be {SHAPES}, not {type(one).__name__}")
            name = f"{path.name}#{count + at + 1}"
            yield Run(name, _of_mapping(one, f"{place}, entry {at}", name))
    else:
        what = "an empty list" if value == [] else type(value).__name__
        raise InputError(f"{place}: should be {SHAPES}, not {what}")


def _of_mapping(value: Mapping[str, Any], place: str, name: str) -> Iterator[Step]:
    for key in ("messages", "traj"):
        if isinstance(value.get(key), list):
            return _steps_of(_listed(value[key], place), name)
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
    return isinstance(value, Mapping) and (isinstance(value.get("role"), str) or _is_item(value))


def _is_item(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("call_id"), str) or value.get("type") == "reasoning"


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
        raise InputError(f"{place}: the time of the message cannot be read: {kind_of(clock)}") from error


def _steps_of(messages: Iterable[_Said], session: str, thread: Thread | None = None) -> Iterator[Step]:
    """Convert the messages of a run to steps; yield those before a malformed message, then fail.

    The run may go on with a thread whose earlier messages are not among these.
    """
    goes_on = thread is not None and thread.goes_on
    pending = thread.waiting if thread else ()
    good: list[_Said] = []
    fault: InputError | None = None
    try:
        for one in messages:
            good.append(one)
    except InputError as error:
        fault = error
    good = _as_chat(good)
    while True:
        try:
            steps = steps_from_messages([one.message for one in good], session=session, pending=pending)
            break
        except MessageError as error:
            at = error.index or 0
            what = str(error).removeprefix(f"message {error.index}: ")
            good, fault = good[:at], InputError(f"{good[at].place}: {what}")
    at = 0
    for step in steps:
        moment = good[at].moment
        at += len(step.to_messages(style="tools"))
        own = as_message(step) if goes_on else step
        yield own if moment is None else own.evolve(timestamp=moment)
    if fault is not None:
        raise fault

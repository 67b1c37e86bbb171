"""Readers of recorded conversations and agent runs, which give steps.

The shape of a file is recognised by its content; each may be gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`;
- session files of coding agents: see `tinymem.runs.transcripts`;
- dumps of LangChain and smolagents: see `tinymem.runs.dumps`;
- exports of ChatGPT, Claude.ai, Gemini CLI and Slack, and ATIF trajectories: see `tinymem.runs.exports`;
- documents (.md, .txt): see `tinymem.runs.exports.documents`;
- zip archives and folders of these, and Cursor's database: see `tinymem.runs.folders`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tinymem.errors import InputError, describe_type
from tinymem.memory.context.fitting import as_message
from tinymem.messages.conversion import message_places, steps_from_messages
from tinymem.messages.formats import chat_messages
from tinymem.runs.dumps import chat_of
from tinymem.runs.exports import Conversation, conversations_of, is_gemini_log, read_gemini_log
from tinymem.runs.exports.documents import is_document, read_document
from tinymem.runs.folders import conversations_in, is_export
from tinymem.runs.transcripts import APART, DAMAGED, Thread, Transcript, is_event
from tinymem.steps.checks import to_path
from tinymem.steps.step import Step
from tinymem.steps.types import UNDATED, MessageStep
from tinymem.upkeep.lines import (
    LONGEST,
    RawLine,
    byte_lines,
    is_of_lines,
    joined,
    json_values,
    parse_json_line,
    read_values,
)

__all__ = ["MALFORMED", "Compaction", "Run", "read_runs", "runs_of"]

MALFORMED = "malformed message"
BEFORE = b"\xef\xbb\xbf \t"  # a byte order mark, and blanks
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
        steps: Its steps.
        skipped: The number of lines and messages that were left out, by their kind.
        fault: What ended the file early.
        compactions: Where the agent's program compacted the conversation, in order.
        damaged: The places of lines and messages that were damaged.
        marks: What its messages are known by in other files, one for each; none where they have no such thing.
        parents: Names of runs that it may begin with.
        file: The file, where that alone says which run this is.
        goes_on: It goes on with messages that were read before.
    """

    name: str
    steps: list[Step] = field(repr=False)
    skipped: Mapping[str, int] = field(default_factory=dict)
    fault: InputError | None = None
    compactions: Sequence[Compaction] = ()
    damaged: Sequence[str] = ()
    marks: Sequence[str] = ()
    parents: Sequence[str] = ()
    file: Path | None = None
    goes_on: bool = False

    def with_damage(self, lines: Sequence[str]) -> Run:
        """Return it with damaged lines."""
        if not lines:
            return self
        skipped = {**self.skipped, DAMAGED: self.skipped.get(DAMAGED, 0) + len(lines)}
        return replace(self, skipped=skipped, damaged=[*self.damaged, *lines])


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
    lines = byte_lines(path, LONGEST, raw)
    try:
        for run in _runs_in(path, lines):
            if run.fault is not None:
                lines.close()  # at once, not when the error is collected
            yield run
    finally:
        lines.close()


def _runs_in(path: Path, lines: Iterator[RawLine]) -> Iterator[Run]:
    """Read the runs of a file by its shape, which its first whole line tells."""
    head: list[RawLine] = []
    for number, line in lines:
        if line is None or line.strip():
            head.append((number, line))
            if json_values(line)[1]:
                break
    if not head:
        raise InputError(f"{path} is empty")
    if is_document(path) and not (head[0][1] or b"").lstrip(BEFORE).startswith((b"{", b"[{", b"[[", b"[\n", b"[\r")):
        texts = ((number, (line or b"").decode("utf-8", "replace")) for number, line in chain(head, lines))
        yield _of_export(read_document(((number, text) for number, text in texts if text.strip()), path), str(path))
        return
    if len(head) > 1 or not json_values(head[0][1])[1]:
        head += lines
        if not is_of_lines(head):
            yield from _runs_of_document(path, head)
            return
    damaged: list[str] = []
    values = read_values(chain(head, lines), damaged)
    last: Run | None = None
    for run in _runs_of_lines(path, values, damaged):
        if last is not None:
            yield last
        last = run.with_damage(damaged)
        damaged.clear()
    if last is not None:
        yield last.with_damage(damaged)


def _runs_of_lines(path: Path, values: Iterator[tuple[int, Any]], damaged: list[str]) -> Iterator[Run]:
    """Read lines with a JSON value each; those of a shape that none has are damaged."""
    fault: InputError | None = None
    count = others = 0
    for number, value in values:
        rest = chain([(number, value)], values)
        if count == 0 and isinstance(value, Mapping) and "tinymem_export" in value:
            raise InputError(f"{path} is the export of a memory: add it with tinymem import {path.name}")
        if count == 0 and is_event(value):
            transcript = Transcript(path.stem)
            yield from runs_of(path, rest, transcript)
            if not any(thread.events for thread in transcript.threads.values()):
                kinds = ", ".join(f"{count:,} {kind}" for kind, count in transcript.skipped.items())
                raise InputError(f"{path}: should be {SHAPES}, and has no message, only {kinds}"[:400])
            return
        if count == 0 and is_gemini_log(value) and "messages" not in value:
            yield _of_export(read_gemini_log(one for _, one in rest), str(path))
            return
        if count == 0 and _is_message(value):
            yield _run(_said_in_lines(path, rest, damaged), f"{path.name}#1", file=path)
            return
        try:
            for run in _runs_of_value(value, path, f"line {number}", count):
                count += 1
                yield run
        except InputError as error:
            fault = fault or error
            damaged.append(f"line {number}")
            continue
        others += 1
    if fault is not None and not others:
        raise fault


def _said_in_lines(path: Path, values: Iterable[tuple[int, Any]], damaged: list[str]) -> Iterator[_Said]:
    for number, value in values:
        try:
            yield _said(value, f"{path}, line {number}")
        except InputError:
            damaged.append(f"line {number}")


def runs_of(path: Path, values: Iterable[tuple[int, Any]], transcript: Transcript) -> Iterator[Run]:
    """Read lines of a session file behind those that `transcript` has read: a run for each session in them."""
    fault = transcript.read(values)
    grown = [] if transcript.went_back else [thread for thread in transcript.threads.values() if thread.events]
    skipped: Mapping[str, int] = transcript.skipped
    for thread in grown:
        said = [_Said(f"{path}, {at}", message, _moment(clock), mark) for at, message, clock, mark in thread.events]
        is_own = thread.session == transcript.session
        file = path if is_own and not transcript.is_named and thread.session == path.stem else None
        run = _run(said, thread.session, skipped, thread, fault if thread is grown[-1] else None, file)
        damaged = [*transcript.damaged, *run.damaged] if skipped else run.damaged
        yield replace(run, damaged=damaged, parents=transcript.parents if is_own else ())
        skipped = {}
    if not grown and fault is not None:
        raise fault


def _runs_of_document(path: Path, lines: Sequence[RawLine]) -> Iterator[Run]:
    """Read one JSON value that spans many lines."""
    blank = "\n" * (lines[0][0] - 1)
    try:
        text = joined(lines)
    except UnicodeDecodeError as error:
        what = "is not a text file" if any(b"\0" in (line or b"") for _, line in lines) else "is not UTF-8"
        raise InputError(f"{path}: {what} (byte {error.start} is {error.object[error.start]:#04x})") from error
    yield from _runs_of_value(parse_json_line(blank + text, path, 1), path, "", 0)


def _runs_of_value(value: Any, path: Path, where: str, count: int) -> Iterator[Run]:
    """Read the runs of one value; `count` runs come before it in the file."""
    name = f"{path.name}#{count + 1}"
    place = f"{path}, {where}" if where else str(path)
    if (exported := conversations_of(value, path.stem)) is not None:
        yield from (_of_export(one, place) for one in exported)
    elif (dump := chat_of(value)) is not None:
        messages, skipped = dump
        yield _run(_listed(messages, place), name, skipped, file=path)
    elif isinstance(value, Mapping):
        yield _run(_messages_of(value, place), name, file=path)
    elif isinstance(value, list) and value and _is_message(value[0]):
        yield _run(_listed(value, place), name, file=path)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for at, one in enumerate(value):
            if not isinstance(one, Mapping):
                raise InputError(f"{place}, entry {at}: should be {SHAPES}, not {type(one).__name__}")
            name = f"{path.name}#{count + at + 1}"
            yield _run(_messages_of(one, f"{place}, entry {at}"), name, file=path)
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
    for at, message in enumerate(messages):
        here = f"{place}, message {at}"
        try:
            yield _said(message, here)
        except InputError:
            yield _Said(here, {"role": None})  # what is no message is left out with the malformed ones


class _Said(NamedTuple):
    """A message, its place in the file, when it was said, and what it is known by, if the file has that."""

    place: str
    message: Mapping[str, Any]
    moment: datetime | None = None
    mark: str = ""


def _as_chat(said: list[_Said]) -> list[_Said]:
    """Return messages of any format as those of a chat, each with the place and time of the one that it came from."""
    given = [one.message for one in said]
    chat = chat_messages(given)
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


def _moment(clock: Any, place: str = "") -> datetime | None:
    """Parse a time: ISO 8601 (UTC where it has no zone), or seconds since 1970; without a `place` None on failure."""
    if clock is None or clock == "":
        return None
    try:
        if isinstance(clock, str):
            time = datetime.fromisoformat(clock.replace("Z", "+00:00"))
            return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        return datetime.fromtimestamp(clock, timezone.utc)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        if not place:
            return None
        raise InputError(f"{place}: the time of the message cannot be read: {describe_type(clock)}") from error


def _run(
    messages: Iterable[_Said],
    name: str,
    skipped: Mapping[str, int] | None = None,
    thread: Thread | None = None,
    fault: InputError | None = None,
    file: Path | None = None,
) -> Run:
    """Convert messages to the steps of a run, up to the `fault` behind them all; a malformed one is left out.

    The run may go on with a thread whose earlier messages are not among these.
    """
    said: list[_Said] = []
    try:
        for one in messages:
            said.append(one)
    except InputError as error:
        fault = error
    pending = thread.waiting if thread else []
    damaged: list[str] = []
    try:
        said = _as_chat(said)
        made = _converted(said, name, pending)
    except (InputError, RecursionError):
        said, malformed = _sound(said)
        damaged = [place.rpartition(", ")[2] for place, *_ in malformed]
        if not said:
            raise InputError(f"{malformed[0].place}: {_complaint(malformed[0], name)}") from None
        made = _converted(said, name, pending)
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
    marks = [one.mark for one in said] if thread is not None else ()
    counted = {**(skipped or {}), **({MALFORMED: len(damaged)} if damaged else {})}
    if thread is None and (apart := sum(isinstance(step, MessageStep) and step.role == "tool" for step in made)):
        counted[APART] = apart
    goes_on = thread is not None and thread.goes_on
    return Run(name, steps, counted, fault, compactions, damaged, marks, (), file, goes_on)


def _converted(said: Sequence[_Said], name: str, pending: Iterable[str]) -> list[Step]:
    return steps_from_messages([one.message for one in said], session=name, pending=pending)


def _sound(said: Sequence[_Said]) -> tuple[list[_Said], list[_Said]]:
    """Part messages in those that can be converted, as those of a chat, and those that cannot."""
    kept: list[_Said] = []
    malformed: list[_Said] = []
    for one in said:
        (malformed if _complaint(one, "") else kept).append(one)
    return _as_chat(kept), malformed


def _complaint(one: _Said, name: str) -> str:
    """Return what is wrong with a message; "" for nothing."""
    try:
        chat = _as_chat([one])
        _converted(chat, name, ())
    except RecursionError:
        return "it is nested too deeply"
    except InputError as error:
        return str(error).removeprefix(f"message {getattr(error, 'index', None)}: ") or "it cannot be read"
    return ""

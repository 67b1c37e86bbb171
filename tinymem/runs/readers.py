"""Readers of recorded conversations and agent runs, which give steps.

The shape of a file is recognised by its content; each may be gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`;
- session files of coding agents: see `tinymem.runs.transcripts`;
- exports of ChatGPT, Claude.ai, Gemini CLI and Slack: see `tinymem.runs.exports`;
- documents (.md, .txt): see `tinymem.runs.exports.documents`;
- zip archives and folders of these: see `tinymem.runs.exports.folders`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from tinymem.errors import InputError, describe_type
from tinymem.memory.context.fitting import as_message
from tinymem.messages.conversion import message_places, steps_from_messages
from tinymem.messages.formats import chat_messages
from tinymem.runs.exports import ExportedChat, conversations_of, is_gemini_log, read_gemini_log
from tinymem.runs.exports.documents import is_document, read_document
from tinymem.runs.exports.folders import conversations_in, is_export
from tinymem.runs.lines import LONGEST, RawLine, is_of_lines, json_values, parse_document, read_values
from tinymem.runs.transcripts import APART, DAMAGED, Said, Thread, Transcript, is_event
from tinymem.runs.values import time_of, value_in
from tinymem.steps.checks import to_path
from tinymem.steps.step import Step
from tinymem.steps.types import UNDATED, MessageStep
from tinymem.upkeep.lines import byte_lines

__all__ = ["MALFORMED", "Run", "read_runs", "runs_of"]

MALFORMED = "malformed message"
BEFORE = b"\xef\xbb\xbf \t"  # a byte order mark, and blanks
CLOCKS = ("timestamp", "created_at")  # what a message's time is called
SHAPES = "a list of chat messages, {'messages': [...]}, {'traj': [...]} or a message"


@dataclass(frozen=True)
class Run:
    """One conversation or agent run.

    Attributes:
        name: Its name.
        steps: Its steps.
        skipped: The number of lines and messages that were left out, by their kind.
        fault: What ended the file early.
        damaged: The places of lines and messages that were damaged.
        marks: What its messages are known by in other files, one for each; "" where it has no such thing.
        parents: Names of runs that it may begin with.
        file: The file, where that alone says which run this is.
        goes_on: It goes on with messages that were read before.
        is_spawned: A model wrote its prompts: it is that of a subagent.
    """

    name: str
    steps: list[Step] = field(repr=False)
    skipped: Mapping[str, int] = field(default_factory=dict)
    fault: InputError | None = None
    damaged: Sequence[str] = ()
    marks: Sequence[str] = ()
    parents: Sequence[str] = ()
    file: Path | None = None
    goes_on: bool = False
    is_spawned: bool = False

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
        yield from (_of_export(conversation, str(path)) for conversation in conversations_in(path))
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
    """Read the runs of a file; in one of text, JSON is looked for where it begins like that."""
    begin = next(((number, line) for number, line in lines if line is None or line.strip()), None)
    if begin is None:
        raise InputError(f"{path} is empty")
    lines = chain([begin], lines)
    if is_document(path):
        kept = [*lines] if (begin[1] or b"").lstrip(BEFORE).startswith((b"{", b"[")) else []
        runs: list[Run] = []
        if kept:
            with suppress(InputError):
                runs = [*_runs_of_json(path, iter(kept))]
        yield from runs or [_of_export(read_document(kept or lines, path), str(path))]
    else:
        yield from _runs_of_json(path, lines)


def _runs_of_json(path: Path, lines: Iterator[RawLine]) -> Iterator[Run]:
    """Read the runs of a file by its shape, which its first whole line tells."""
    head: list[RawLine] = []
    is_whole = False
    while not is_whole and (line := next(lines, None)) is not None:
        head.append(line)
        is_whole = json_values(line[1])[1]
    damaged: list[str] = []
    is_split = len(head) > 1 or not is_whole
    if is_split:
        head += lines
    if is_split and not is_of_lines(head):
        runs = _runs_of_value(parse_document(path, head), path, str(path), 0, damaged)
    else:
        runs = _runs_of_lines(path, read_values(chain(head, lines), damaged), damaged)
    last: Run | None = None
    for run in runs:
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
        shapes = LINES.items() if count == 0 else ()
        read = next((read for is_shape, read in shapes if is_shape(value)), None)
        if read is not None:
            yield from read(path, chain([(number, value)], values), damaged)
            return
        try:
            for run in _runs_of_value(value, path, f"{path}, line {number}", count, damaged):
                count += 1
                yield run
            others += 1
        except InputError as error:
            fault = fault or error
            damaged.append(f"line {number}")
    if fault is not None and not others:
        raise fault


Numbered = Iterable[tuple[int, Any]]


def _refuse_export(path: Path, values: Numbered, damaged: list[str]) -> Iterator[Run]:
    raise InputError(f"{path} is the export of a memory: add it with tinymem import {path.name}")


def _runs_of_sessions(path: Path, values: Numbered, damaged: list[str]) -> Iterator[Run]:
    """Read a session file of a coding agent."""
    transcript = Transcript(path.stem)
    yield from runs_of(path, values, transcript)
    if not any(thread.events for thread in transcript.threads.values()):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in transcript.skipped.items())
        raise InputError(f"{path}: should be {SHAPES}, and has no message, only {kinds}"[:400])


def _run_of_log(path: Path, values: Numbered, damaged: list[str]) -> Iterator[Run]:
    """Read a log of Gemini CLI."""
    yield _of_export(read_gemini_log(value for _, value in values), str(path))


def _run_of_messages(path: Path, values: Numbered, damaged: list[str]) -> Iterator[Run]:
    """Read lines with a message each."""

    def read() -> Iterator[Said]:
        for number, value in values:
            try:
                yield _said(value, f"{path}, line {number}")
            except InputError:
                damaged.append(f"line {number}")

    yield _run(read(), f"{path.name}#1", file=path)


def _is_message(value: Any) -> bool:
    """Return True for what looks like a chat message, or an item of the Responses API."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("role"), str) or isinstance(value.get("call_id"), str) or value.get("type") == "reasoning"
    )


LINES: Mapping[Callable[[Any], bool], Callable[[Path, Numbered, list[str]], Iterator[Run]]] = {
    lambda value: value_in(value, "tinymem_export") is not None: _refuse_export,
    is_event: _runs_of_sessions,
    lambda value: is_gemini_log(value) and "messages" not in value: _run_of_log,
    _is_message: _run_of_messages,
}


def runs_of(path: Path, values: Numbered, transcript: Transcript) -> Iterator[Run]:
    """Read lines of a session file: a run for each session in them."""
    fault = transcript.read(values)
    grown = [thread for thread in transcript.threads.values() if thread.events]
    skipped: Mapping[str, int] = transcript.skipped
    damaged: Sequence[str] = transcript.damaged
    for thread in grown:
        said = [event._replace(place=f"{path}, {event.place}") for event in thread.events]
        run = _run_of_thread(said, thread)
        run = replace(
            run,
            skipped={**skipped, **run.skipped},
            damaged=[*damaged, *run.damaged],
            is_spawned=thread.session in transcript.spawned,
        )
        if thread.session == transcript.session:
            is_known_by_file = not transcript.is_named and thread.session == path.stem
            run = replace(run, parents=transcript.parents, file=path if is_known_by_file else None)
        yield replace(run, fault=fault if thread is grown[-1] else None)
        skipped, damaged = {}, ()
    if not grown and fault is not None:
        raise fault


def _runs_of_value(value: Any, path: Path, place: str, count: int, damaged: list[str]) -> Iterator[Run]:
    """Read the runs of one value; `count` runs come before it in the file."""
    exported = conversations_of(value, path.stem)
    if exported is not None:
        yield from (_of_export(conversation, place) for conversation in exported)
    elif not isinstance(value, list) or not value or any(map(_is_message, value)):
        yield _run(_messages_of(value, place), f"{path.name}#{count + 1}", file=path)
    else:
        yield from _runs_of_entries(value, path, place, count, damaged)


def _runs_of_entries(entries: Sequence[Any], path: Path, place: str, count: int, damaged: list[str]) -> Iterator[Run]:
    """Read a list with a run an entry; an entry without messages is damaged."""
    faults: dict[int, InputError] = {}
    for index, entry in enumerate(entries):
        try:
            said = _messages_of(entry, f"{place}, entry {index}")
            yield _run(said, f"{path.name}#{count + index + 1}", file=path)
        except InputError as error:
            faults[index] = error
    if len(faults) == len(entries):
        raise faults[0]
    damaged += [f"entry {index}" for index in faults]


def _of_export(conversation: ExportedChat, place: str) -> Run:
    said = _listed(conversation.messages, f"{place}, {conversation.session}")
    return _run(said, conversation.session, conversation.skipped)


def _messages_of(value: Any, place: str) -> Iterator[Said]:
    if isinstance(value, list) and value:
        return _listed(value, place)
    for key in ("messages", "traj"):
        if isinstance(value_in(value, key), list):
            return _listed(value[key], place)
    keys = ", ".join(map(repr, value)) if isinstance(value, Mapping) else ""
    raise InputError(f"{place}: should be {SHAPES}, and has {keys or describe_type(value)}"[:400])


def _listed(messages: Sequence[Any], place: str) -> Iterator[Said]:
    for index, message in enumerate(messages):
        here = f"{place}, message {index}"
        try:
            yield _said(message, here)
        except InputError:
            yield Said(here, {"role": None})  # what is no message is left out with the malformed ones


def _said(value: Any, place: str) -> Said:
    """Check a message, and remove what mini-swe-agent adds to it; its closing role "exit" becomes "user"."""
    if not _is_message(value):
        raise InputError(f"{place}: should be a message with a role, not {describe_type(value)}"[:400])
    clocks = [value[key] for key in CLOCKS if key in value]
    message = {key: field for key, field in value.items() if key not in ("extra", *CLOCKS)}
    if message.get("role") == "exit":
        message["role"] = "user"
    return Said(place, message, time_of(clocks[0] if clocks else value_in(value, "extra", "timestamp")))


def _run(
    messages: Iterable[Said], name: str, skipped: Mapping[str, int] | None = None, file: Path | None = None
) -> Run:
    """Convert messages to the steps of a run, up to what ends the file early; a malformed one is left out."""
    said: list[Said] = []
    fault: InputError | None = None
    try:
        for message in messages:
            said.append(message)
    except InputError as error:
        fault = error
    run = _run_of_thread(said, Thread(name))
    apart = sum(isinstance(step, MessageStep) and step.role == "tool" for step in run.steps)
    counted = {**(skipped or {}), **run.skipped, **({APART: apart} if apart else {})}
    return replace(run, skipped=counted, fault=fault, file=file)


def _run_of_thread(said: Sequence[Said], thread: Thread) -> Run:
    """Convert the messages of a thread, which may go on with others; a malformed one is left out."""
    damaged: list[str] = []
    try:
        chat = _as_chat(said)
        made = _converted(chat, thread.session)
    except (InputError, RecursionError):
        complaints = [_complaint(message) for message in said]
        judged = [*zip(said, complaints, strict=True)]
        damaged = [message.place.rpartition(", ")[2] for message, complaint in judged if complaint]
        chat = _as_chat([message for message, complaint in judged if not complaint])
        if not chat:
            raise InputError(f"{said[0].place}: {complaints[0]}") from None
        made = _converted(chat, thread.session)
    places = message_places(made, [step.to_messages(style="tools") for step in made])
    firsts = [first for first, *_ in places]
    return Run(
        thread.session,
        _dated(made, chat, firsts, thread.goes_on),
        {MALFORMED: len(damaged)} if damaged else {},
        damaged=damaged,
        marks=[message.mark for message in chat],
        goes_on=thread.goes_on,
    )


def _dated(steps: Sequence[Step], said: Sequence[Said], firsts: Sequence[int], goes_on: bool) -> list[Step]:
    """Return steps with the times of their messages; one that has none gets that of the one before, and a mark."""
    last = next((message.moment for message in said if message.moment is not None), None)
    dated: list[Step] = []
    for step, message in zip(steps, (said[first] for first in firsts), strict=True):
        last = message.moment or last
        known = {} if last is None else {"timestamp": last}
        undated = {} if message.moment else {"metadata": {**step.metadata, UNDATED: True}}
        dated.append((as_message(step) if goes_on else step).evolve(**known, **undated))
    return dated


def _as_chat(said: Sequence[Said]) -> Sequence[Said]:
    """Return messages of any format as those of a chat, each with the place and time of the one that it came from."""
    given = [message.message for message in said]
    chat = chat_messages(given)
    if chat is given or all(message is other for message, other in zip(chat, given, strict=False)):
        return said
    return [said[min(index, len(said) - 1)]._replace(message=message) for index, message in enumerate(chat)]


def _converted(said: Sequence[Said], session: str) -> list[Step]:
    return steps_from_messages([each.message for each in said], session=session)


def _complaint(said: Said) -> str:
    """Return what is wrong with a message; "" for nothing."""
    try:
        _converted(_as_chat([said]), "")
    except RecursionError:
        return "it is nested too deeply"
    except InputError as error:
        return str(error).removeprefix(f"message {getattr(error, 'index', None)}: ") or "it cannot be read"
    return ""

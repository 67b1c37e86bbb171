"""Readers of recorded conversations and agent runs, which give steps.

The shape of a file is recognised by its content; each may be gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`;
- session files of coding agents: see `tinymem.runs.transcripts`;
- exports of ChatGPT, Claude.ai, Gemini CLI, OpenCode and Slack: see `tinymem.runs.exports`;
- documents (.md, .txt): see `tinymem.runs.exports.documents`;
- zip archives and folders of these: see `tinymem.runs.exports.folders`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from tinymem.errors import InputError, describe_type
from tinymem.messages.conversion import message_places, steps_from_messages
from tinymem.messages.formats import chat_messages
from tinymem.runs.exports import ExportedChat, conversations_of, is_gemini_log, read_gemini_log
from tinymem.runs.exports.documents import is_document, read_document
from tinymem.runs.exports.folders import conversations_in, is_export
from tinymem.runs.lines import DAMAGED, LONGEST, RawLine, json_values, parse_document, read_values
from tinymem.runs.transcripts import Said, Transcript, is_event
from tinymem.runs.values import time_of, value_in
from tinymem.steps.checks import to_path
from tinymem.steps.step import Step
from tinymem.steps.types import UNDATED, MessageStep
from tinymem.upkeep.lines import byte_lines

__all__ = ["APART", "Run", "read_runs", "runs_of"]

APART = "result that stands apart from its call"
CLOCKS = ("timestamp", "created_at")  # what a message's time is called
SHAPES = "a list of chat messages, {'messages': [...]}, {'traj': [...]} or a message"

Numbered: TypeAlias = Iterable[tuple[int, Any]]  # values of JSON, with their lines


@dataclass(frozen=True)
class Run:
    """One conversation or agent run.

    Attributes:
        name: Its name.
        steps: Its steps.
        marks: What its messages are known by in other files, one for each; "" where it has no such thing.
        parents: Names of runs that it may begin with.
        file: The file, where that alone says which run this is.
        goes_on: It goes on with messages that were read before.
        is_spawned: A model wrote its prompts: it is that of a subagent.
    """

    name: str
    steps: list[Step] = field(repr=False)
    marks: Sequence[str] = ()
    parents: Sequence[str] = ()
    file: Path | None = None
    goes_on: bool = False
    is_spawned: bool = False


def read_runs(path: str | Path, raw: BinaryIO | None = None, left_out: Counter[str] | None = None) -> Iterator[Run]:
    """Read the runs in a file, in order, one at a time.

    The N-th run is named `FILE#N`, and so is the session of its steps; those of coding agents have their own names.

    >>> for run in read_runs("runs.jsonl"):  # doctest: +SKIP
    ...     memory.add_steps(run.steps)

    Args:
        path: The file.
        raw: A buffered stream to read instead, from its position on; `path` is then only its name.
        left_out: Where lines, messages and notes that are left out are counted, by their kind; those that are damaged
            with their place, as "damaged line 7".

    Raises:
        InputError: Something cannot be read, or has none of the known shapes; the error names file and line. The runs
            before it have been given by then.
    """
    path, left_out = to_path("path", path), Counter() if left_out is None else left_out
    file, faults = _File(path, left_out), list[InputError]()
    if raw is None and is_export(path):
        yield from map(file.exported, conversations_in(path))
        return
    with closing(byte_lines(path, LONGEST, raw)) as lines:
        try:
            yield from file.runs(_until_fault(lines, faults))
        except InputError as error:
            faults.append(error)
    if faults:
        raise faults[0]


def _until_fault(lines: Iterator[RawLine], faults: list[InputError]) -> Iterator[RawLine]:
    """Yield lines up to what ends them early, which is added to `faults`: what comes before it is read."""
    try:
        yield from lines
    except InputError as error:
        faults.append(error)


class _File:
    """A file whose runs are read, with what is left out of it counted."""

    def __init__(self, path: Path, left_out: Counter[str]) -> None:
        self._path, self._left_out = path, left_out
        self._count = 0  # of the runs that it gave and that have no names

    def runs(self, lines: Iterable[RawLine]) -> Iterator[Run]:
        """Read all runs, by the shape of the first line: it is a value by itself, or one of many spans them."""
        begin = next(((number, line) for number, line in lines if line is None or line.strip()), None)
        if begin is None:
            raise InputError(f"{self._path} is empty")
        lines = chain([begin], lines)
        if is_document(self._path):
            yield self.exported(read_document(lines, self._path))
            return
        document: list[Any] = []
        if not json_values(begin[1])[1]:
            lines = [*lines]
            document = parse_document(self._path, lines)
        if document:
            yield from self._of_value(document[0], str(self._path))
        else:
            yield from self._of_each(read_values(lines, self._left_out), f"{self._path}, line", are_lines=True)

    def exported(self, conversation: ExportedChat, place: str | None = None) -> Run:
        """Return the run of a conversation that somebody exported."""
        self._left_out += conversation.skipped
        said = _listed(conversation.messages, f"{place or self._path}, {conversation.session}")
        return _run(said, conversation.session, self._left_out)

    def _of_each(self, values: Iterator[tuple[int, Any]], place: str, are_lines: bool = False) -> Iterator[Run]:
        """Read the runs of values, which are given with their numbers; those of a shape that none has are damaged.

        The first of lines that has the shape of a part of a run tells how that and all behind it are read.
        """
        faults: dict[str, InputError] = {}
        is_read = False
        for number, value in values:
            here = f"{place} {number}"
            read = self._reader_of_parts(value) if are_lines else None
            if read is not None:
                yield from read(chain([(number, value)], values))
                return
            try:
                for run in self._of_value(value, here):
                    are_lines = False
                    yield run
                is_read = True
            except InputError as error:
                faults[DAMAGED + here.removeprefix(f"{self._path}, ")] = error
        if faults and not is_read:
            raise next(iter(faults.values()))
        self._left_out.update([*faults])

    def _reader_of_parts(self, value: Any) -> Callable[[Numbered], Iterator[Run]] | None:
        """Return what reads lines of which this is the first, if it is a part of a run."""
        if value_in(value, "tinymem_export") is not None:
            name = self._path.name
            raise InputError(f"{self._path} is the export of a memory: add it with tinymem import {name}")
        if is_event(value):
            return self._of_events
        if is_gemini_log(value) and "messages" not in value:
            return self._of_log
        return self._of_messages if _is_message(value) else None

    def _of_events(self, values: Numbered) -> Iterator[Run]:
        transcript = Transcript(self._path, values, self._left_out)
        yield from runs_of(transcript)
        if not transcript.threads:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._left_out.items())
            raise InputError(f"{self._path}: should be {SHAPES}, and has no message, only {kinds}"[:400])

    def _of_log(self, values: Numbered) -> Iterator[Run]:
        yield self.exported(read_gemini_log(value for _, value in values))

    def _of_messages(self, values: Numbered) -> Iterator[Run]:
        said = [_said(value, f"{self._path}, line {number}") for number, value in values]
        yield _run(said, f"{self._path.name}#1", self._left_out, file=self._path)

    def _of_value(self, value: Any, place: str) -> Iterator[Run]:
        """Read the runs of one value."""
        exported = conversations_of(value, self._path.stem)
        if exported is not None:
            yield from (self.exported(conversation, place) for conversation in exported)
        elif not isinstance(value, list) or not value or any(map(_is_message, value)):
            name = f"{self._path.name}#{self._count + 1}"
            run = _run(_messages_of(value, place), name, self._left_out, file=self._path)
            self._count += 1
            yield run
        else:
            entries = [{"messages": entry} if isinstance(entry, list) else entry for entry in value]
            yield from self._of_each(enumerate(entries), f"{place}, entry")


def runs_of(transcript: Transcript) -> Iterator[Run]:
    """Return a run for each session in a session file."""
    for session, said in transcript.threads.items():
        is_files = session == transcript.session
        yield _run(
            said,
            session,
            transcript.left_out,
            parents=sorted(transcript.parents) if is_files else (),
            file=transcript.path if is_files and not transcript.is_named else None,
            is_spawned=session in transcript.spawned,
        )


def _is_message(value: Any) -> bool:
    """Return True for what looks like a chat message, or an item of the Responses API."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("role"), str) or isinstance(value.get("call_id"), str) or value.get("type") == "reasoning"
    )


def _messages_of(value: Any, place: str) -> list[Said]:
    if isinstance(value, list) and value:
        return _listed(value, place)
    for key in ("messages", "traj"):
        if isinstance(value_in(value, key), list):
            return _listed(value[key], place)
    keys = ", ".join(map(repr, value)) if isinstance(value, Mapping) else ""
    raise InputError(f"{place}: should be {SHAPES}, and has {keys or describe_type(value)}"[:400])


def _listed(messages: Sequence[Any], place: str) -> list[Said]:
    return [_said(message, f"{place}, message {index}") for index, message in enumerate(messages)]


def _said(value: Any, place: str) -> Said:
    """Return a message without what mini-swe-agent adds to it; its closing role "exit" becomes "user"."""
    if not _is_message(value):
        return Said(place, {"role": None})  # it is left out with the malformed ones
    clocks = [value[key] for key in CLOCKS if key in value]
    message = {key: field for key, field in value.items() if key not in ("extra", *CLOCKS)}
    if message.get("role") == "exit":
        message["role"] = "user"
    return Said(place, message, time_of(clocks[0] if clocks else value_in(value, "extra", "timestamp")))


def _run(said: Sequence[Said], name: str, left_out: Counter[str], **more: Any) -> Run:
    """Convert messages to the steps of a run; a malformed one is left out."""
    try:
        chat, made = _converted(said, name)
    except (InputError, RecursionError):
        chat, made = _converted(_without_malformed(said, left_out), name)
    left_out += Counter({APART: sum(isinstance(step, MessageStep) and step.role == "tool" for step in made)})
    places = message_places(made, [step.to_messages(style="tools") for step in made])
    steps = _dated(made, chat, [first for first, *_ in places])
    return Run(name, steps, marks=[message.mark for message in chat], **more)


def _without_malformed(said: Sequence[Said], left_out: Counter[str]) -> list[Said]:
    """Return the messages that can be read; the others are counted by their places."""
    judged = [(message, _complaint(message)) for message in said]
    kept = [message for message, complaint in judged if not complaint]
    if not kept:
        raise InputError(f"{said[0].place}: {judged[0][1]}") from None
    left_out.update(f"{DAMAGED}{message.place.rpartition(', ')[2]}" for message, complaint in judged if complaint)
    return kept


def _dated(steps: Sequence[Step], said: Sequence[Said], firsts: Sequence[int]) -> list[Step]:
    """Return steps with the times of their messages; one that has none gets that of the one before, and a mark."""
    last = next((message.moment for message in said if message.moment is not None), None)
    dated: list[Step] = []
    for step, message in zip(steps, (said[first] for first in firsts), strict=True):
        last = message.moment or last
        known = {} if last is None else {"timestamp": last}
        undated = {} if message.moment else {"metadata": {**step.metadata, UNDATED: True}}
        dated.append(step.evolve(**known, **undated))
    return dated


def _as_chat(said: Sequence[Said]) -> Sequence[Said]:
    """Return messages of any format as those of a chat, each with the place and time of the one that it came from."""
    given = [message.message for message in said]
    chat = chat_messages(given)
    if chat is given or all(message is other for message, other in zip(chat, given, strict=False)):
        return said
    return [said[min(index, len(said) - 1)]._replace(message=message) for index, message in enumerate(chat)]


def _converted(said: Sequence[Said], session: str) -> tuple[Sequence[Said], list[Step]]:
    """Return messages of any format as those of a chat, and their steps."""
    chat = _as_chat(said)
    return chat, steps_from_messages([each.message for each in chat], session=session)


def _complaint(said: Said) -> str:
    """Return what is wrong with a message; "" for nothing."""
    try:
        _converted([said], "")
    except RecursionError:
        return "it is nested too deeply"
    except InputError as error:
        return str(error).removeprefix(f"message {getattr(error, 'index', None)}: ") or "it cannot be read"
    return ""

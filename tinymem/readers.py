"""Reads recorded conversations and agent runs, whatever shape they were written in, as steps.

Known shapes, told apart by content, each also gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`;
- haystacks of the benchmarks: JSON lines of `{"units": [{"speaker", "text", "timestamp", "session", ...}], ...}`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from tinymem.base import Step
from tinymem.errors import InputError
from tinymem.recorded import Said, is_message, said, steps_of_messages, steps_of_units

__all__ = ["Run", "parsed", "read_runs", "text_lines"]

GZIP = b"\x1f\x8b"
SHAPES = "a list of chat messages, {'messages': [...]}, {'traj': [...]}, {'units': [...]} or a message"
Line: TypeAlias = tuple[int, str]


@dataclass(frozen=True)
class Run:
    """One conversation or agent run. `steps` can be read once, before the next run is asked for; it raises InputError
    at the first message that is malformed, after the steps before it."""

    name: str
    steps: Iterator[Step] = field(repr=False)


def read_runs(path: str | Path) -> Iterator[Run]:
    """The runs in a file, in order; JSON lines are read as they are needed.

    The N-th run is named `FILE#N`, and so is the session of its steps; sessions that a haystack tells come behind it.

    >>> for run in read_runs("runs.jsonl"):  # doctest: +SKIP
    ...     memory.add_steps(list(run.steps))

    Raises InputError, naming file and line, for what cannot be read or has none of the known shapes. What stands
    before it in the file has been given by then.
    """
    path = Path(path)
    lines = text_lines(path)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{path} is empty")
    try:
        value = json.loads(first[1])
    except (ValueError, RecursionError):
        yield from _of_document(path, first, lines)
    else:
        rest = ((number, parsed(text, path, number)) for number, text in lines)
        yield from _of_lines(path, chain([(first[0], value)], rest), is_message(value))


# -- files ------------------------------------------------------------------------------------------------------------


def text_lines(path: Path, longest: int = -1) -> Iterator[Line]:
    """Lines that are not blank, with their numbers. InputError for one of over `longest` bytes, if that is given."""
    number = 0
    try:
        with path.open("rb") as raw:  # opened once and peeked at, so that a pipe will do
            file = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == GZIP else raw
            some = longest + 1 if longest >= 0 else -1
            for number, line in enumerate(iter(lambda: file.readline(some), b""), 1):
                if len(line) == some:
                    raise InputError(f"{path}, line {number}: is longer than {longest} bytes")
                text = _decoded(line, path, number)
                if text.strip():
                    yield number, text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: the gzip data is damaged or cut off ({error})") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        what = "is not a text file" if b"\0" in line else "is not UTF-8"
        raise InputError(
            f"{path}, line {number}: {what} (byte {error.start} of the line is {line[error.start]:#04x})"
        ) from error


def parsed(text: str, path: Path, number: int) -> Any:
    """The value of JSON text that starts on line `number` of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = number + error.lineno - 1
        raise InputError(f"{path}, line {line}, column {error.colno}: not valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: not valid JSON: {error}") from error


# -- shapes -----------------------------------------------------------------------------------------------------------


def _of_lines(path: Path, values: Iterable[tuple[int, Any]], one_run: bool) -> Iterator[Run]:
    """JSON lines: all of them one run if they are messages, else a run or more a line."""
    if one_run:
        messages = (said(value, f"{path}, line {number}") for number, value in values)
        name = f"{path.name}#1"
        yield Run(name, steps_of_messages(messages, name))
        return
    count = 0
    for number, value in values:
        for run in _of_value(value, path, f"line {number}", count):
            count += 1
            yield run


def _of_document(path: Path, first: Line, rest: Iterator[Line]) -> Iterator[Run]:
    """One JSON value over many lines."""
    number, text = first
    blank = "\n" * (number - 1)
    parts = [blank, text]
    for at, line in rest:
        parts.append("\n" * (at - number - 1) + line)
        number = at
    yield from _of_value(parsed("".join(parts), path, 1), path, "", 0)


def _of_value(value: Any, path: Path, where: str, count: int) -> Iterator[Run]:
    """The runs of one value; `count` is how many came before it in the file."""
    name = f"{path.name}#{count + 1}"
    place = f"{path}, {where}" if where else str(path)
    if isinstance(value, Mapping):
        yield Run(name, _of_mapping(value, place, name))
    elif isinstance(value, list) and value and is_message(value[0]):
        yield Run(name, steps_of_messages(_listed(value, place), name))
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
    if isinstance(value.get("units"), list):
        return steps_of_units(value["units"], place, name)
    for key in ("messages", "traj"):
        if isinstance(value.get(key), list):
            return steps_of_messages(_listed(value[key], place), name)
    raise InputError(f"{place}: should be {SHAPES}, and has only {', '.join(map(repr, value)) or 'nothing'}"[:400])


def _listed(messages: list[Any], place: str) -> Iterator[Said]:
    return (said(message, f"{place}, message {at}") for at, message in enumerate(messages))

"""Readers of recorded conversations and agent runs, which give steps.

The shape of a file is recognised by its content; each may be gzip'd:

- a JSON list of OpenAI messages, or JSON lines with a message each (one run);
- JSON lines with a list of messages, or with `{"messages": [...]}`, each (a run a line);
- tau-bench results: a JSON list of `{"task_id": ..., "traj": [messages], ...}`;
- mini-swe-agent trajectories: `{"messages": [...], "info": ..., "trajectory_format": ...}`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from tinymem.cli.ingestion.recorded import Said, is_message, said, steps_of_messages
from tinymem.errors import InputError
from tinymem.steps.checks import a_path
from tinymem.steps.step import Step
from tinymem.upkeep.lines import Line, parsed, text_lines

__all__ = ["Run", "read_runs"]

SHAPES = "a list of chat messages, {'messages': [...]}, {'traj': [...]} or a message"


@dataclass(frozen=True)
class Run:
    """One conversation or agent run.

    `steps` can be read once, before the next run is asked for. It raises InputError at the first malformed message,
    after the steps before it.
    """

    name: str
    steps: Iterator[Step] = field(repr=False)


def read_runs(path: str | Path, raw: BinaryIO | None = None) -> Iterator[Run]:
    """Read the runs in a file, in order, one at a time.

    The N-th run is named `FILE#N`, and so is the session of its steps.

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
            runs = _of_lines(path, chain([(first[0], value)], rest), is_message(value))
        for run in runs:
            yield Run(run.name, _guarded(run.steps, lines))


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
    for key in ("messages", "traj"):
        if isinstance(value.get(key), list):
            return steps_of_messages(_listed(value[key], place), name)
    raise InputError(f"{place}: should be {SHAPES}, and has only {', '.join(map(repr, value)) or 'nothing'}"[:400])


def _listed(messages: list[Any], place: str) -> Iterator[Said]:
    return (said(message, f"{place}, message {at}") for at, message in enumerate(messages))

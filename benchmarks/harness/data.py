"""Benchmark data: haystacks (conversations, agent runs) with questions and the units that answer them.

benchmarks/datasets/README.md describes the format. What a memory may see is kept apart from what only scoring may: a
`Unit` and a `Question` have no ids, types, gold or needles, so a method under test cannot read them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tinymem.errors import InputError

__all__ = [
    "Call",
    "Claim",
    "Haystack",
    "Method",
    "Query",
    "Question",
    "Recalled",
    "Unit",
    "claimed",
    "lines_of",
    "read_haystacks",
    "set_name",
    "sha256",
]


@dataclass(frozen=True)
class Call:
    """A tool call as it was made; `arguments` is the JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Unit:
    """One thing that was said: all that a memory gets to see of it."""

    speaker: str
    text: str
    timestamp: datetime | None = None
    session: str | None = None
    tool_calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None

    @property
    def is_tool_use(self) -> bool:
        """True if the unit calls a tool or is a tool's result."""
        return bool(self.tool_calls) or self.tool_call_id is not None


@dataclass(frozen=True)
class Question:
    """The part of a query that a memory sees: its text and time."""

    text: str
    now: datetime | None = None


@dataclass(frozen=True)
class Query:
    """A question with what scoring needs. It is asked when `units[:cutoff]` are in the memory.

    `key` are the values that a right answer has, all of them, and `wrong` those that it has not: what held before.
    """

    id: str
    question: Question
    type: str
    gold: tuple[str, ...]
    cutoff: int
    needle: str | None = None
    key: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Haystack:
    """One conversation or agent run; `ids[i]` is the id of `units[i]`, queries are in order of their cutoffs."""

    id: str
    units: tuple[Unit, ...]
    ids: tuple[str, ...]
    queries: tuple[Query, ...]

    @cached_property
    def places(self) -> dict[str, int]:
        """Return the place of each id in `units`."""
        return {name: at for at, name in enumerate(self.ids)}

    @property
    def is_agent_run(self) -> bool:
        """True if tools were used in the haystack."""
        return any(unit.is_tool_use for unit in self.units)


class Claim(NamedTuple):
    """A range of characters of a unit, by its place among those added, that is in a recalled text."""

    place: int
    start: int
    end: int


@dataclass(frozen=True)
class Recalled:
    """The text that a method adds to the prompt, with fence, headers and dates."""

    text: str
    claims: tuple[Claim, ...]


class Method(Protocol):
    """A method under measurement: one memory, empty when it is made."""

    def add(self, units: Sequence[Unit]) -> None:
        """Take in the next units, in the order of time."""

    def recall(self, question: Question, budget: int) -> Recalled:
        """Return the addition to the prompt for `question`, in at most `budget` cl100k_base tokens."""
        ...

    def close(self) -> None:
        """Release everything."""


def read_haystacks(path: Path, limit: int | None = None) -> Iterator[Haystack]:
    """The haystacks of a file, gzip'd JSON lines or plain ones, the first `limit`; InputError names the bad line."""
    number = 0
    try:
        for number, line in enumerate(lines_of(path), 1):
            if limit is not None and number > limit:
                return
            yield _haystack(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path.name}, line {number}: not a haystack: {error!r}") from error


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, gzip'd or plain; InputError where it cannot be read on."""
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for line in file:
                number += 1
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name}, after line {number}: {error}") from error


def set_name(file: str) -> str:
    """Return the name of a set by that of its file.

    >>> set_name("locomo-dev.jsonl.gz")
    'locomo-dev'
    """
    return file.removesuffix(".gz").removesuffix(".jsonl")


def sha256(path: Path) -> str:
    """Return the SHA-256 of the file, which identifies the data."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _haystack(record: Mapping[str, Any]) -> Haystack:
    ids = tuple(str(unit["id"]) for unit in record["units"])
    if len(set(ids)) < len(ids):
        raise ValueError("two units have the same id")
    queries = [_query(query, len(ids)) for query in record["queries"]]
    if unknown := {gold for query in queries for gold in query.gold} - set(ids):
        raise ValueError(f"gold names units that are not there: {', '.join(sorted(unknown))}")
    queries.sort(key=lambda query: query.cutoff)
    return Haystack(str(record["id"]), tuple(_unit(unit) for unit in record["units"]), ids, tuple(queries))


def _unit(record: Mapping[str, Any]) -> Unit:
    if not isinstance(record["text"], str) or not isinstance(record["speaker"], str):
        raise TypeError(f"unit {record['id']}: speaker and text must be strings")
    return Unit(
        speaker=record["speaker"],
        text=record["text"],
        timestamp=_moment(record.get("timestamp")),
        session=record.get("session"),
        tool_calls=tuple(Call(**call) for call in record.get("tool_calls") or ()),
        tool_call_id=record.get("tool_call_id"),
    )


def _query(record: Mapping[str, Any], units: int) -> Query:
    gold, needle = tuple(record["gold"]), record.get("needle")
    if not gold and needle is None:
        raise ValueError(f"query {record['id']} has neither gold nor a needle")
    return Query(
        id=str(record["id"]),
        question=Question(record["text"], _moment(record.get("timestamp"))),
        type=str(record["type"]),
        gold=gold,
        cutoff=min(units, int(record.get("cutoff", units))),
        needle=needle,
        key=_key(record),
        wrong=_values(record.get("stale")),
    )


def _key(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of a right answer. The needle is one where a person asks for it, who names no cutoff."""
    answer = record.get("answer")
    if answer is not None:
        return tuple(map(str, answer)) if isinstance(answer, list) else (str(answer),)
    if record.get("newest"):
        return _values(record["newest"])
    return (record["needle"],) if record.get("needle") and "cutoff" not in record else ()


def _values(found: Sequence[Mapping[str, Any]] | None) -> tuple[str, ...]:
    return tuple(str(one["value"]) for one in found or ())


def _moment(text: str | None) -> datetime | None:
    """An aware time; one without a time zone is taken to be UTC."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def claimed(haystack: Haystack, recalled: Recalled) -> list[dict[str, Any]]:
    """The claims with the ids that only scoring knows."""
    return [{"id": haystack.ids[place], "start": start, "end": end} for place, start, end in recalled.claims]

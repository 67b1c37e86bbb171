"""A filter of steps: one list of limits, read in three ways.

`Filter.accepts` asks a step at hand, `Filter.mask` the rows of a catalog, and `Filter.condition` an engine, in SQL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tinymem.errors import InputError, safe_repr
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import to_utc
from tinymem.steps.content import clean

if TYPE_CHECKING:
    from tinymem.recall.snapshot import Snapshot
    from tinymem.steps.step import Step

__all__ = ["EVERYTHING", "POSTGRES", "SQLITE", "Beginning", "Condition", "Engine", "Filter", "tool_name"]

LONGEST_TOOL = 200  # characters of a tool's name that stand with a passage
HIGHEST = "\U0010ffff"  # the character behind all others


class Beginning(str):
    """The beginning of the names of several sessions, which stands where the name of one may stand.

    A type of its own, since any text may be a session's name.
    """


def tool_name(name: str) -> str:
    """Return a tool's name as it is stored with passages."""
    return clean(name[:LONGEST_TOOL]).replace("\n", " ")  # a name a line


class Limit(NamedTuple):
    """A limit of a filter: a column of a step, a relation, and the value on the other side of it."""

    column: str
    relation: str
    value: Any


# The relations as functions of the column's value and the limit's.
HOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    "begins": str.startswith,
    "lists": lambda lines, line: line in lines.split("\n"),
    "in": lambda number, numbers: number in numbers,
}


class Engine(NamedTuple):
    """The SQL of an engine, where engines differ: `{}` stands for the places of values."""

    place: str
    labels: str


SQLITE = Engine("?", "s.number IN (SELECT step FROM labels WHERE name = {} AND value = {})")
POSTGRES = Engine(
    "%({})s", "s.number IN (SELECT step FROM labels WHERE namespace = s.namespace AND name = {} AND value = {})"
)


class Condition(NamedTuple):
    """Conditions for steps `s`, each with an AND before it, and their values in order."""

    sql: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Filter:
    """The limits of a recall, a listing or a forgetting; None does not limit.

    Attributes:
        since: The time of the earliest step, itself included.
        until: The time of the latest step, itself included.
        session: The session of the steps, or the Beginning of the names of several.
        speaker: The speaker of the steps.
        tool: The name of a tool that the steps call.
        type: The type of the steps, as `"action"`.
        before: A time that all steps are before.
        labels: Names and values (JSON) of metadata. Only a journal knows them, and finds the numbers.
        numbers: The numbers of the steps that have the labels, if there are any; others are not accepted. They are what
            the labels come to now: filters of the same limits are equal, whatever was added since.
    """

    since: datetime | None = None
    until: datetime | None = None
    session: str | None = None
    speaker: str | None = None
    tool: str | None = None
    type: str | None = None
    before: datetime | None = None
    labels: tuple[tuple[str, str], ...] = ()
    numbers: tuple[int, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("since", "until", "before"):
            if (time := getattr(self, name)) is not None:
                object.__setattr__(self, name, to_utc(name, time))
        for name in ("session", "speaker", "tool", "type"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise InputError(f"{name} must be a string, not {safe_repr(text)}")

    @property
    def limits(self) -> list[Limit]:
        """The limits that are set, in the order in which they are cheap to apply."""
        limits = [
            Limit("time", relation, time.timestamp())
            for relation, time in ((">=", self.since), ("<=", self.until), ("<", self.before))
            if time is not None
        ]
        if self.labels:
            limits.append(Limit("number", "in", self.numbers))
        if self.session is not None:
            relation = "begins" if isinstance(self.session, Beginning) else "="
            limits.append(Limit("session", relation, clean(self.session)))
        names = ("speaker", self.speaker), ("type", self.type)
        limits += [Limit(column, "=", clean(name)) for column, name in names if name is not None]
        if self.tool is not None:
            limits.append(Limit("tools", "lists", tool_name(self.tool)))
        return limits

    def accepts(self, step: Step) -> bool:
        """Return True if a step is within all limits."""
        calls = step.tool_calls if isinstance(step, ActionStep) else ()
        texts = {"session": step.session, "speaker": step.speaker, "type": step.type}
        values = {
            **{name: None if text is None else clean(text) for name, text in texts.items()},
            "tools": "\n".join(tool_name(call.name) for call in calls) if calls else None,
            "time": step.timestamp.timestamp(),
            "number": step.step_number,
        }
        return all(
            (found := values[column]) is not None and HOLDS[relation](found, value)
            for column, relation, value in self.limits
        )

    def mask(self, catalog: Snapshot) -> npt.NDArray[np.bool_]:
        """Mark the rows of a catalog that are within all limits: `(len(catalog),)`."""
        names = {
            "session": catalog.sessions, "speaker": catalog.speakers, "type": catalog.types, "tools": catalog.toolsets,
        }  # fmt: skip
        mask = np.ones(len(catalog.id), np.bool_)
        for column, relation, value in self.limits:
            if column == "time":
                mask &= HOLDS[relation](catalog.time, value)
            elif column == "number":
                mask &= np.isin(catalog.step, np.array(value, np.int64))
            elif relation == "=":
                mask &= getattr(catalog, column) == names[column].get(value, -2)
            else:
                codes = [code for name, code in names[column].items() if HOLDS[relation](name, value)]
                mask &= np.isin(getattr(catalog, column), codes)
        return mask

    def condition(self, engine: Engine) -> Condition:
        """Return the limits in the SQL of an engine, but for tools, which no table of steps has."""
        values: dict[str, Any] = {}

        def place(value: Any) -> str:
            name = f"limit{len(values)}"
            values[name] = value
            return engine.place.format(name)

        parts = [engine.labels.format(*map(place, label)) for label in self.labels]
        for column, relation, value in self.limits:
            if relation == "begins":
                parts.append(f"s.{column} >= {place(value)} AND s.{column} < {place(value + HIGHEST)}")
            elif column not in ("number", "tools"):
                parts.append(f"s.{column} {relation} {place(value)}")
        return Condition("".join(f" AND {part}" for part in parts), values)


EVERYTHING = Filter()

"""The snapshot: arrays over all passages, as of one state of the journal. Nothing in them ever changes.

Row i of every array is the same passage. Rows are in the order of the journal, which is the order of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.embedders.batches import to_unit
from tinymem.errors import describe_type
from tinymem.protocols import EmbeddedPassage, Ids, Vectors
from tinymem.recall.query.identifiers import Codes, Seen, read

__all__ = ["COLUMNS", "KINDS", "TABLES", "PassagePlace", "Room", "Snapshot", "ranges"]

PassagePlace: TypeAlias = tuple[int, int, int, int]  # number of its step, part, start, end

# Weights depend on the kind of a passage: a tool's output, an act of the agent, or something said.
TOOL, ACT, SAID = range(3)
KINDS = {
    "observation": TOOL, "error": TOOL, "thought": ACT, "announcement": ACT, "call": ACT, "code": ACT, "signal": ACT,
    "planning": ACT, "scratchpad": ACT,
}  # fmt: skip
READ_BATCH = 16_384  # passages whose identifiers are noted at once
LEAST_ROOM = 64  # rows of a new array
EARLIEST, LATEST = -62_135_596_800, 253_402_300_800  # the years 1 to 9999, in rounded seconds since 1970


# The fields that recall looks up for some passages only; those that it searches stand in columns of their own.
PLACE = np.dtype(
    [(name, "<i8") for name in ("part", "start", "end", "speaker", "type", "tools")]
    + [("kind", "i1"), ("reply", "?"), ("announces", "?"), ("asks", "?"), ("milestone", "?")]
    + [("rule", "?")],
    align=True,
)
COLUMNS: dict[str, npt.DTypeLike] = {
    "vectors": "<f4", "id": "<i8", "step": "<i8", "session": "<i8", "time": "<f8", "places": PLACE,
    "identifiers": "<u4", "identifier_ends": "<i8",
}  # fmt: skip
# The names that stand in columns as small integers, and the fields of a passage that have them
TABLES = {"sessions": "session", "speakers": "speaker", "types": "type", "toolsets": "tools"}


@dataclass
class Room:
    """An array with room behind its first `used` rows, so that most times a longer one takes no copy."""

    data: npt.NDArray[Any]
    used: int = 0

    def followed(self, used: int, rows: npt.NDArray[Any], least: int) -> Room:
        """Return the room with `rows` behind its first `used`: this one, unless others stand there or it is full.

        A new one has room for `least` rows and more.
        """
        end = used + len(rows)
        room = self
        if used < self.used or end > len(self.data):
            data = np.empty((max(end, 2 * used, least, LEAST_ROOM), *self.data.shape[1:]), self.data.dtype)
            data[:used] = self.data[:used]
            room = Room(data)
        room.used = end  # first, so that rows that an interrupt leaves half written are not taken for free ones
        room.data[used:end] = rows
        return room


def ranges(starts: Ids, lengths: Ids) -> Ids:
    """Return the numbers in ranges that begin at `starts`, one range after the other.

    >>> ranges(np.array([10, 20]), np.array([3, 2])).tolist()
    [10, 11, 12, 20, 21]
    """
    return np.repeat(starts + lengths - np.cumsum(lengths), lengths) + np.arange(lengths.sum())


def _coded(codes: Mapping[str, int], names: Sequence[str | None]) -> tuple[Mapping[str, int], Ids]:
    """Return the integers of names, with new ones for those that have none, and names as these; -1 for None.

    ValueError for what is no name.
    """
    new = [name for name in dict.fromkeys(names) if name is not None and name not in codes]
    for name in new:
        if not isinstance(name, str):
            raise ValueError(f"{describe_type(name)} is not a name")
    known = {**codes, **dict(zip(new, count(len(codes))))} if new else codes
    return known, np.array([-1 if name is None else known[name] for name in names], np.int64)


class Snapshot:
    """Arrays over passages. `with_tail` returns a longer one, which shares the arrays of this one where it can.

    Identifiers stand in a column of their own, one passage after the other, and their ends in another. One thread at a
    time may make a snapshot longer; those who have it read on meanwhile.

    Attributes:
        dimensions: The length of the vectors.
        rooms: The columns, with room behind them, by their names in COLUMNS.
        sessions, speakers, types, toolsets: The integers that stand in columns for names; a toolset has the names of
            the tools that a step calls together, a line each.
        seen: Where identifiers come up first.
        rewrites: How often steps of the journal had been forgotten or marked when the passages were read.
        filed: The passages that are in files, or were to be.
        last_id, last_step: The id of the newest passage, and the number of its step; 0 if there is none.
    """

    sessions: Mapping[str, int]
    speakers: Mapping[str, int]
    types: Mapping[str, int]
    toolsets: Mapping[str, int]
    vectors: Vectors  # (n, dimensions), each of length 1 or 0
    id: Ids
    step: Ids
    session: Ids
    time: npt.NDArray[np.float64]
    places: npt.NDArray[np.void]
    identifiers: Codes
    identifier_ends: Ids
    # fields of `places`
    part: Ids
    start: Ids
    end: Ids
    speaker: Ids
    type: Ids
    tools: Ids
    kind: npt.NDArray[np.int8]
    reply: npt.NDArray[np.bool_]
    announces: npt.NDArray[np.bool_]
    asks: npt.NDArray[np.bool_]
    milestone: npt.NDArray[np.bool_]
    rule: npt.NDArray[np.bool_]

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        vars(self).update((table, {}) for table in TABLES)
        self.seen = Seen()
        self.rewrites = -1
        self.filed = 0
        rooms = {name: Room(np.empty(0, dtype)) for name, dtype in COLUMNS.items()}
        rooms["vectors"] = Room(np.empty((0, dimensions), np.float32))
        self.fill(rooms)

    def fill(self, rooms: Mapping[str, Room]) -> None:
        """Take the rows of `rooms` as those of a new snapshot."""
        self.rooms = rooms
        arrays = {name: room.data[: room.used] for name, room in rooms.items()}
        places = arrays["places"]
        vars(self).update(arrays, **{name: places[name] for name in PLACE.names or ()})
        self.last_id, self.last_step = (int(column[-1]) if len(column) else 0 for column in (self.id, self.step))

    def __len__(self) -> int:
        return len(self.id)

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last time of a step."""
        return (float(self.time.min()), float(self.time.max())) if len(self) else (0.0, 0.0)

    def places_of(self, rows: Ids) -> list[PassagePlace]:
        """Return where passages stand: the numbers of their steps, their parts, starts and ends."""
        columns = (column[rows].tolist() for column in (self.step, self.part, self.start, self.end))
        return [*zip(*columns, strict=True)]

    def with_tail(self, rows: Sequence[Any], room: int = 0) -> Snapshot:
        """Return a snapshot with passages, as `Journal.passages` returns them, behind those that are here.

        Where arrays are moved, they get `room` for so many passages.

        Raises:
            ValueError, TypeError, OverflowError: A row is not a passage, or does not come after the last one.
        """
        if not rows:
            return self
        new = _columns(rows)
        self._check(new)
        longer = copy(self)
        for table, column in TABLES.items():
            known, codes = _coded(getattr(self, table), getattr(new, column))
            setattr(longer, table, known)
            new = new._replace(**{column: codes})
        added = _columns_of(new, len(self.identifiers))
        rooms = {
            name: column.followed(len(getattr(self, name)), added[name], room) for name, column in self.rooms.items()
        }
        longer.fill(rooms)
        # the same identifiers always have tables of the same size, and with these the same that share a slot
        is_moved = rooms["identifiers"] is not self.rooms["identifiers"]
        total = len(longer.identifiers)
        is_new = is_moved or Seen.slots(total) != self.seen.tables.shape[1]
        longer._note_identifiers(Seen(total) if is_new else self.seen, 0 if is_new else len(self))
        return longer

    def _check(self, new: Any) -> None:
        """Raise ValueError unless ids and steps are in order, and vectors, places and times are possible."""
        if new.vector.shape[1:] != (self.dimensions,):
            raise ValueError(f"the vectors of the passages from {new.id[:1]} on are of another length")
        is_possible = np.diff(new.id, prepend=self.last_id) > 0
        is_possible &= np.diff(new.step.astype(np.float64), prepend=self.last_step) >= 0
        is_possible &= (new.part >= 0) & (new.start >= 0) & (new.start <= new.end)
        is_possible &= (new.time >= EARLIEST) & (new.time <= LATEST)
        if len(wrong := np.flatnonzero(~is_possible)):
            raise ValueError(f"passage {new.id[wrong[0]]} is out of order or has an impossible place")

    def _note_identifiers(self, seen: Seen, known: int) -> None:
        """Keep `seen`, which knows the identifiers of so many rows, with those of all rows here."""
        for first in range(known, len(self), READ_BATCH):
            rows = np.arange(first, min(first + READ_BATCH, len(self)))
            codes, lengths = self.identifiers_of(rows)
            seen.extend(codes, np.repeat(rows, lengths), np.repeat(self.kind[rows] == ACT, lengths))
        self.seen = seen

    def identifiers_of(self, rows: Ids) -> tuple[Codes, Ids]:
        """Return the hashed identifiers of passages `rows`, one passage after the other, and the count of each."""
        ends = self.identifier_ends
        starts = np.where(rows > 0, ends[rows - 1], 0)
        lengths = ends[rows] - starts
        return self.identifiers[ranges(starts, lengths)], lengths

    def rows_with(self, codes: Codes) -> tuple[Ids, Codes]:
        """Return the rows that hold one of these identifiers, a row once for each, and which one it is."""
        every = self.identifiers
        places = np.flatnonzero(len(codes) and np.isin(every, codes))
        return np.searchsorted(self.identifier_ends, places, "right"), every[places]


def _columns(rows: Sequence[Any]) -> Any:
    """Return passages as one whose fields are columns; ValueError, TypeError or OverflowError for what is none."""
    columns: Any = EmbeddedPassage._make(zip(*rows, strict=True))
    numbers = {name: np.array(getattr(columns, name), np.int64) for name in ("id", "step", "part", "start", "end")}
    vectors = np.frombuffer(b"".join(columns.vector), "<f2").reshape(len(rows), -1)
    return columns._replace(**numbers, vector=vectors, time=np.array(columns.time, np.float64))


def _columns_of(new: Any, identifiers: int) -> dict[str, npt.NDArray[Any]]:
    """Return passages whose names are integers as the columns of a snapshot, behind so many `identifiers`."""
    codes = read(b"".join(new.identifiers))
    ends = identifiers + np.cumsum([len(each) // codes.itemsize for each in new.identifiers])
    return {
        "vectors": _unit_vectors(new), "id": new.id, "step": new.step, "session": new.session, "time": new.time,
        "places": _places_of(new), "identifiers": codes, "identifier_ends": ends,
    }  # fmt: skip


def _places_of(new: Any) -> npt.NDArray[np.void]:
    kinds, places = np.array(new.kind, object), np.zeros(len(new.id), PLACE)
    for name in ("part", "start", "end", "speaker", "type", "tools", "asks", "milestone"):
        places[name] = getattr(new, name)
    places["kind"] = [KINDS.get(kind, SAID) for kind in new.kind]
    places["reply"] = (kinds == "reply") | (kinds == "final_answer")
    places["announces"] = kinds == "announcement"
    places["rule"] = kinds == "rule"
    return places


def _unit_vectors(new: Any) -> Vectors:
    """Return the vectors of passages, each of length 1 or 0; ValueError for one that is not finite."""
    vectors: Vectors = new.vector.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError(f"a vector of the passages {new.id[0]} to {new.id[-1]} is not finite")
    return to_unit(vectors)  # they are about that, since half precision rounds

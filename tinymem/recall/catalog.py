"""The catalog: arrays over all passages, read from the journal into memory and then extended, or mapped from files.

Row i of every array is the same passage. Rows are in the order of the journal, which is the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.errors import describe_type
from tinymem.protocols import EmbeddedPassage, Ids, PassageColumns, Vectors
from tinymem.recall.query.identifiers import Codes, Seen, read
from tinymem.stores.filter import Filter

__all__ = ["COLUMNS", "KINDS", "Catalog", "Growing", "NameCodes", "Names", "columns",
           "restore_overflowed"]  # fmt: skip

# Weights depend on the kind of a passage: a tool's output, an act of the agent, or something said.
KINDS = {
    "observation": 0, "error": 0,
    "thought": 1, "announcement": 1, "call": 1, "code": 1, "signal": 1, "planning": 1, "scratchpad": 1,
}  # fmt: skip
ACT, SAID = 1, 2
AT_ONCE = 16_384  # passages whose identifiers are noted at once
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


class Growing:
    """A numpy array that grows at its end, by doubling, so that appending is cheap.

    It may begin as the first `used` rows of `data`; where these cannot be written, they are copied when it grows.
    """

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self._shape = () if width is None else (width,)
        self._data: npt.NDArray[Any] = np.empty((0, *self._shape), dtype)
        self._used = 0

    @classmethod
    def over(cls, data: npt.NDArray[Any], used: int) -> Growing:
        """Return one that begins as the first `used` rows of `data`."""
        growing = cls(data.dtype, *data.shape[1:])
        growing._data, growing._used = data, used
        return growing

    def extend(self, rows: Any) -> None:
        """Append `rows`, of shape `(n,)` or `(n, width)`."""
        added = np.asarray(rows, self._data.dtype).reshape(-1, *self._shape)
        self.room(len(added))[:] = added
        self.keep(len(added))

    def room(self, count: int) -> npt.NDArray[Any]:
        """Return `count` rows behind the last one, to be written; they are appended once `keep` is called."""
        need = self._used + count
        if need > len(self._data) or not self._data.flags.writeable:
            data = np.empty((max(need, 2 * self._used, 64), *self._shape), self._data.dtype)
            data[: self._used] = self._data[: self._used]
            self._data = data
        return self._data[self._used : need]

    def has_room(self, count: int) -> bool:
        """Return whether `count` rows can be appended without moving those that are there."""
        return self._used + count <= len(self._data) and self._data.flags.writeable

    def keep(self, count: int) -> None:
        """Append the first `count` rows of the room."""
        self._used += count

    @property
    def array(self) -> npt.NDArray[Any]:
        """All rows so far, as a view."""
        return self._data[: self._used]


def restore_overflowed(vectors: Vectors) -> None:
    """Give back a direction to vectors that were too large for half precision, and so have infinite components.

    Beside these the other components count for little. Since then vectors are of length 1 before they are stored.
    """
    overflowed = np.isinf(vectors)
    if overflowed.any():
        rows = overflowed.any(axis=1) & ~np.isnan(vectors).any(axis=1)
        vectors[rows] = np.where(overflowed[rows], np.sign(vectors[rows]), 0)


def columns(dimensions: int) -> dict[str, Growing]:
    """Return the columns of a catalog without passages."""
    return {name: Growing(dtype, dimensions if name == "vectors" else None) for name, dtype in COLUMNS.items()}


def _each(values: Mapping[Any, int], keys: Sequence[Any]) -> Ids:
    """Return the values of `keys`."""
    return np.fromiter(map(values.__getitem__, keys), np.int64, len(keys))


@dataclass
class NameCodes:
    """Small integers for names; -1 for None."""

    names: dict[str, int]

    def of(self, name: str | None) -> int:
        """Return the integer of `name`, a new one if it has none; ValueError for what is no name."""
        if name is None:
            return -1
        if name not in self.names and not isinstance(name, str):
            raise ValueError(f"{describe_type(name)} is not a name")
        return self.names.setdefault(name, len(self.names))

    def all_of(self, names: Sequence[str | None]) -> Ids:
        """Return the integers of `names`, of which few differ."""
        return _each({name: self.of(name) for name in dict.fromkeys(names)}, names)


class Names:
    """The names that stand in columns as small integers."""

    def __init__(self) -> None:
        self.sessions, self.speakers, self.types = NameCodes({}), NameCodes({}), NameCodes({})
        self.toolsets = NameCodes({})  # names of tools that a step calls together, a line each


class Catalog:
    """Arrays over passages; `extend` has their names and contents.

    The columns may begin as arrays that were made before, as those of files; `seen` and `names` are then of the same
    passages. Identifiers stand in a column of their own, one passage after the other, and their ends in another.
    """

    def __init__(self, dimensions: int, held: dict[str, Growing] | None = None, names: Names | None = None) -> None:
        self.dimensions = dimensions
        self.columns = columns(dimensions) if held is None else held
        self.seen = Seen()
        self.names = names = Names() if names is None else names
        self.sessions, self.speakers, self.types = names.sessions, names.speakers, names.types
        self.toolsets = names.toolsets
        self.removed: Sequence[tuple[int, int]] = ()  # runs of empty rows, first and end, whose steps were forgotten
        self.is_gone: Callable[[], bool] = lambda: False  # True once its files have changed, so that it says nothing
        self.whole: int | None = None  # the passages of the memory, where this is a slice of them, its last step,
        self.last: int | None = None
        self.frequency: Mapping[int, int] | None = None  # and how many have each identifier of the question
        self._before = (0, 0)

    def following(self) -> Catalog:
        """Return an empty catalog for the passages that come behind these, with the same names."""
        piece = Catalog(self.dimensions, names=self.names)
        piece._before = (self.last_id, int(self.step[-1]) if len(self) else 0)
        return piece

    def view(self) -> Catalog:
        """Return the passages that are here now, in the same arrays, to which none is added: they are attributes."""
        held = {name: Growing.over(column.array, len(column.array)) for name, column in self.columns.items()}
        view = Catalog(self.dimensions, held, self.names)
        view.seen, view.removed, view.is_gone, view._before = self.seen, self.removed, self.is_gone, self._before
        arrays = {name: column.array for name, column in view.columns.items()}
        vars(view).update(arrays, **{name: arrays["places"][name] for name in PLACE.names or ()})
        return view

    def __len__(self) -> int:
        return len(self.columns["id"].array)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        held = self.__dict__.get("columns", {})
        array: npt.NDArray[Any]
        if name in held:
            array = held[name].array
            return array
        if held and name in (PLACE.names or ()):
            array = held["places"].array[name]
            return array
        raise AttributeError(name)

    @property
    def vectors(self) -> Vectors:
        """The vectors of the passages, `(n, dimensions)` float32, each of length 1 or 0."""
        return self.columns["vectors"].array

    @property
    def count(self) -> int:
        """The number of all passages of the memory."""
        return len(self) if self.whole is None else self.whole

    @property
    def last_step(self) -> int:
        """The number of the newest step of the memory."""
        return int(self.step[-1]) if self.last is None else self.last

    def frequencies(self, codes: Codes, counts: Ids) -> Ids:
        """Return the number of all passages with each of these identifiers; `counts` have it here."""
        if self.frequency is None:
            return counts
        return np.array([self.frequency.get(code, 0) for code in codes.tolist()], np.int64)

    @property
    def last_id(self) -> int:
        """The id of the newest passage; 0 if there is none."""
        return int(self.id[-1]) if len(self) else self._before[0]

    @property
    def last_row(self) -> int:
        """The newest row that is not empty; -1 if there is none."""
        last = len(self)
        for first, end in reversed(self.removed):
            last = first if end == last else last
        return last - 1

    def allowed(self, only: Filter, hidden: Collection[int] = ()) -> npt.NDArray[np.bool_]:
        """Mark the rows that may be recalled: `(len(self),)`; those of `hidden` steps (numbers) may not."""
        allowed = only.mask(self)
        gone = np.array(sorted(hidden), np.int64)
        spans = (np.searchsorted(self.step, gone, side) for side in ("left", "right"))
        for first, end in chain(zip(*spans, strict=True), self.removed):
            allowed[first:end] = False
        return allowed

    def has_room(self, rows: Sequence[EmbeddedPassage]) -> bool:
        """Return whether these passages can be appended without moving those that are here."""
        identifiers = sum(len(row.identifiers) for row in rows) // 4
        needs = {name: identifiers if name == "identifiers" else len(rows) for name in self.columns}
        return self.seen.has_room(len(self.identifiers) + identifiers) and all(
            column.has_room(needs[name]) for name, column in self.columns.items()
        )

    def extend(self, rows: Sequence[Any]) -> None:
        """Append passages as `Journal.passages` returns them.

        Raises:
            ValueError, TypeError, OverflowError: A row is not a passage.
        """
        if rows:
            self.append(PassageColumns.of(rows))

    def append(self, new: PassageColumns) -> None:
        """Append passages that are columns already; errors as in `extend`."""
        if not (count := len(new.id)):
            return
        step, time = new.steps[new.at], new.time[new.at]
        self._check(new.id, np.array([step, new.part, new.start, new.end, time], np.float64))
        vectors = self._unit_vectors(new)
        places = np.zeros(count, PLACE)
        names, kinds = self.names, dict.fromkeys(new.kind)
        filled = {
            "part": new.part, "start": new.start, "end": new.end, "asks": new.asks,
            "milestone": new.milestone[new.at],
            "kind": _each({kind: KINDS.get(kind, SAID) for kind in kinds}, new.kind),
            "reply": _each({kind: kind in ("reply", "final_answer") for kind in kinds}, new.kind),
            "announces": _each({kind: kind == "announcement" for kind in kinds}, new.kind),
            "rule": _each({kind: kind == "rule" for kind in kinds}, new.kind),
            "speaker": names.speakers.all_of(new.speaker)[new.at],
            "type": names.types.all_of(new.type)[new.at],
            "tools": names.toolsets.all_of(new.tools),
        }  # fmt: skip
        for name, values in filled.items():
            places[name] = values
        added = {
            "id": new.id, "step": step, "time": time, "places": places,
            "session": names.sessions.all_of(new.session)[new.at],
        }  # fmt: skip
        for name, some in added.items():
            self.columns[name].extend(some)
        self.columns["vectors"].keep(len(vectors))
        codes, before = read(new.identifiers), len(self.identifiers)
        self.columns["identifier_ends"].extend(before + np.cumsum(new.identifier_bytes // codes.itemsize))
        self.columns["identifiers"].extend(codes)
        self._note_identifiers(len(self) - count)

    def _unit_vectors(self, new: PassageColumns) -> Vectors:
        """Return the vectors of passages in the room for them; ValueError for those of another length."""
        if new.vectors.shape[1] != self.dimensions:
            raise ValueError(f"the vectors of the passages {new.id[0]} to {new.id[-1]} are of another length")
        vectors = self.columns["vectors"].room(len(new.id))
        vectors[:] = new.vectors
        restore_overflowed(vectors)
        if not np.isfinite(vectors).all():
            raise ValueError(f"a vector of the passages {new.id[0]} to {new.id[-1]} is not finite")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # about 1, since half precision rounds
        vectors /= np.where(lengths == 0, 1, lengths)
        return vectors

    def _check(self, ids: Ids, places: npt.NDArray[np.float64]) -> None:
        """Raise ValueError unless ids and steps are in order, and parts, offsets and times are possible."""
        step, part, start, end, time = places
        last = self.step[-1] if len(self) else self._before[1]
        ordered = np.diff(ids, prepend=self.last_id) > 0
        ordered &= np.diff(step, prepend=last) >= 0
        within = (part >= 0) & (start >= 0) & (start <= end) & (time >= EARLIEST) & (time <= LATEST)
        if len(wrong := np.flatnonzero(~(ordered & within))):
            raise ValueError(f"passage {ids[wrong[0]]} is out of order or has an impossible place")

    def _note_identifiers(self, new: int) -> None:
        """Record the identifiers of the rows from `new` on, or of all rows in a new table when the old one is full."""
        if not self.seen.has_room(len(self.identifiers)):
            self.seen, new = Seen(len(self.identifiers)), 0
        self.note_identifiers(self.seen, new)

    def note_identifiers(self, seen: Seen, new: int) -> None:
        """Let `seen`, which knows the rows before `new`, take in the identifiers of those from there on.

        A row that was emptied holds zeros, which are no identifier.
        """
        for first in range(new, len(self), AT_ONCE):
            rows = np.arange(first, min(first + AT_ONCE, len(self)))
            codes, lengths = self.identifiers_of(rows)
            real, typed = codes > 0, np.repeat(self.kind[rows] == ACT, lengths)
            seen.extend(codes[real], np.repeat(rows, lengths)[real], typed[real])

    def identifiers_of(self, rows: Ids) -> tuple[Codes, Ids]:
        """Return the hashed identifiers of passages `rows`, one passage after the other, and the count of each."""
        ends = self.identifier_ends
        starts = np.where(rows > 0, ends[rows - 1], 0)
        lengths = ends[rows] - starts
        where = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(lengths.sum())
        return self.identifiers[where], lengths

    def rows_with(self, codes: Codes) -> tuple[Ids, Codes]:
        """Return the rows that hold one of these identifiers, a row once for each, and which one it is."""
        every = self.identifiers
        places = np.flatnonzero(np.isin(every, codes))
        return np.searchsorted(self.identifier_ends, places, "right"), every[places]

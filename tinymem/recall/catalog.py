"""The catalog: arrays over all passages in memory, loaded once from the journal, then extended.

Row i of every array is the same passage. Rows are in the order of the journal, which is the order of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.errors import kind_of
from tinymem.protocols import Ids, TokenIds, Vectors
from tinymem.recall.query.identifiers import Codes, Seen, read

__all__ = ["KINDS", "Catalog", "Growing"]

# Weights depend on the kind of a passage: a tool's output, an act of the agent, or something said.
KINDS = {
    "observation": 0, "error": 0,
    "thought": 1, "call": 1, "code": 1, "signal": 1, "planning": 1, "scratchpad": 1,
}  # fmt: skip
ACT, SAID = 1, 2
EARLIEST, LATEST = -62_135_596_800, 253_402_300_800  # the years 1 to 9999, in rounded seconds since 1970


class Growing:
    """A numpy array that grows at its end, by doubling, so that appending is cheap."""

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self._shape = () if width is None else (width,)
        self._data = np.empty((0, *self._shape), dtype)
        self._used = 0

    def extend(self, rows: Any) -> None:
        """Append `rows`, of shape `(n,)` or `(n, width)`."""
        added = np.asarray(rows, self._data.dtype).reshape(-1, *self._shape)
        need = self._used + len(added)
        if need > len(self._data):
            data = np.empty((max(need, 2 * len(self._data), 64), *self._shape), self._data.dtype)
            data[: self._used] = self._data[: self._used]
            self._data = data
        self._data[self._used : need] = added
        self._used = need

    @property
    def array(self) -> npt.NDArray[Any]:
        """All rows so far, as a view."""
        return self._data[: self._used]


@dataclass
class _Codes:
    """Small integers for names; -1 for None."""

    names: dict[str, int]

    def of(self, name: str | None) -> int:
        if name is None:
            return -1
        if name not in self.names and not isinstance(name, str):
            raise ValueError(f"{kind_of(name)} is not a name")
        return self.names.setdefault(name, len(self.names))


class _Ragged:
    """Rows of different lengths, one after the other."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._values, self._ends = Growing(dtype), Growing(np.int64)

    def extend(self, values: Any, lengths: Any) -> None:
        """Append rows of these `lengths`, whose values follow each other."""
        self._ends.extend(len(self._values.array) + np.cumsum(lengths))
        self._values.extend(values)

    def of(self, rows: Ids) -> tuple[npt.NDArray[Any], Ids]:
        """Return the values of `rows`, one row after the other, and the length of each."""
        ends = self._ends.array
        starts = np.where(rows > 0, ends[rows - 1], 0)
        lengths = ends[rows] - starts
        where = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(lengths.sum())
        return self._values.array[where], lengths

    def find(self, wanted: npt.NDArray[Any]) -> tuple[Ids, npt.NDArray[Any]]:
        """Return the rows of all values that are among those `wanted`, and these values."""
        values = self._values.array
        places = np.flatnonzero(np.isin(values, wanted))
        return np.searchsorted(self._ends.array, places, "right"), values[places]

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values.array)


class Catalog:
    """Arrays over passages; `extend` has their names and contents."""

    def __init__(self, dimensions: int, vocabulary: int = 0) -> None:
        self.dimensions = dimensions
        self._vectors = Growing(np.float32, dimensions)
        self._fields = {
            name: Growing(np.int64)
            for name in ("id", "step", "part", "start", "end", "session", "speaker", "type", "tools")
        }
        self._fields |= {"kind": Growing(np.int8), "reply": Growing(np.bool_), "asks": Growing(np.bool_)}
        self._fields |= {"milestone": Growing(np.bool_), "time": Growing(np.float64)}
        self._tokens, self._identifiers = _Ragged(np.uint16), _Ragged(np.uint32)
        self.seen = Seen()
        self.document_frequency = np.zeros(vocabulary, np.int64)
        self.sessions, self.speakers, self.types = _Codes({}), _Codes({}), _Codes({})
        self.toolsets = _Codes({})  # names of tools that a step calls together, a line each

    def __len__(self) -> int:
        return len(self._vectors.array)

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        fields = self.__dict__.get("_fields", {})
        if name in fields:
            array: npt.NDArray[Any] = fields[name].array
            return array
        raise AttributeError(name)

    @property
    def vectors(self) -> Vectors:
        """The vectors of the passages, `(n, dimensions)` float32, each of length 1 or 0."""
        return self._vectors.array

    @property
    def last_id(self) -> int:
        """The id of the newest passage; 0 if there is none."""
        return int(self._fields["id"].array[-1]) if len(self) else 0

    def extend(self, rows: Sequence[Any]) -> None:
        """Append passages as `Journal.passages` returns them, up to 65,536 at once.

        Raises:
            ValueError, TypeError, OverflowError: A row is not a passage.
        """
        if not rows:
            return
        (
            ids,
            step,
            part,
            start,
            end,
            kind,
            asks,
            vector,
            tokens,
            types,
            session,
            speaker,
            time,
            names,
            tools,
            marks,
        ) = zip(*rows, strict=True)
        vectors = np.frombuffer(b"".join(vector), "<f2").reshape(len(rows), self.dimensions)
        vectors = vectors.astype(np.float32)
        self._check(np.array(ids, np.int64), np.array([step, part, start, end, time], np.float64))
        if not np.isfinite(vectors).all():
            raise ValueError(f"a vector of the passages {ids[0]} to {ids[-1]} is not finite")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # about 1, since half precision rounds
        self._vectors.extend(vectors / np.where(lengths == 0, 1, lengths))
        columns = {
            "id": ids, "step": step, "part": part, "start": start, "end": end, "asks": asks, "time": time,
            "kind": [KINDS.get(k, SAID) for k in kind],
            "reply": [k in ("reply", "final_answer") for k in kind],
            "milestone": marks,
            "session": [self.sessions.of(s) for s in session],
            "speaker": [self.speakers.of(s) for s in speaker],
            "type": [self.types.of(t) for t in types],
            "tools": [self.toolsets.of(t) for t in tools],
        }  # fmt: skip
        for name, values in columns.items():
            self._fields[name].extend(values)
        self._extend_tokens(tokens)
        codes = read(b"".join(names))
        self._identifiers.extend(codes, [len(blob) // codes.itemsize for blob in names])
        self._note_identifiers(len(self) - len(rows))

    def _check(self, ids: Ids, places: npt.NDArray[np.float64]) -> None:
        """Raise ValueError unless ids and steps are in order, and parts, offsets and times are possible."""
        step, part, start, end, time = places
        last = self._fields["step"].array[-1:]
        ordered = np.diff(ids, prepend=self.last_id) > 0
        ordered &= np.diff(step, prepend=last if len(last) else step[:1]) >= 0
        within = (part >= 0) & (start >= 0) & (start <= end) & (time >= EARLIEST) & (time <= LATEST)
        if len(wrong := np.flatnonzero(~(ordered & within))):
            raise ValueError(f"passage {ids[wrong[0]]} is out of order or has an impossible place")

    def _extend_tokens(self, blobs: Sequence[bytes]) -> None:
        ids = np.frombuffer(b"".join(blobs), np.uint16)
        row = np.repeat(np.arange(len(blobs), dtype=np.uint32), [len(blob) // ids.itemsize for blob in blobs])
        held = np.sort(row << 16 | ids)  # each passage's ids together
        held = held[np.flatnonzero(np.diff(held, prepend=held[:1] ^ 1))]  # without duplicates
        self._tokens.extend(held & 0xFFFF, np.bincount(held >> 16, minlength=len(blobs)))
        if len(self.document_frequency):
            self.document_frequency += np.bincount(held & 0xFFFF, minlength=len(self.document_frequency))

    def _note_identifiers(self, new: int) -> None:
        """Record the identifiers of the rows from `new` on, or of all rows in a new table when the old one is full."""
        if not self.seen.has_room(len(self._identifiers)):
            self.seen, new = Seen(len(self._identifiers)), 0
        rows = np.arange(new, len(self))
        codes, lengths = self.identifiers_of(rows)
        self.seen.extend(codes, np.repeat(rows, lengths), np.repeat(self.kind[new:] == ACT, lengths))

    def tokens_of(self, rows: Ids) -> tuple[TokenIds, Ids]:
        """Return the distinct token ids of passages `rows`, one passage after the other, and the count of each."""
        return self._tokens.of(rows)

    def identifiers_of(self, rows: Ids) -> tuple[Codes, Ids]:
        """Return the hashed identifiers of passages `rows`, one passage after the other, and the count of each."""
        return self._identifiers.of(rows)

    def rows_with(self, codes: Codes) -> tuple[Ids, Codes]:
        """Return the rows that hold one of these identifiers, a row once for each, and which one it is."""
        return self._identifiers.find(codes)

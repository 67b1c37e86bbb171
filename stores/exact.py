"""A store that compares the query with every vector: exact, in memory, and fast up to about 100,000 vectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinymem.errors import ClosedError, InputError
from tinymem.protocols import Ids, Vectors

__all__ = ["DECIMALS", "ExactStore", "check_rows", "to_units"]

DECIMALS = 6  # float32 sums of equal vectors differ in the seventh decimal by place, and they must tie
_SMALLEST = 256  # rows of the first buffer


class ExactStore:
    """Exact nearest neighbours with numpy, in memory; filled from the journal whenever a memory is opened.

    A query over 100,000 vectors of 256 dimensions takes 5 to 10 ms. Similarities are rounded to six decimals, and equal
    ones come in the order of their ids, so that the answer is the same on every run. Any number of threads may use it.

    >>> store = ExactStore()
    >>> store.upsert([7, 8], np.array([[1, 0], [0.6, 0.8]], dtype=np.float32))
    >>> ids, similarities = store.query(np.array([1, 0], dtype=np.float32), k=2)
    >>> ids.tolist(), [round(float(similarity), 2) for similarity in similarities]
    ([7, 8], [1.0, 0.6])
    """

    in_memory = True  # no other process sees its vectors

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._empty(0)

    @classmethod
    def from_name(cls, argument: str, path: Path) -> ExactStore:
        """Return the store named `"exact"`; it takes no argument and does not use `path`."""
        if argument:
            raise InputError(f'the store "exact" takes no argument, but {argument!r} was given')
        return cls()

    @property
    def name(self) -> str:
        """The name of the store: `"exact"`."""
        return "exact"

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Add vectors `(n, dimensions)` under `ids`, or replace those that are there; it keeps nothing beside them.

        The first vectors decide the dimensions. If an id occurs twice, its last vector counts.

        Raises:
            InputError: The shapes do not fit, or a number is not finite; nothing is changed then.
        """
        units = to_units(vectors)
        check_rows(ids, units)
        if not len(ids):
            return
        keys = np.asarray(ids, dtype=np.int64)
        with self._lock:
            self._check(units.shape[1])
            rows = [self._rows.setdefault(key, len(self._rows)) for key in keys.tolist()]
            self._grow(units.shape[1])
            self._ids[rows] = keys
            # Duplicate ids are written one by one, since numpy does not define which of two values it keeps.
            last = {row: number for number, row in enumerate(rows)}
            self._vectors[list(last)] = units[list(last.values())]

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        """Return ids and cosine similarities of the `k` vectors closest to `vector` `(dimensions,)`, best first.

        Equal similarities are in the order of ids.

        Raises:
            InputError: The shape does not fit, or a number is not finite.
        """
        unit = to_units(vector)
        with self._lock:
            self._check(unit.shape[-1] if unit.ndim == 1 else -1)
            ids = self._ids[: self._count]
            similarities = np.zeros(0, np.float32)
            if len(ids):
                similarities = np.round(self._vectors[: self._count] @ unit, DECIMALS)
            best = _best(ids, similarities, k)
            return ids[best], similarities[best]

    def delete(self, ids: Sequence[int]) -> None:
        """Remove these ids; unknown ids are no error."""
        with self._lock:
            self._check()
            for key in ids:
                row, last = self._rows.pop(int(key), None), self._count
                if row is not None and row != last:  # the last row moves to the place that is free
                    self._ids[row], self._vectors[row] = self._ids[last], self._vectors[last]
                    self._rows[int(self._ids[row])] = row

    def ids(self) -> Ids:
        """Return all ids, in any order."""
        with self._lock:
            self._check()
            return self._ids[: self._count].copy()

    def vectors(self) -> Vectors:
        """Return all vectors `(n, dimensions)` of length 1 or 0, in the order of `ids`."""
        with self._lock:
            self._check()
            return self._vectors[: self._count].copy()

    def count(self) -> int:
        """Count the vectors."""
        with self._lock:
            self._check()
            return self._count

    def clear(self) -> None:
        """Remove everything; the next vectors may have other dimensions."""
        with self._lock:
            self._check()
            self._empty(0)

    def close(self) -> None:
        """Free the memory; any other call is a ClosedError from then on."""
        with self._lock:
            self._closed = True
            self._empty(0)

    def _empty(self, dimensions: int) -> None:
        self._rows: dict[int, int] = {}
        self._ids: Ids = np.zeros(0, dtype=np.int64)
        self._vectors: Vectors = np.zeros((0, dimensions), dtype=np.float32)

    @property
    def _count(self) -> int:
        return len(self._rows)

    def _check(self, dimensions: int | None = None) -> None:
        if self._closed:
            raise ClosedError("this store was closed: open it again")
        length = self._vectors.shape[1]
        if dimensions is not None and self._count and dimensions != length:
            raise InputError(f"this store holds vectors of {length} dimensions, but {dimensions} were given")

    def _grow(self, dimensions: int) -> None:
        """Grow the buffer for all rows by doubling, so that n single additions cost O(n) in all."""
        if self._count <= len(self._ids) and dimensions == self._vectors.shape[1]:
            return
        capacity = max(self._count, 2 * len(self._ids), _SMALLEST)
        ids, vectors = np.zeros(capacity, dtype=np.int64), np.zeros((capacity, dimensions), dtype=np.float32)
        if dimensions == self._vectors.shape[1]:
            ids[: len(self._ids)], vectors[: len(self._ids)] = self._ids, self._vectors
        self._ids, self._vectors = ids, vectors


def check_rows(ids: Sequence[int], rows: Vectors) -> None:
    """Check that `rows` is a matrix with one row for each id."""
    if rows.ndim != 2 or len(rows) != len(ids):
        raise InputError(f"{len(ids)} ids need vectors of shape ({len(ids)}, dimensions), not {rows.shape}")


def to_units(vectors: Vectors) -> Vectors:
    """Scale `vectors` to length 1, so that a dot product is the cosine; zero stays zero."""
    wide = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise InputError("a vector has a number that is not finite (NaN or infinity)")
    if not wide.size:
        return wide.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    units: Vectors = np.divide(wide, np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return units


def _best(ids: Ids, similarities: Vectors, k: int) -> Ids:
    """Return the places of the `k` best, best first, and of equals the lower id first."""
    places: Ids = np.arange(len(ids), dtype=np.int64)
    if k <= 0:
        return places[:0]
    if k < len(ids):  # all ties with the k-th stay, or the lower ids among them could be lost
        threshold = np.partition(similarities, len(ids) - k)[len(ids) - k]
        places = np.flatnonzero(similarities >= threshold)
    order = np.lexsort((ids[places], -similarities[places]))[:k]
    best: Ids = places[order]
    return best

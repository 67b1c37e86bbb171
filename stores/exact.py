"""The store of memories without an index: recall compares a question with every vector of the journal anyway."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinymem.errors import InputError
from tinymem.protocols import Ids, Vectors

__all__ = ["ExactStore"]


class ExactStore:
    """A store that holds nothing, for memories that are to have no index on disk. Recall is exact with every store.

    >>> ExactStore().name
    'exact'
    """

    name, in_memory = "exact", True

    @classmethod
    def from_name(cls, argument: str, path: Path) -> ExactStore:
        """Return the store named `"exact"`; it takes no argument and does not use `path`."""
        if argument:
            raise InputError(f'the store "exact" takes no argument, but {argument!r} was given')
        return cls()

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Hold nothing."""

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        """Return no ids and no similarities."""
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)

    def delete(self, ids: Sequence[int]) -> None:
        """Remove nothing."""

    def count(self) -> int:
        """Count 0."""
        return 0

    def clear(self) -> None:
        """Remove nothing."""

    def close(self) -> None:
        """Release nothing."""

"""A vector store over a dictionary, for tests that look into one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinymem.errors import ClosedError
from tinymem.protocols import Ids, Vectors


class DictStore:
    """Exact search over what it holds, in memory, but for all that a memory knows on a disk."""

    name = "dict"

    def __init__(self) -> None:
        self._held: dict[int, Vectors] | None = {}

    @property
    def held(self) -> dict[int, Vectors]:
        """The vectors by id; an error once it is closed."""
        if self._held is None:
            raise ClosedError("this store was closed: open it again")
        return self._held

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        self.held.update(zip(map(int, ids), vectors, strict=True))

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        ids = np.array(sorted(self.held), dtype=np.int64)
        cosines = np.array([self.held[key] @ vector for key in ids.tolist()], dtype=np.float32)
        best = np.argsort(-cosines, kind="stable")[:k]
        return ids[best], cosines[best]

    def delete(self, ids: Sequence[int]) -> None:
        for key in ids:
            self.held.pop(int(key), None)

    def count(self) -> int:
        return len(self.held)

    def clear(self) -> None:
        self.held.clear()

    def close(self) -> None:
        self._held = None

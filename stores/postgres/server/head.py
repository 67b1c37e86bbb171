"""The head of a namespace: what a transaction or a snapshot reads of it in its first round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinymem.stores.postgres.server.values import Planned

__all__ = ["LAST", "LOCK_HEAD", "READ_HEAD", "USED", "Head"]

SHORT = 2_000  # bytes of a setting up to which its value is read at once
_COUNTERS = "SELECT version, next_number, next_passage, passages, words, identity FROM namespaces WHERE id = %s"
_REST = (
    Planned(f"SELECT key, CASE WHEN octet_length(value) <= {SHORT} THEN value END FROM settings WHERE namespace = %s"),
    Planned("SELECT number, position + tokens FROM steps WHERE namespace = %s ORDER BY number DESC LIMIT 1"),
)
READ_HEAD = (Planned(_COUNTERS), *_REST)
# One statement after the other: what the first waits for, the others see.
LOCK_HEAD = (Planned(f"{_COUNTERS} FOR UPDATE"), *_REST)

# The embedder in use, and the newest passage that has a vector of it.
USED = "coalesce((SELECT value FROM settings WHERE namespace = %(ns)s AND key = 'embedder'), '')"
LAST = (
    f"coalesce((SELECT passage FROM vectors WHERE namespace = %(ns)s AND embedder = {USED} "
    "ORDER BY passage DESC LIMIT 1), 0)"
)


@dataclass
class Head:
    """A namespace's counters; `last` is the number of its last step, and `end` the position behind it.

    A long setting is None in `settings`. While a transaction writes, its counters run ahead: `more_passages` and
    `more_words` are to be added to the full-text index's counts; `is_dirty` is True once something was written.
    """

    version: int
    next_number: int
    next_passage: int
    passages: int
    words: int
    last: int
    end: int
    settings: dict[str, str | None]
    more_passages: int = 0
    more_words: int = 0
    is_dirty: bool = False

    @classmethod
    def read(cls, row: tuple[Any, ...], settings: Sequence[Any], end: Sequence[Any]) -> Head:
        """Return the head from the rows of `READ_HEAD` or `LOCK_HEAD`."""
        version, number, passage, passages, words, _ = row
        last, position = end[0] if end else (0, 0)
        return cls(version, number, passage, passages, words, last, position, dict(settings))

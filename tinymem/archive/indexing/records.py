"""Records of a vector store: a passage's vector, metadata to filter by, and its text where the store wants it."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from itertools import groupby
from typing import Any

import numpy as np

from tinymem.protocols import EmbeddedPassage, Journal, Metadata, Vectors, VectorStore
from tinymem.recall.catalog import restore_overflowed
from tinymem.recall.passages import slices
from tinymem.steps.serialization import load_step

__all__ = ["metadata_of", "upsert_options", "vectors_of"]


def vectors_of(rows: Sequence[EmbeddedPassage]) -> Vectors:
    """The vectors of passages as the journal gives them: `(len(rows), dimensions)` float32."""
    vectors = np.frombuffer(b"".join(row.vector for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)
    restore_overflowed(vectors)
    return vectors


def upsert_options(store: VectorStore, journal: Journal, rows: Sequence[EmbeddedPassage]) -> dict[str, Any]:
    """The arguments beyond ids and vectors that the store's `upsert` accepts."""
    more: dict[str, Any] = {}
    if "metadata" in signature(store.upsert).parameters:
        more["metadata"] = [metadata_of(row) for row in rows]
    if getattr(store, "documents", False):
        more["documents"] = _texts(journal, rows)
    return more


def metadata_of(row: EmbeddedPassage) -> Metadata:
    """The metadata of a passage; what its step has not got is left out."""
    found: dict[str, str | int | float | None] = {
        "step": row.step,
        "type": row.type,
        "time": row.time,
        "milestone": bool(row.milestone),
        "session": row.session,
        "speaker": row.speaker,
        "tool": ", ".join(row.tools.splitlines()) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _texts(journal: Journal, rows: Sequence[EmbeddedPassage]) -> list[str]:
    records = journal.steps(sorted({row.step for row in rows}))
    texts: list[str] = []
    for number, some in groupby(rows, key=lambda row: row.step):
        places = [(row.part, row.start, row.end) for row in some]
        # a step that another process forgets at this moment has no text
        texts += slices(load_step(records[number]), places) if number in records else [""] * len(places)
    return texts

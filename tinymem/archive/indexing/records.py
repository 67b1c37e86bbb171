"""Records of a vector store: a passage's vector, and metadata to filter by."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from tinymem.protocols import EmbeddedPassage, Metadata, Vectors, VectorStore

__all__ = ["metadata_of", "upsert_options", "vectors_of"]


def vectors_of(rows: Sequence[EmbeddedPassage]) -> Vectors:
    """The vectors of passages as the journal gives them: `(len(rows), dimensions)` float32."""
    return np.frombuffer(b"".join(row.vector for row in rows), "<f2").reshape(len(rows), -1).astype(np.float32)


def upsert_options(store: VectorStore, rows: Sequence[EmbeddedPassage]) -> dict[str, Any]:
    """The arguments beyond ids and vectors that the store's `upsert` accepts."""
    takes_metadata = "metadata" in signature(store.upsert).parameters
    return {"metadata": [metadata_of(row) for row in rows]} if takes_metadata else {}


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

"""Steps and passages for tests of journals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from contract import unit_vectors

from tinymem.protocols import Journal, PassageRow, StepRow, Vectors
from tinymem.protocols.settings import EMBEDDER


def row(number: int, id: str = "", **more: Any) -> StepRow:
    """A step of 7 tokens, a second after the one before it."""
    record = f'{{"n": {number}}}'
    made = StepRow(number, id or f"id-{number}", "message", None, None, 100.0 + number, 7, 7 * (number - 1), record)
    return replace(made, **more)


def add_next(journal: Journal, id: str) -> int:
    """Add a step with the next number, as a memory does, and return the number."""
    with journal.together():
        number = journal.next_number()
        journal.add([row(number, id, position=journal.end())])
    return number


def put(journal: Journal, texts: Sequence[str]) -> None:
    """Add a step for each text, with one passage."""
    first = journal.next_number()
    rows = [row(first + at) for at in range(len(texts))]
    journal.add(rows)
    passages = [(r.number, PassageRow(0, 0, len(t), "message", False, t)) for r, t in zip(rows, texts, strict=True)]
    assert journal.put_passages([r.number for r in rows], passages)
    embed(journal, unit_vectors(len(texts)))


def embed(journal: Journal, vectors: Vectors) -> None:
    """Give the first passages without a vector these ones."""
    embedder = journal.setting(EMBEDDER) or ""
    ids = [passage.id for passage in journal.passages(0, len(vectors), lacking=embedder)]
    assert journal.put_vectors(ids, vectors, embedder, embedder)

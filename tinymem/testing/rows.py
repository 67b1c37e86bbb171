"""Steps and passages that the contract of journals stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tinymem.protocols import Journal, Mark, PassageRow, StepRow
from tinymem.testing.samples import unit_vectors

__all__ = ["SENTENCES", "OpenJournal", "put", "row"]

OpenJournal: TypeAlias = Callable[[str], Journal]

SENTENCES = ["The build fails on Windows.", "A grandmother bakes apple pie.", "Windows need cleaning, the big windows."]


def row(number: int, **more: Any) -> StepRow:
    """A step of 7 tokens, a second after the one before it."""
    made = StepRow(
        number, f"id-{number}", "message", None, None, 100.0 + number, 7, 7 * (number - 1), f'{{"n": {number}}}'
    )
    return replace(made, **more)


def put(journal: Journal, numbers: Sequence[int], since: Mark | None = None, embedder: str | None = None) -> bool:
    """Give the journal a passage, `SENTENCES[number]`, of each of these steps."""
    texts = [SENTENCES[number % len(SENTENCES)] for number in numbers]
    passages = [
        (n, PassageRow(0, 0, len(text), "message", False, text)) for n, text in zip(numbers, texts, strict=True)
    ]
    vectors = unit_vectors(3)[[number % 3 for number in numbers]]
    return journal.put_passages(since or journal.mark, Mark(numbers[-1] + 1, 0), passages, vectors, embedder)

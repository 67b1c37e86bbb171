"""Steps as rows of a journal, and back; the key that marks what a memory recalled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter

from tinymem.errors import FormatError, StepError, describe_type
from tinymem.protocols import EmbeddedPassage, Journal, StepRow
from tinymem.protocols.settings import MADE, REWRITES
from tinymem.recall.passages import slices
from tinymem.steps.step import Step, load_step

__all__ = [
    "CLEARED",
    "FENCE_KEY",
    "OPEN_CALLS",
    "STEPS_READ",
    "checking_parts",
    "count_rewrites",
    "fence_key",
    "has_archived",
    "read_calls",
    "shown_step",
    "step_of",
    "stored_dimensions",
    "texts_in",
    "texts_of",
    "uncut",
]

CLEARED = "cleared"  # the number of the next step when the window was last cleared
OPEN_CALLS = "open_calls"  # calls without a result: the number of the step, by call id, as JSON
FENCE_KEY = "fence_key"  # the key, in hexadecimal digits, that fences are derived with
KEY_BYTES = 16
STEPS_READ = 16  # steps that are read at once, since each may be large


def step_of(journal: Journal, record: str) -> Step:
    """Return the step of a record in the journal; FormatError if the record is damaged."""
    try:
        return load_step(record)
    except (StepError, FormatError) as error:
        raise journal.damaged(error) from error


def texts_of(journal: Journal, passages: Sequence[EmbeddedPassage]) -> dict[int, str]:
    """Return the texts of passages in order, by id, without those of steps that were just forgotten.

    Raises FormatError if a passage names a part that its step does not have.
    """
    groups = [(number, [*group]) for number, group in groupby(passages, attrgetter("step"))]
    texts: dict[int, str] = {}
    for first in range(0, len(groups), STEPS_READ):
        batch = groups[first : first + STEPS_READ]
        records = journal.steps([number for number, _ in batch])
        for number, group in batch:
            if number in records:
                found = texts_in(journal, step_of(journal, records[number]), group)
                texts.update(zip((row.id for row in group), found, strict=True))
    return texts


def texts_in(journal: Journal, step: Step, passages: Sequence[EmbeddedPassage]) -> list[str]:
    """Return the texts of passages of a step."""
    with checking_parts(journal):
        return slices(step, [(row.part, row.start, row.end) for row in passages])


@contextmanager
def checking_parts(journal: Journal) -> Iterator[None]:
    """Raise FormatError where a passage names a part that its step does not have."""
    try:
        yield
    except IndexError as error:
        raise journal.damaged(f"a passage names a part that its step does not have ({error})") from error


def shown_step(journal: Journal, row: StepRow) -> Step:
    """Return the step of a row as the window shows it; FormatError if the row is damaged."""
    step = step_of(journal, row.view or row.record)
    if step.id != row.id:
        raise journal.damaged(f"step {row.number} has the id of another step")
    return step


def uncut(journal: Journal, limit: int) -> list[StepRow]:
    """Return up to `limit` steps that no passages were made of yet, in order; FormatError if the journal is damaged."""
    made = journal.setting(MADE) or "1"
    try:
        return journal.rows(int(made) - 1, limit)
    except ValueError as error:
        raise journal.damaged(f"{describe_type(made)} is not the number of a step") from error


def has_archived(journal: Journal) -> bool:
    """Return whether a step has left the window; this is fast, since the oldest leave first."""
    return bool(journal.rows(limit=1, window=False, texts=False))


def count_rewrites(journal: Journal) -> int:
    """Return how often steps of the journal were forgotten, replaced or marked. Raises ValueError."""
    return int(journal.setting(REWRITES) or 0)


def stored_dimensions(journal: Journal) -> int | None:
    """Return the length of the vectors in a journal, of the newest one; None if there are none yet."""
    newest = journal.passages(journal.last_passage() - 1, 1)
    return len(newest[0].vector) // 2 if newest else None


def fence_key(journal: Journal) -> bytes:
    """Return the key of the fences of a memory; FormatError if it is damaged."""
    kept = journal.setting(FENCE_KEY) or ""
    try:
        key = bytes.fromhex(kept)
    except ValueError as error:
        raise journal.damaged(f"{describe_type(kept)} is no key") from error
    if len(key) != KEY_BYTES:
        raise journal.damaged(f"a key of {len(key)} bytes instead of {KEY_BYTES}")
    return key


def read_calls(journal: Journal) -> dict[str, int]:
    """Return the open calls of a journal; none where none ever was."""
    kept = journal.setting(OPEN_CALLS) or "{}"
    try:
        return {str(id): int(number) for id, number in json.loads(kept).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise journal.damaged(f"{describe_type(kept)} is not a list of open calls") from error

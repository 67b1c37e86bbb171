"""Reading of what a namespace holds: one step by its id, a part of a long text, and the history page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.errors import InputError, describe_type
from tinymem.messages.fitting import most_characters
from tinymem.messages.tokens import LONGEST_TOKEN
from tinymem.protocols import TokenCounter
from tinymem.recall.render import block, name_numbers, one_line, quoted
from tinymem.steps.content import clean
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep, shown_time
from tinymem.upkeep.forgetting import find_number

__all__ = ["Reading", "render_part", "render_step"]

PAGE = 500  # steps of a history that are read at once
SHOWN = 60  # characters of a speaker above a step


class Reading:
    """The steps of a namespace as its journal has them; `while_open` holds the lock of a memory that is open."""

    def __init__(
        self, archive: Archive, namespace: str, while_open: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._archive, self._namespace, self._while_open = archive, namespace, while_open

    def get(self, id: str | int) -> Step:
        """Return one step, whole; the lock must be held."""
        number = find_number(self._archive, id)
        if (found := self._archive.fetch([number]).get(number)) is None:
            raise InputError(f"no step {number if number >= 0 else 'of this id'} in namespace {self._namespace!r}")
        return found

    def number_behind(self, after: str | int) -> int:
        """Return the number of the step that a history goes on behind; it may have been forgotten."""
        number = find_number(self._archive, after) if isinstance(after, (str, int)) else -1
        if number < 0:
            raise InputError(f"after must be the id or the number of a step, not {describe_type(after)}")
        return number

    def history(self, session: str | None, number: int | None, limit: int | None, newest: bool) -> Iterator[Step]:
        """Yield the steps behind a number, or with `newest` before it; the lock is held for each page alone."""
        journal = self._archive.journal
        while limit is None or limit > 0:
            count = PAGE if limit is None else min(limit, PAGE)
            with self._while_open():
                limits: dict[str, Any] = {} if number is None else {"before" if newest else "after": number}
                rows = journal.rows(limit=count, session=session, newest=newest, **limits)
                steps = [self._archive.load(row.record) for row in rows]
            yield from steps
            if len(rows) < count:
                return
            number, limit = rows[-1].number, None if limit is None else limit - count


def render_step(
    archive: Archive, step: Step, start: int, budget: int, namespace: str = "", read_on: str = "open({!r}, start={})"
) -> str:
    """Render a step's text from the character `start` on; InputError where it has not so many.

    What is its `namespace` stands before the numbers. `read_on` is the call that shows the rest, by number and place.
    """
    if start and start >= len(step.text):
        raise InputError(f"start must be below {len(step.text)}, which is how many characters the step has")
    role = step.role if isinstance(step, MessageStep) else step.type
    number, who = f"{namespace}#{step.step_number}", one_line(step.speaker or role)[:SHOWN]
    newer = archive.corrections.get(step.step_number or 0)
    marks = [*archive.tracking.marks_of(step), *([f"corrected by #{newer}"] if newer else [])]
    notes = ", ".join(["", *(name_numbers(mark, namespace) for mark in marks)])
    return render_part(
        step.text,
        start,
        budget,
        head=f"[{number} {who}, {shown_time(step)}{notes}]",
        read_on=lambda end: read_on.format(number, end),
        key=archive.key,
        counter=archive.counter,
    )


def render_part(
    text: str, start: int, budget: int, *, head: str, read_on: Callable[[int], str], key: bytes, counter: TokenCounter
) -> str:
    """Render as much of a text as fits `budget` tokens, in a fence.

    Args:
        text: The whole text.
        start: The first character to show.
        budget: The most tokens, fence and hint included.
        head: The line above it.
        read_on: Gives the call that shows the rest, from a character on.
        key: The key of the memory's fences.
        counter: Counts the tokens.
    """
    text = clean(text)

    def render(length: int) -> str:
        end = min(start + length, len(text))
        fenced = block([(head, quoted("", text[start:end]))], key)
        if end - start == len(text):
            return fenced
        rest = f" To read on: {read_on(end)}." if end < len(text) else ""
        return f"{fenced}\nCharacters {start} to {end} of {len(text)}.{rest}"

    whole = len(text) - start
    if whole <= LONGEST_TOKEN * budget and counter.count(render(whole)) <= budget:
        return render(whole)
    return render(most_characters(lambda length: counter.count(render(length)) <= budget, budget, 0))

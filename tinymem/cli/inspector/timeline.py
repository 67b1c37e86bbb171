"""The timeline of a memory: its steps in order, filtered, read from the journal a slice at a time."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from tinymem.archive.rows import count_rewrites
from tinymem.memory.context.window import fixed_steps
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.memory.inspection.lines import StepLine, step_line
from tinymem.protocols import StepRow
from tinymem.steps.checks import check_choice, check_non_negative_int
from tinymem.steps.step import Step, load_step
from tinymem.stores.filter import Filter

__all__ = ["Timeline", "version_of"]

TIERS = ("window", "archive")
WORDS = 160  # cells of a step's first words
READ = 500  # steps of one read
WORD = re.compile("[a-z0-9]+")  # stands in a record as it is


class Timeline:
    """The steps of a memory in order. Only their numbers are held, so that a memory of any length can be shown.

    Args:
        memory: The memory.
        session: Only steps of this session.
        type: Only steps of this type, as in `"action"`.
        tier: Only steps of this tier: `"window"`, fixed steps included, or `"archive"`.
        find: Only steps in whose text this stands, in capital letters or small ones; all steps are read for it.

    Attributes:
        numbers: The numbers of the steps.

    >>> with HierarchicalMemory() as memory:
    ...     added = memory.add_messages([{"role": "user", "content": text} for text in "abc"])
    ...     timeline = Timeline(memory)
    ...     len(timeline.numbers), [line.words for line in timeline.lines(timeline.numbers[1:])]
    (3, ['b', 'c'])
    """

    def __init__(
        self,
        memory: HierarchicalMemory,
        *,
        session: str | None = None,
        type: str | None = None,
        tier: str | None = None,
        find: str | None = None,
    ) -> None:
        self._journal = memory.long_term.journal
        self._fixed = {step.id for step in fixed_steps(memory.steps)}
        numbers: Iterable[int] = self._journal.matching(Filter(session=session, type=type))
        if tier:
            check_choice("tier", tier, *TIERS)
            window = {row.number for row in self._journal.rows(window=True, texts=False)}
            numbers = (number for number in numbers if (number in window) == (tier == "window"))
        self.numbers = array("q", numbers)
        if find:
            wanted = find.lower()
            rows = self._rows(self.numbers)
            self.numbers = array("q", [row.number for row in rows if _has(row, wanted)])

    def place(self, number: int) -> int:
        """Return the place of the step of this number; of the next one where it is not there."""
        return bisect_left(self.numbers, check_non_negative_int("number", number))

    def between(self, first: int, last: int) -> Sequence[int]:
        """Return the numbers of the steps from `first` to `last`."""
        return self.numbers[self.place(first) : self.place(last + 1)]

    def lines(self, numbers: Sequence[int]) -> tuple[StepLine, ...]:
        """Return the steps of these numbers in short, as far as they are still there."""
        return tuple(line for line, _ in self.steps(numbers))

    def steps(self, numbers: Sequence[int]) -> Iterator[tuple[StepLine, Step]]:
        """Yield the steps of these numbers, each in short and whole."""
        for row in self._rows(numbers):
            step = load_step(row.record)
            yield step_line(row, step, self._fixed, WORDS), step

    def segments(self, most: int) -> list[dict[str, Any]]:
        """Return the whole timeline in at most `most` segments of as many steps each: the bars of its overview."""
        if not self.numbers:
            return []
        wanted, size = set(self.numbers), -(-len(self.numbers) // most)
        rows = self._journal.rows(self.numbers[0] - 1, before=self.numbers[-1] + 1, texts=False)
        steps = [row for row in rows if row.number in wanted]
        return [_segment(steps[start : start + size]) for start in range(0, len(steps), size)]

    def _rows(self, numbers: Sequence[int]) -> Iterator[StepRow]:
        """Yield the rows of these steps, one read for each run of consecutive numbers, of READ at most."""
        places = enumerate(numbers)
        for _, run in groupby(places, lambda place: (place[1] - place[0], place[0] // READ)):
            found = [number for _, number in run]
            yield from self._journal.rows(found[0] - 1, before=found[-1] + 1)


def _has(row: StepRow, wanted: str) -> bool:
    """Return whether the step's text has the wanted one; where its record lacks a word of it, no step is made."""
    record = row.record.lower()
    return all(word in record for word in WORD.findall(wanted)) and wanted in load_step(row.record).text.lower()


def version_of(memory: HierarchicalMemory) -> int:
    """Return a number that grows whenever a process writes: another one, or this one."""
    journal = memory.long_term.journal
    return journal.version() + journal.next_number() + count_rewrites(journal)


def _segment(steps: Sequence[StepRow]) -> dict[str, Any]:
    """Sum up consecutive steps: their tokens, those of steps in the window, and the session that they begin in."""
    return {
        "first": steps[0].number,
        "last": steps[-1].number,
        "steps": len(steps),
        "tokens": sum(step.tokens for step in steps),
        "window": sum(step.tokens for step in steps if step.window),
        "session": steps[0].session,
    }

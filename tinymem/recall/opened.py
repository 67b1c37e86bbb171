"""Steps that were opened for a block, with their parts, headers and lines at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from tinymem.protocols import TokenCounter
from tinymem.recall.diversity import Utterance
from tinymem.recall.files.changes import Span
from tinymem.recall.render import RESULTS, header, label, line, quoted, speaker_key, without_gone
from tinymem.recall.supersession import LONGEST, Statement
from tinymem.steps.step import Part, Step

__all__ = ["Fetch", "Gone", "Opened", "OpenedSteps"]

REMEMBERED = 500_000  # characters of steps that are held from one recall to the next
LONG = 50_000  # characters of a step that is not held
WORDLESS = (*RESULTS, "call", "code")  # kinds of parts that state nothing in words

Fetch = Callable[[Sequence[int]], Mapping[int, Step]]
Gone: TypeAlias = tuple[Span, ...]


class Opened:
    """A step, with its parts, header and lines at hand, and the tokens of these."""

    def __init__(self, step: Step, counter: TokenCounter) -> None:
        self.step, self._counter = step, counter
        self.parts: tuple[Part, ...] = step.parts()
        self.length = sum(len(part.text) for part in self.parts)
        self._lines: dict[tuple[object, ...], str] = {}
        self._said: dict[tuple[object, ...], Utterance] = {}
        self._statements: dict[int, Statement | None] = {}
        self._costs: dict[tuple[object, ...], int] = {}

    @cached_property
    def header(self) -> str:
        """The header over its excerpts."""
        return header(self.step)

    @cached_property
    def header_cost(self) -> int:
        """The tokens of the header."""
        return self._counter.count(f"{self.header}\n")

    def cost(self, part: int, start: int, end: int, labelled: bool, gone: Gone = ()) -> int:
        """Return the tokens of a passage, behind its label where it is `labelled`, counted once."""
        at = (part, start, end, labelled, gone)
        if at not in self._costs:
            prefix = label(self.step, self.parts[part], whole=False) if labelled else ""
            self._costs[at] = self._counter.count(f"{quoted(prefix, self.said(part, start, end, gone).text)}\n")
        return self._costs[at]

    def said(self, part: int, start: int, end: int, gone: Gone = ()) -> Utterance:
        """Return the text of a passage with who said it, made once."""
        at = (part, start, end, gone)
        if at not in self._said:
            whole = self.parts[part]
            text = without_gone(whole.text, start, end, gone)
            self._said[at] = Utterance.of(text, speaker_key(self.step, whole))
        return self._said[at]

    def statement(self, part: int) -> Statement | None:
        """Return a short part in words as a statement, made once; None for another one."""
        if part not in self._statements:
            whole, found = self.parts[part], None
            if len(whole.text) <= LONGEST and whole.kind not in WORDLESS:
                said = self.said(part, 0, len(whole.text))
                found = Statement(said.text, said.by, (self.step.timestamp, self.step.step_number or 0))
            self._statements[part] = found
        return self._statements[part]

    def line(self, part: int, start: int, end: int, numbered: bool = False, gone: Gone = ()) -> str:
        """Return the excerpt as it stands in the block, made once."""
        at = (part, start, end, numbered, gone)
        if at not in self._lines:
            self._lines[at] = line(self.step, self.parts[part], start, end, numbered, gone)
        return self._lines[at]


class OpenedSteps:
    """Steps that were opened, kept for the next recall, which opens many of them again: some REMEMBERED characters."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._held: dict[int, Opened] = {}
        self._length = 0

    def clear(self) -> None:
        """Keep nothing, since steps were forgotten."""
        self._held, self._length = {}, 0

    def of(self, numbers: Iterable[int], fetch: Fetch) -> dict[int, Opened]:
        """Return these steps; those that are not held are fetched. Steps that are gone are left out."""
        numbers, held = [*numbers], self._held
        if missing := sorted(number for number in numbers if number not in held):
            if self._length > REMEMBERED:
                self.clear()
            fetched = {number: Opened(step, self._counter) for number, step in fetch(missing).items()}
            short = {number: opened for number, opened in fetched.items() if opened.length < LONG}
            self._length += sum(opened.length for opened in short.values())
            self._held |= short
            held = {**held, **fetched}
        return {number: held[number] for number in numbers if number in held}

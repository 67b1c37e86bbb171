"""Steps that were opened for a block, and passages of them with their texts and tokens at hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import NamedTuple, TypeAlias

from tinymem.protocols import Span, TokenCounter
from tinymem.recall.passages import encoded
from tinymem.recall.render import RESULTS, header, label, line, quoted, speaker_key, without_gone
from tinymem.recall.selection.diversity import Utterance
from tinymem.recall.selection.statements import LONGEST, Statement
from tinymem.recall.snapshot import SAID, PassagePlace
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step

__all__ = ["Gone", "Opened", "OpenedPassage", "OpenedSteps", "RankedPassage"]

REMEMBERED = 2_000_000  # characters of steps that are kept from one recall to the next
WORDLESS = (*RESULTS, "call", "code")  # kinds of parts that state nothing in words

Gone: TypeAlias = tuple[Span, ...]


class OpenedPassage:
    """A passage of a step, without the lines that are `gone`; what is made of it is made once."""

    def __init__(self, opened: Opened, part: int, start: int, end: int, gone: Gone = ()) -> None:
        self.opened, self.part, self.changed = opened, opened.parts[part], gone
        self._place = part, start, end
        self.count = cache(self._count)  # the tokens that it takes, with its label before it or not

    def without(self, gone: Gone) -> OpenedPassage:
        """Return it without lines that are gone."""
        return self.opened.passage(*self._place, gone)

    @cached_property
    def gone(self) -> Gone:
        """The lines that are gone; in a passage without such, what is encoded, since it says nothing to a reader."""
        return self.changed or tuple(encoded(self.part.text, *self._place[1:]))

    @cached_property
    def said(self) -> Utterance:
        """Its words, and who said them."""
        text = without_gone(self.part.text, *self._place[1:], self.gone)
        return Utterance(text, speaker_key(self.opened.step, self.part))

    @cached_property
    def statements(self) -> list[Statement]:
        """The sentences of the part that it is of, if that is short and in words."""
        step, text = self.opened.step, self.part.text
        if len(text) > LONGEST or self.part.kind in WORDLESS:
            return []
        key = speaker_key(step, self.part)
        by = key if step.speaker else (key, step.session), key
        return Statement.all_of(clean(text), by, (step.timestamp, step.step_number or 0))

    def _count(self, is_labelled: bool) -> int:
        before = label(self.opened.step, self.part, whole=False) if is_labelled else ""
        return self.opened.counter.count(f"{quoted(before, self.said.text)}\n")

    @cached_property
    def line(self) -> Callable[..., str]:
        """Give the excerpt as it stands in a block, numbered or not, and with what governs it or not."""
        return cache(partial(line, self.opened.step, self.part, *self._place[1:], gone=self.gone))


class Opened:
    """A step, with its parts, header and passages at hand."""

    def __init__(self, step: Step, counter: TokenCounter) -> None:
        self.step, self.counter = step, counter
        self.parts: tuple[Part, ...] = step.parts()
        self.length = sum(len(part.text) for part in self.parts)
        self.passage = cache(partial(OpenedPassage, self))  # each is made once

    @cached_property
    def header(self) -> str:
        """The header over its excerpts."""
        return header(self.step)

    @cached_property
    def header_tokens(self) -> int:
        """The tokens of the header."""
        return self.counter.count(f"{self.header}\n")


class RankedPassage(NamedTuple):
    """A passage on its way into the prompt: its place, its score, its relevance, if that is enough, and the reasons."""

    number: int
    part: int
    start: int
    end: int
    score: float
    relevance: float = 0.0
    is_relevant: bool = True
    kind: int = SAID  # of `Snapshot.kind`
    why: Callable[[], Callable[[], Mapping[str, float]]] = lambda: dict  # what gives them, for `Excerpt.shares`
    newer: int | None = None  # the number of a later step that says otherwise, as far as words tell
    is_governed: bool = True  # has what governs it before it
    # once it is chosen
    rank: int = -1  # from 0 on
    tokens: int = 0
    shown: OpenedPassage = None  # type: ignore[assignment]


class OpenedSteps:
    """Steps that were opened, kept for the next recall, which opens many of them again; all go once they are many."""

    def __init__(self, counter: TokenCounter, fetch: Callable[[Sequence[int]], Mapping[int, Step]]) -> None:
        self.counter, self._fetch = counter, fetch
        self.clear()

    def clear(self) -> None:
        """Keep nothing, since steps were forgotten."""
        self._known: dict[int, Opened] = {}
        self._length = 0  # of their texts

    def of(self, numbers: Collection[int]) -> dict[int, Opened]:
        """Return these steps; those that are not here are fetched. Steps that are gone are left out."""
        if self._length > REMEMBERED:
            self.clear()
        known = self._known  # other threads may put another one in its place
        if missing := sorted({*numbers}.difference(known)):
            opened = {number: Opened(step, self.counter) for number, step in self._fetch(missing).items()}
            self._length += sum(each.length for each in opened.values())
            known |= opened
        return {number: known[number] for number in numbers if number in known}

    def passages(self, places: Sequence[PassagePlace]) -> dict[PassagePlace, OpenedPassage]:
        """Return the passages at these places, but for those of steps that are gone."""
        steps = self.of([place[0] for place in places])
        return {place: steps[place[0]].passage(*place[1:]) for place in places if place[0] in steps}

    def statements(self, places: Iterable[PassagePlace]) -> dict[Statement, PassagePlace]:
        """Return the statements at these places; others are of longer texts, or state nothing in words."""
        opened = self.passages([place for place in places if place[3] <= LONGEST])
        found: dict[Statement, PassagePlace] = {}
        for place, passage in opened.items():
            found |= dict.fromkeys(passage.statements, place)
        return found

"""Results of a recall: excerpts, the block they stand in, and the explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

from tinymem.protocols import Span, TokenCounter
from tinymem.recall.relevance import Signals, price_of
from tinymem.recall.render import DAY, format_mark
from tinymem.steps.display import one_line
from tinymem.steps.step import REPR_LENGTH, Step
from tinymem.steps.terminal import Column, Line, ShownText, first_words, pluralize, table_of
from tinymem.steps.types import shown_time

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ALL_FITS", "Excerpt", "Explanation", "Overflow", "Recall"]


@dataclass(frozen=True)
class Excerpt:
    """A slice of a past step: `text` is `step.parts()[part].text[start:end]`, control characters as U+FFFD.

    In the place of lines that stand in their file no more is a mark, as `[changed by #212]`; before the result of a
    command that failed, what passed later, as `[later: #88 pytest passed]`. Base64 and long hex are a note of their
    length.

    Attributes:
        step: The step that it is of.
        part: The place of the part in `step.parts()`.
        start: The place of its first character in the part.
        end: The place behind its last character.
        text: The text itself.
        tokens: The tokens that it costs in the block.
        score: Its score in this recall; higher is closer.
        relevance: The chance that it is evidence, 0 to 1: it means the same in every memory, small or large.
        shares: Gives `why`, once somebody wants to know.
        newer: The number of a later step that says otherwise, as far as words tell: that stands behind it in the block.
        gone: The lines that are gone: start and end of each run of them in the part, and the mark in its place. Where
            both are the same, nothing is gone, and the mark stands before all, or says what follows behind all.
        corrects: The numbers of the steps that it corrects, where it stands behind them in a prompt.
        line: The text as it stands in a block of its own memory, where that was made already.
    """

    step: Step
    part: int
    start: int
    end: int
    text: str
    tokens: int
    score: float
    relevance: float
    shares: Callable[[], Mapping[str, float]] = field(default=dict, repr=False, compare=False)
    newer: int | None = None
    gone: tuple[Span, ...] = ()
    corrects: tuple[int, ...] = ()
    line: str = field(default="", repr=False, compare=False)

    @cached_property
    def why(self) -> Mapping[str, float]:
        """The share of each feature in the score, strongest first."""
        return self.shares()

    @property
    def mark(self) -> str:
        """The memory's own words that stand behind it."""
        return format_mark(self.newer, self.corrects)

    def __repr__(self) -> str:
        words = one_line(self.text[:REPR_LENGTH])
        return f"<Excerpt of #{self.step.step_number}: {self.tokens} tokens, score {self.score:+.2f}: {words}>"


class Overflow(NamedTuple):
    """The passages that bear on a question and had no room: how many, about their tokens, and the best relevance."""

    passages: int = 0
    tokens: int = 0
    relevance: float = 0.0

    def __str__(self) -> str:
        passages = f"no room for {pluralize(self.passages, 'passage')} more"
        return f"{passages}: about {self.tokens:,} tokens, best relevance {self.relevance:.2f}" if self.passages else ""


ALL_FITS = Overflow()


@dataclass(frozen=True)
class Recall(Sequence[Excerpt]):
    """The recalled block; as a sequence, the excerpts in it.

    Attributes:
        text: The block as it stands in a prompt, fence included; "" when there is nothing.
        tokens: The exact tokens of the text.
        items: The excerpts in it, in order of time.
        note: A part of the search that was missing, as an embedder that cannot be reached, so that words alone had to
            do, a label of the question that no step has, as an order's number, or that nothing relevant was found, and
            why; "" for none of these.
        is_relevant: False where the memory most likely knows nothing of the question: only the best came back, in at
            most 90 tokens, and a context leaves it out.
        overflow: What had no room: where that is much, a larger budget shows more.
    """

    text: str
    tokens: int
    items: tuple[Excerpt, ...]
    note: str = ""
    is_relevant: bool = True
    overflow: Overflow = ALL_FITS

    def __repr__(self) -> str:
        return f"<Recall: {len(self.items)} excerpts, {self.tokens:,} tokens>"

    def __str__(self) -> str:
        return self.text

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Excerpt: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Excerpt]: ...
    def __getitem__(self, place: int | slice) -> Excerpt | Sequence[Excerpt]:
        return self.items[place]

    def with_note(self, counter: TokenCounter, budget: int) -> str:
        """Return the text, and the note behind it where both are at most `budget` tokens."""
        text = f"{self.text}\n({self.note})" if self.text and self.note else self.text
        return text if counter.count(text) <= budget else self.text


REASONS = 3  # features that are shown of a passage, the strongest
WORDS = 48  # cells of a text that are shown,
ASKED = 150  # and of a query

RANKED = (
    Column("step", "bold", right=True),
    Column("date", "green"),
    Column("score", "magenta", right=True),
    Column("relevance", "magenta", right=True),
    Column("tokens", "cyan", right=True),
    Column("text", "dim", room="cut"),
    Column("why", room="wrapped"),
)


@dataclass(frozen=True, repr=False)
class Explanation(ShownText):
    """The explanation of a recall, to print: what was ranked, with scores and what speaks for it.

    `explanation.text(80)` has lines of 80 columns at most.
    Printed, `why` has the strongest features, and the price of the excerpt's length: what has a lower score may cost
    less and come in before.

    Attributes:
        query: The query.
        budget: The most tokens of the block.
        recalled: The block. Each excerpt has its score, its relevance and, in `why`, the share of each feature in it; a
            constant makes up the rest.
        next_best: The best ranked passages that did not come back.
        signals: What tells whether the memory knows anything of the question; None for a stretch of a run.
        odds: The log-odds that it does, by these signals; below 0 the answer is no.
    """

    query: str
    budget: int
    recalled: Recall
    next_best: tuple[Excerpt, ...] = ()
    signals: Signals | None = None
    odds: float = 0.0

    @property
    def items(self) -> tuple[Excerpt, ...]:
        """The excerpts, the highest score first."""
        return tuple(sorted(self.recalled.items, key=lambda item: -item.score))

    def blocks(self) -> Iterator[Line | Table]:
        """Yield the lines and tables of the explanation."""
        yield [(first_words(self.query, ASKED) or "(nothing asked)", "bold")]
        yield [(f"{pluralize(len(self.items), 'excerpt')}, {self.recalled.tokens:,} of {self.budget:,} tokens", "")]
        if self.recalled.note:
            yield [(self.recalled.note, "yellow")]
        if self.signals is not None:
            yield [(f"{self.signals}: log-odds {self.odds:+.2f} that something is known of it", "dim")]
        for heading, ranked in (("", self.items), ("ranked next", self.next_best)):
            if ranked:
                yield [(heading, "bold")]
                yield table_of(RANKED, map(_row, ranked))


def _row(item: Excerpt) -> tuple[str, ...]:
    """Return an excerpt as a row: where it is, its first words, and the features that weigh most."""
    shown = [*[*item.why.items()][:REASONS], ("length", -price_of(item.end - item.start))]
    return (
        f"#{item.step.step_number}",
        shown_time(item.step, DAY),
        f"{item.score:+.2f}",
        f"{item.relevance:.2f}",
        f"{item.tokens:,}",
        first_words(item.text, WORDS) + item.mark,
        ", ".join(f"{name} {value:+.2f}" for name, value in shown),
    )

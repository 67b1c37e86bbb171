"""What recall gives back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tinymem.steps.display import one_line
from tinymem.steps.step import REPR_LENGTH, Step
from tinymem.steps.terminal import Column, Line, Shown, Table, first_words, many

__all__ = ["Excerpt", "Explanation", "LeftOut", "Recall"]


@dataclass(frozen=True)
class Excerpt:
    """A slice of a past step: `text` is `step.parts()[part].text[start:end]`, control characters as U+FFFD.

    `tokens` is what it costs in the block. `score` is its log-odds of being evidence, higher is closer; `why` says
    what each feature added to it.
    """

    step: Step
    part: int
    start: int
    end: int
    text: str
    tokens: int
    score: float
    why: Mapping[str, float] = field(repr=False)

    def __repr__(self) -> str:
        words = one_line(self.text[:REPR_LENGTH])
        return f"<Excerpt of #{self.step.step_number}: {self.tokens} tokens, score {self.score:+.2f}: {words}>"

    @property
    def whole(self) -> bool:
        """Whether it is all of its part."""
        return self.start == 0 and self.end >= len(self.step.parts()[self.part].text)


@dataclass(frozen=True)
class Recall:
    """The recalled block: `text` as it stands in a prompt (fence included; "" when there is nothing), its exact
    `tokens`, and its `items` in order of time.

    `note` says what was missing when it was looked for, as an embedder that cannot be reached, so that words alone had
    to do; "" where nothing was.
    """

    text: str
    tokens: int
    items: tuple[Excerpt, ...]
    note: str = ""

    def __repr__(self) -> str:
        return f"<Recall: {len(self.items)} excerpts, {self.tokens:,} tokens>"

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.items)


@dataclass(frozen=True)
class LeftOut:
    """A passage that was considered and did not come back: its `rank` (1 is the best) among those that were, by score
    less the price of its tokens, and the `reason`."""

    excerpt: Excerpt
    rank: int
    reason: str


REASONS = 3  # features that are shown of a passage, the strongest
WORDS = 48  # cells of a text that are shown

_WHERE = (
    Column("step", "bold", right=True),
    Column("date", "green"),
    Column("score", "magenta", right=True),
    Column("tokens", "cyan", right=True),
)
_WHAT = (Column("why", yields=True), Column("text", "dim", yields=True))
FOUND = (*_WHERE, *_WHAT)
LEFT_OUT = (*_WHERE, Column("rank", right=True), Column("left out", "yellow"), *_WHAT)


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """What `recalled` brings back for `query` in at most `budget` tokens, and the best of what it does not.

    Each excerpt has its score (log-odds) and, in `why`, what each feature adds to it; a constant makes up the rest.
    The reason of what is `left_out` is that it does not fit what better ones left of the budget, that it repeats a
    better one, or that it is ranked below the last one that fitted. `str` gives the explanation as text.
    """

    query: str
    budget: int
    recalled: Recall
    left_out: tuple[LeftOut, ...]

    @property
    def items(self) -> tuple[Excerpt, ...]:
        """What comes back, the highest score first."""
        return tuple(sorted(self.recalled.items, key=lambda item: -item.score))

    def blocks(self) -> Iterator[Line | Table]:
        """The explanation: what comes back, and what does not."""
        yield [(first_words(self.query, WORDS) or "(nothing asked)", "bold")]
        yield [(f"{many(len(self.items), 'excerpt')}, {self.recalled.tokens:,} of {self.budget:,} tokens", "")]
        if self.recalled.note:
            yield [(self.recalled.note, "yellow")]
        if self.items:
            yield []
            yield Table(FOUND, [(*_where(item), *_what(item)) for item in self.items])
        if self.left_out:
            yield []
            yield Table(LEFT_OUT, [_row(one) for one in self.left_out])


def _row(one: LeftOut) -> tuple[str, ...]:
    return *_where(one.excerpt), str(one.rank), one.reason, *_what(one.excerpt)


def _where(item: Excerpt) -> tuple[str, ...]:
    return f"#{item.step.step_number}", f"{item.step.timestamp:%Y-%m-%d}", f"{item.score:+.2f}", f"{item.tokens:,}"


def _what(item: Excerpt) -> tuple[str, str]:
    """The features that weigh most, and the first words."""
    why = ", ".join(f"{name} {value:+.2f}" for name, value in list(item.why.items())[:REASONS])
    return why, first_words(item.text, WORDS)

"""Why recall brings back what it does: its excerpts and the next best passages, with what their scores are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinymem.recall.results import Excerpt, LeftOut, Recall
from tinymem.terminal import Column, Line, Shown, Table, first_words, many

__all__ = ["Explanation"]

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


@dataclass(frozen=True)
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
        if self.items:
            yield []
            yield Table(FOUND, [(*_where(item), *_what(item)) for item in self.items])
        if self.left_out:
            yield []
            yield Table(LEFT_OUT, [_row(one) for one in self.left_out])


def _row(one: LeftOut) -> tuple[str, ...]:
    return *_where(one.excerpt), str(one.rank), one.reason, *_what(one.excerpt)


def _where(item: Excerpt) -> tuple[str, ...]:
    return f"#{item.step.number}", f"{item.step.timestamp:%Y-%m-%d}", f"{item.score:+.2f}", f"{item.tokens:,}"


def _what(item: Excerpt) -> tuple[str, str]:
    """The features that weigh most, and the first words."""
    why = ", ".join(f"{name} {value:+.2f}" for name, value in list(item.why.items())[:REASONS])
    return why, first_words(item.text, WORDS)

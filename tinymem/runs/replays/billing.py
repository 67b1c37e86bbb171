"""Bills: what a provider takes for a run's prompts, of which its prefix cache serves a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from operator import eq
from types import MappingProxyType
from typing import NamedTuple

from tinymem.errors import InputError, safe_repr
from tinymem.protocols import TokenCounter

__all__ = ["PRICES", "Piece", "PrefixCache", "Prices", "Sent", "prices_from"]


@dataclass(frozen=True)
class Prices:
    """Prices of input tokens as ratios to a fresh one.

    Attributes:
        cached: Of a token that the cache serves.
        written: Of a token that is written to the cache.
        minimum: Prompts with fewer tokens are not cached.
    """

    cached: float = 0.1
    written: float = 1.25
    minimum: int = 1_024

    def __post_init__(self) -> None:
        if not (0 <= self.cached < inf and 0 < self.written < inf):
            raise InputError("only a cached token may cost nothing")


# As of November 2026. Prices of output are the same whatever is sent.
PRICES: Mapping[str, Prices] = MappingProxyType({
    "anthropic": Prices(),  # writes that live five minutes
    "openai": Prices(0.1, 1),
})  # fmt: skip


class Piece(NamedTuple):
    """A part of a prompt: its exact form, which decides whether it is the same as before, its text and its tokens."""

    form: str
    text: str
    tokens: int


class Sent(NamedTuple):
    """The tokens of one prompt, those of them that the cache served, and what all cost in fresh tokens."""

    tokens: int
    cached: int
    bill: float


class PrefixCache:
    """A provider's cache, as far as one run sees it: the longest common prefix with the prompt before."""

    def __init__(self, prices: Prices, counter: TokenCounter) -> None:
        self._prices, self._counter = prices, counter
        self._last: Sequence[Piece] = ()

    def send(self, prompt: Sequence[Piece], beside: int = 0) -> Sent:
        """Send a prompt with `beside` tokens that stand in no piece."""
        prices, tokens = self._prices, sum(piece.tokens for piece in prompt) + beside
        if tokens < prices.minimum:
            self._last = ()
            return Sent(tokens, 0, tokens)
        common = self._common(prompt)
        cached = common if common >= prices.minimum else 0
        self._last = prompt
        return Sent(tokens, cached, prices.cached * cached + prices.written * (tokens - cached))

    def _common(self, prompt: Sequence[Piece]) -> int:
        """Count the tokens that a prompt begins with as the last one did."""
        tokens = 0
        for before, piece in zip(self._last, prompt, strict=False):
            if before.form != piece.form:
                common = len([*takewhile(bool, map(eq, before.form, piece.form))])
                return tokens + min(piece.tokens, self._counter.count(piece.form[:common]))
            tokens += piece.tokens
        return tokens


def prices_from(prices: Prices | str) -> Prices:
    """Return prices, or those of the name: `"anthropic"` or `"openai"`, or ratios as in `"1:0.1:1.25"`.

    >>> prices_from("1:.5:1").cached
    0.5

    Raises:
        InputError: There is no such name, and it is no three numbers, or a fresh or written token costs nothing.
    """
    if isinstance(prices, Prices):
        return prices
    if prices in PRICES:
        return PRICES[prices]
    try:
        fresh, cached, written = map(float, prices.split(":"))
        return Prices(cached / fresh, written / fresh)
    except (ValueError, AttributeError, ZeroDivisionError):
        raise InputError(
            f'prices must be {" or ".join(PRICES)}, or ratios as in "1:0.1:1.25" (fresh, cached, written; only a '
            f"cached token may cost nothing), not {safe_repr(prices)}"
        ) from None

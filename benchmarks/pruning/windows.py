"""The windows that pruning is measured on, the strategies, and whether a needle survived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.harness.data import Haystack, Query
from benchmarks.harness.methods import as_message
from benchmarks.harness.scoring import SLICE
from tinymem import (
    PruneStrategy,
    Step,
    SystemPromptStep,
    TaskStep,
    compose,
    count_tokens,
    keep_last_n_steps,
    prune_old_observations,
    semantic_pruning,
    token_budget,
)
from tinymem.messages import groups, messages_from_steps, steps_from_messages

__all__ = ["STRATEGIES", "Window", "needle_survives", "strategy_at", "windows"]

SHOWN = 4  # units behind the cutoff that the query's text shows
Maker: TypeAlias = Callable[["Window", int], PruneStrategy]  # a window and its budget -> the strategy with that budget


@dataclass(frozen=True)
class Window:
    """A run as it stands at a query: `steps`, of which `old` ones may hold the needle.

    `texts[id]` are the texts of the units that a step holds, a message each. `fixed` tokens go to what every strategy
    keeps: system prompt, task and the groups of the units that the query shows.
    """

    haystack: str
    held_back: bool
    query: Query
    steps: tuple[Step, ...]
    old: frozenset[str]
    texts: dict[str, tuple[str, ...]]
    fixed: int


def windows(haystack: Haystack, held_back: bool) -> Iterator[Window]:
    """The window of each query that has a needle."""
    for query in haystack.queries:
        if query.needle is None:
            continue
        units = haystack.units[: query.cutoff + SHOWN]
        steps = steps_from_messages([as_message(unit) for unit in units], timestamp=units[0].timestamp)
        texts: dict[str, tuple[str, ...]] = {}
        place, old, fixed = 0, set[str](), list[Step]()
        for group in groups(steps):
            for step in group:
                texts[step.id] = tuple(
                    unit.text for unit in units[place : place + len(step.to_messages(style="tools"))]
                )
                place += len(texts[step.id])
            is_new = place > query.cutoff or any(isinstance(step, (SystemPromptStep, TaskStep)) for step in group)
            fixed += group if is_new else []
            old |= set() if is_new else {step.id for step in group}
        cost = count_tokens(messages_from_steps(fixed))
        yield Window(haystack.id, held_back, query, tuple(steps), frozenset(old), texts, cost)


def needle_survives(window: Window, after: Sequence[Step]) -> bool:
    """Return whether the needle stands in a slice of an old unit that is verbatim and long enough."""
    needle = window.query.needle or ""
    for step in after:
        if step.id in window.old:
            shown = [str(message.get("content") or "") for message in step.to_messages(style="tools")]
            if any(kept(needle, *pair) for pair in zip(window.texts[step.id], shown, strict=True)):
                return True
    return False


def kept(needle: str, text: str, shown: str) -> bool:
    """Return whether `needle` lies in a slice of `text`, of SLICE characters or all of it, that stands in `shown`.

    >>> kept("b", "a b c", "a b c"), kept("b", "a b c", "b c")
    (True, False)
    """
    return any(
        common(text, shown, at, to, len(needle)) >= min(SLICE, len(text))
        for at in places(needle, text)
        for to in places(needle, shown)
    )


def places(needle: str, text: str) -> Iterator[int]:
    """Find the places where `needle` begins in `text`."""
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + 1)


def common(text: str, shown: str, at: int, to: int, size: int) -> int:
    """Return the length of the common slice around the same `size` characters in both texts."""
    before = after = 0
    while at - before > 0 and to - before > 0 and text[at - before - 1] == shown[to - before - 1]:
        before += 1
    ends = at + size, to + size
    while (
        ends[0] + after < len(text) and ends[1] + after < len(shown) and text[ends[0] + after] == shown[ends[1] + after]
    ):
        after += 1
    return before + size + after


def last_n(window: Window, budget: int) -> PruneStrategy:
    """`keep_last_n_steps` with the largest n that is within `budget` tokens."""
    low, high = 0, len(window.steps)
    while low < high:
        n = (low + high + 1) // 2
        fits = count_tokens(messages_from_steps(keep_last_n_steps(n)([*window.steps]))) <= budget
        low, high = (n, high) if fits else (low, n - 1)
    return keep_last_n_steps(low)


# Each is made again for each run. The first four are what semantic_pruning is held against; behind it stands a part.
STRATEGIES: dict[str, Callable[[], Maker]] = {
    "keep_last_n_steps": lambda: last_n,
    "token_budget": lambda: lambda window, budget: token_budget(budget, low_water=budget),
    "prune_old_observations + token_budget": lambda: (
        lambda window, budget: compose(prune_old_observations(), token_budget(budget, low_water=budget))
    ),
    "prune_old_observations(2, 400) + token_budget": lambda: (
        lambda window, budget: compose(
            prune_old_observations(keep_last_n=2, max_length=400), token_budget(budget, low_water=budget)
        )
    ),
    "semantic_pruning": lambda: lambda window, budget: semantic_pruning("static", budget),
    "semantic_pruning, whole groups": lambda: lambda window, budget: semantic_pruning("static", budget, shorten=False),
}


def strategy_at(maker: Maker, window: Window, tokens: int) -> tuple[PruneStrategy, int]:
    """The strategy with `tokens` beside what every strategy keeps, and its budget in all."""
    budget = window.fixed + tokens
    return maker(window, budget), budget

"""The strategy semantic_pruning: the window keeps the steps that bear on the task at hand, not only the newest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice, repeat
from typing import TypeAlias

from tinymem.errors import InputError, describe_type
from tinymem.messages.conversion import grouped
from tinymem.messages.tokens import PER_REPLY, Prices, counter_from
from tinymem.protocols import Embedder, Embeds, TokenCounter
from tinymem.recall.query.words import stretch_of
from tinymem.registry import embedder_from
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.standins import newest_of, newest_request
from tinymem.steps.step import Step, Style
from tinymem.steps.types import TaskStep
from tinymem.window.excerpts import newest_or_cut
from tinymem.window.filling import filled
from tinymem.window.step_index import StepIndex
from tinymem.window.strategy import (
    PruneStrategy,
    Tasks,
    check_tasks_and_style,
    in_order,
    low_mark,
    must_stay,
)

__all__ = ["QUERY_STEPS", "default_query", "newest_asked_for", "semantic_pruning"]

WindowQuery: TypeAlias = str | Callable[[Sequence[Step]], str] | None

QUERY_GROUPS = 2  # newest groups that are asked for
QUERY_STEPS = 200  # newest steps that these are looked for in
RECENT_SHARE = 0.5  # of what critical steps leave: the newest groups but the last get no more


def semantic_pruning(
    embedder: str | Embedder | Embeds = "static",
    max_tokens: int = 8_000,
    query: WindowQuery = None,
    keep_recent: int = 4,
    *,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "auto",
    shorten: bool = True,
) -> PruneStrategy:
    """Keep critical steps, the newest groups, and of the rest the most relevant, within `max_tokens`.

    As long as the whole is within `max_tokens` nothing changes. When it is over, critical steps stay, with the newest
    request, and the newest `keep_recent` groups: the very last whatever it costs, shortened if it is too long, the
    others while they take at most half of what is left. The rest, up to `low_water` tokens, goes to passages that are
    most relevant to `query` for their tokens, scored as `recall` scores them.

    The same steps give the same window. One strategy may serve several windows and threads.

    >>> steps = [TaskStep("Fix the login test"), MessageStep("user", "The login test fails on port 8080."),
    ...          *(MessageStep("user", f"Lunch on day {day} was soup again, with bread.") for day in range(30))]
    >>> strategy = semantic_pruning("static", max_tokens=60, query="Which port does the login test use?", keep_recent=1)
    >>> [step.text for step in strategy(steps)][:2]
    ['Fix the login test', 'The login test fails on port 8080.']

    Args:
        embedder: An embedder, or its name.
        max_tokens: The most tokens of the window, counted on the messages as sent.
        query: A text, or a callable that makes one of the steps; by default the beginning of the current task and the
            two newest groups.
        keep_recent: The newest groups that stay.
        low_water: The tokens to which a pruning goes; by default `max_tokens`. With fewer, the window's start moves in
            jumps, and prompt caches hold between them.
        counter: A TokenCounter, the name of an encoding or a model, or None for the default.
        tasks: `"all"` keeps every task while there is room; with `"current"` earlier ones count as any other step.
        style: The style in which steps are sent, and so counted; see `Step.to_messages`.
        shorten: Cut long results and messages to their first line and relevant passages, with marks for the rest, and
            texts in calls to 100 characters; without it groups stay whole or go.

    Raises:
        InputError: An argument makes no sense.
        BudgetError: Raised by the strategy, when critical steps alone are over `max_tokens`.
        EmbedderError: Raised by the strategy, when the embedder fails.
    """
    check_non_negative_int("max_tokens", max_tokens)
    check_non_negative_int("keep_recent", keep_recent)
    if query is not None and not isinstance(query, str) and not callable(query):
        raise InputError(f"query must be a text, a callable that gives one, or None, not {describe_type(query)}")
    check_tasks_and_style(tasks, style)
    target = low_mark(low_water, "max_tokens", max_tokens)
    index, price = StepIndex(embedder_from(embedder)), Prices(counter_from(counter), style)
    asked = default_query if query is None else query
    cut_to = max_tokens if keep_recent and shorten else 0
    return _most_relevant(index, price, asked, max_tokens, target, keep_recent, cut_to, tasks, shorten)


def _most_relevant(
    index: StepIndex,
    price: Prices,
    query: str | Callable[[Sequence[Step]], str],
    max_tokens: int,
    target: int,
    keep_recent: int,
    cut_to: int,
    tasks: Tasks,
    shorten: bool,
) -> PruneStrategy:
    def prune_semantically(steps: Sequence[Step]) -> list[Step]:
        costs = price(steps)
        if PER_REPLY + sum(costs.values()) <= max_tokens:
            return list(steps)
        kept, others, used = must_stay(steps, costs, max_tokens, max_tokens, tasks)
        limits = chain([max_tokens], repeat(used + int(RECENT_SHARE * (target - used))))
        recent, used = newest_or_cut(others, costs, used, islice(limits, min(keep_recent, len(others))), cut_to, price)
        older = others[: len(others) - len(recent)]
        text = query if isinstance(query, str) else query(steps)
        if older and used < target and text.strip():
            found = index.score([*chain.from_iterable(older)], text)
            kept += filled(older, found, price, costs, target - used, shorten)
        return in_order(steps, [*kept, *recent])

    return prune_semantically


def newest_asked_for(steps: Sequence[Step]) -> list[Step]:
    """Return the steps of the QUERY_GROUPS newest groups, which say what is needed now."""
    return [*chain.from_iterable(grouped(steps[-QUERY_STEPS:])[-QUERY_GROUPS:])]


def default_query(steps: Sequence[Step], task: Step | None = None) -> str:
    """Return the newest groups as a stretch, behind the beginning of the task: the given, or the current one."""
    newest = newest_asked_for(steps)
    if task is None:
        request = newest_request(steps)
        task = newest_of(steps, TaskStep) if request is None or request in newest else request
    return stretch_of(newest, task.text if task else "")

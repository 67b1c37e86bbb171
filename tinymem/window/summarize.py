"""The strategy summarize_strategy: one summary takes the place of the oldest steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

from tinymem.errors import InputError
from tinymem.messages.conversion import groups
from tinymem.messages.tokens import PER_REPLY, Prices, counter_from
from tinymem.protocols import Summarizer, Summarizes, TokenCounter
from tinymem.registry import summarizer_from
from tinymem.steps.checks import check_non_negative_int
from tinymem.steps.step import Step, Style
from tinymem.summarizers.extractive import ExtractiveSummarizer
from tinymem.summarizers.writing import FunctionSummarizer, SummaryWriter
from tinymem.window.excerpts import newest_or_cut
from tinymem.window.strategy import (
    Group,
    PruneStrategy,
    Tasks,
    check_tasks_and_style,
    critical,
    in_order,
    low_mark,
    must_stay,
    newest_groups,
    split,
    with_request,
)

__all__ = ["summarize_strategy"]

USUAL = 100  # tokens that a summary may have at least, unless said otherwise: its fence takes about 35
USUAL_BY_COUNT = 500  # tokens of a summary where steps are counted
MOST_STEPS, NEWEST_GROUPS = 50, 4  # unless said otherwise
ENDLESS = 1_000_000_000  # tokens: a function's summary is as long as it is, unless said otherwise


def summarize_strategy(
    summarizer: str | Summarizer | Summarizes | None = None,
    *,
    max_steps: int | None = None,
    max_tokens: int | None = None,
    keep_recent: int | None = None,
    summary_tokens: int | None = None,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "auto",
) -> PruneStrategy:
    """Replace the oldest steps by one SummaryStep, when there are too many: by number, or by tokens.

    Critical steps and the newest groups stay, groups whole, and everything older becomes the summary, with an earlier
    summary. It has the id, the number and the place of the last step that it covers, is fenced as data, and `covers`
    names all steps that it stands for; a `HierarchicalMemory` keeps these whole. A summary that is too long is cut.
    When the summarizer fails, the extractive one takes over, with a warning.

    By tokens the very last group stays even at the cost of the summary, with its long texts cut where it does not fit.
    Where no room is left for a summary, the older steps just go.

    >>> steps = [TaskStep("Fix the login"), *(MessageStep("user", f"Host {i} has port {8000 + i}.") for i in range(60))]
    >>> window = summarize_strategy(lambda steps: f"{len(steps)} hosts were looked at.")(steps)
    >>> [step.type for step in window[:3]], len(window), len(window[1].covers)
    (['task', 'summary', 'message'], 27, 35)

    Args:
        summarizer: A function `steps -> str`, a Summarizer, its name (as `"openai:gpt-4o-mini"`), or None for the
            extractive one, which needs no model.
        max_steps: The most steps of the window, 50 by default; more where critical steps alone are many.
        max_tokens: The most tokens of the window, instead of `max_steps`.
        keep_recent: By number the newest steps that stay, by default half of `max_steps`; by tokens the newest groups
            that stay up to `max_tokens`, by default 4.
        summary_tokens: The most tokens of the summary as sent; by number 500 by default, of a function no limit; by
            tokens a quarter of `low_water` by default, but at least 100.
        low_water: The tokens to which a pruning goes, with the summary; by default half of `max_tokens`.
        counter: A TokenCounter, the name of an encoding or a model, or None for the default.
        tasks: `"all"` keeps every task while there is room; with `"current"` earlier ones count as any other step.
        style: The style in which steps are sent, and so counted; see `Step.to_messages`.

    Raises:
        InputError: An argument makes no sense.
        BudgetError: Raised by the strategy by tokens, when critical steps alone are over `max_tokens`.
    """
    check_tasks_and_style(tasks, style)
    tokens = counter_from(counter)
    extractive = ExtractiveSummarizer(tokens)
    chosen = extractive if summarizer is None else summarizer_from(summarizer)
    writer = SummaryWriter(chosen, extractive, tokens, Prices(tokens, style))
    if max_tokens is None:
        if low_water is not None:
            raise InputError("low_water is a number of tokens, and goes with max_tokens")
        return _by_count(writer, max_steps, keep_recent, summary_tokens, tasks)
    if max_steps is not None:
        raise InputError("max_steps and max_tokens are two ways to say when: give one of them")
    return _by_tokens(writer, max_tokens, keep_recent, summary_tokens, low_water, tasks)


def _by_count(
    writer: SummaryWriter, max_steps: int | None, keep_recent: int | None, summary_tokens: int | None, tasks: Tasks
) -> PruneStrategy:
    most = MOST_STEPS if max_steps is None else check_non_negative_int("max_steps", max_steps)
    recent = most // 2 if keep_recent is None else check_non_negative_int("keep_recent", keep_recent)
    if recent > most:
        raise InputError(f"keep_recent must be at most max_steps ({most}), not {recent}")
    share = USUAL_BY_COUNT if summary_tokens is None else check_non_negative_int("summary_tokens", summary_tokens)
    room = ENDLESS if summary_tokens is None and isinstance(writer.summarizer, FunctionSummarizer) else share

    def summarize_by_count(steps: Sequence[Step]) -> list[Step]:
        if len(steps) <= most:
            return list(steps)
        kept, others = split(groups(steps), critical(steps, tasks))
        # Where critical steps alone are many, few others make no summary yet: each summary of a summary loses something
        if sum(map(len, others)) <= recent + (most - recent) // 2:
            return list(steps)
        kept += newest_groups(others, recent, min(recent, 1))
        return _summarize(writer, steps, with_request(steps, kept) if recent else kept, room, share)

    return summarize_by_count


def _by_tokens(
    writer: SummaryWriter,
    max_tokens: int,
    keep_recent: int | None,
    summary_tokens: int | None,
    low_water: int | None,
    tasks: Tasks,
) -> PruneStrategy:
    check_non_negative_int("max_tokens", max_tokens)
    least = NEWEST_GROUPS if keep_recent is None else check_non_negative_int("keep_recent", keep_recent)
    target = low_mark(max_tokens // 2 if low_water is None else low_water, "max_tokens", max_tokens)
    usual = min(target, max(target // 4, USUAL))
    share = usual if summary_tokens is None else check_non_negative_int("summary_tokens", summary_tokens)
    if share > target:
        raise InputError(f"summary_tokens must be at most low_water ({target}), not {share}")
    return _within_tokens(writer, max_tokens, target, share, least, tasks)


def _within_tokens(
    writer: SummaryWriter, max_tokens: int, target: int, share: int, least: int, tasks: Tasks
) -> PruneStrategy:
    def summarize_by_tokens(steps: Sequence[Step]) -> list[Step]:
        costs = writer.price(steps)
        if PER_REPLY + sum(costs.values()) <= max_tokens:
            return list(steps)
        kept, others, used = must_stay(steps, costs, max_tokens, max_tokens - share, tasks)
        wanted = [max_tokens, *repeat(max_tokens - share, len(others))]
        limits = chain(wanted[:least], repeat(target - share))
        recent, used = newest_or_cut(others, costs, used, limits, max_tokens if least else 0, writer.price)
        return _summarize(writer, steps, kept + recent, min(share, max_tokens - used))

    return summarize_by_tokens


def _summarize(
    writer: SummaryWriter, steps: Sequence[Step], kept: list[Group], room: int, most: int | None = None
) -> list[Step]:
    """Keep these groups of `steps`, and put a summary of `room` tokens in the place of all others."""
    stays = {step.id for step in chain.from_iterable(kept)}
    covered = [step for step in steps if step.id not in stays]
    summary = writer.summary(covered, room, most) if covered else None
    return in_order(steps, [*kept, [summary] if summary else []])

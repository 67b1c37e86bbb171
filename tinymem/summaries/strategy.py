"""summarize_strategy: the oldest steps make way for one summary, which takes the place of the last of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinymem.base import Step, Style
from tinymem.checks import one_of, whole_number
from tinymem.content import as_text, clean
from tinymem.errors import InputError
from tinymem.excerpts import fitted as shortened
from tinymem.fitting import fitted
from tinymem.messages import groups
from tinymem.protocols import Summarizer, TokenCounter
from tinymem.quiet import without_content
from tinymem.registry import summarizer_from
from tinymem.steps import SummaryStep
from tinymem.strategy import (
    Group,
    Prices,
    PruneStrategy,
    Tasks,
    critical,
    fill_with_newest,
    in_order,
    low_mark,
    split,
    tokens_needed,
)
from tinymem.summaries.extractive import ExtractiveSummarizer
from tinymem.summaries.fence import summary_block, unfenced
from tinymem.tokens import PER_REPLY, counter_from

__all__ = ["SummarizeStrategy", "summarize_strategy"]

logger = logging.getLogger(__name__)

USUAL = 100  # tokens that a summary may have at least, unless said otherwise: its fence takes about 35
LEAST_SUMMARY = 16  # tokens below which a summary is not worth its fence


def summarize_strategy(
    summarizer: Summarizer | str | None = None,
    *,
    max_tokens: int,
    summary_tokens: int | None = None,
    keep_recent: int = 4,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "tools",
) -> PruneStrategy:
    """A window of at most `max_tokens` whose oldest steps are one SummaryStep of at most `summary_tokens`, as sent.

    As long as the whole is within `max_tokens` nothing changes. When it is over, critical steps stay, and the newest
    groups up to `low_water` tokens (default: half of `max_tokens`), summary included; the newest `keep_recent` groups
    up to `max_tokens`. The very last stays whatever the summary then lacks, with its long texts cut where it does not
    fit. Everything older is replaced by a summary, an earlier summary included, so that there is one. Where no room is
    left for it, the older steps just go. Each summary of a summary loses something, so a low `low_water`, and few
    prunings, serve it; prompt caches hold between them. Unless given, `summary_tokens` are a quarter of `low_water`,
    but at least 100.

    The SummaryStep has the id and the number of the last step that it covers, and takes its place; `covers` names all
    steps that it stands for, those of summaries that it replaced too. It is fenced as data. In a `HierarchicalMemory`
    every covered step stays whole in the archive, is recalled as any other, and `restore` brings it back.

    `summarizer` is one, its name (as `"openai:gpt-4o-mini"`), or None for the extractive one, which needs no model.
    When it fails, the extractive one takes over, with a warning; what it writes beyond its budget is cut. `counter`,
    `tasks` and `style` are as in `token_budget`.

    >>> steps = [TaskStep("Fix the login"), *(MessageStep("user", f"Host {i} has port {8000 + i}.") for i in range(20))]
    >>> window = summarize_strategy(max_tokens=200, summary_tokens=90, low_water=150)(steps)
    >>> [step.type for step in window], len(window[1].covers)
    (['task', 'summary', 'message', 'message', 'message', 'message'], 16)

    Raises InputError for arguments that make no sense; the strategy raises BudgetError when system prompts, the
    current task and pinned steps alone are over `max_tokens`.
    """
    whole_number("max_tokens", max_tokens)
    whole_number("keep_recent", keep_recent)
    target = low_mark(max_tokens // 2 if low_water is None else low_water, "max_tokens", max_tokens)
    usual = min(target, max(target // 4, USUAL))
    share = usual if summary_tokens is None else whole_number("summary_tokens", summary_tokens)
    if share > target:
        raise InputError(f"summary_tokens must be at most low_water ({target}), not {share}")
    one_of("tasks", tasks, "all", "current")
    one_of("style", style, "tools", "observation")
    tokens = counter_from(counter)
    extractive = ExtractiveSummarizer(tokens)
    chosen = extractive if summarizer is None else summarizer_from(summarizer)
    price = Prices(tokens, style)
    return SummarizeStrategy(chosen, extractive, tokens, price, max_tokens, target, share, keep_recent, tasks)


@dataclass
class SummarizeStrategy:
    """The strategy that `summarize_strategy` makes."""

    summarizer: Summarizer
    extractive: Summarizer
    counter: TokenCounter
    price: Prices
    max_tokens: int
    target: int
    summary_tokens: int
    keep_recent: int
    tasks: Tasks

    def __call__(self, steps: Sequence[Step]) -> list[Step]:
        """The new window; see `summarize_strategy`."""
        costs = self.price(steps)
        if PER_REPLY + sum(costs.values()) <= self.max_tokens:
            return list(steps)
        kept, rest = split(groups(steps), critical(steps, "current"))
        older_tasks, others = split(rest, critical(steps, self.tasks))
        used = tokens_needed(kept, costs, self.max_tokens)
        room = self.max_tokens - self.summary_tokens
        used = fill_with_newest(kept, older_tasks, costs, used, room, room)
        recent, used = self._recent(others, costs, used)
        stays = {step.id for group in [*kept, *recent] for step in group}
        covered = [step for step in steps if step.id not in stays]
        summary = self._summary(covered, self.max_tokens - used) if covered else None
        return in_order(steps, [*kept, *recent, [summary] if summary else []])

    def _recent(self, others: Sequence[Group], costs: Mapping[str, int], used: int) -> tuple[list[Group], int]:
        """The newest groups, without a gap, oldest first, and the tokens used with them."""
        recent: list[Group] = []
        for group in reversed(others):
            wanted = len(recent) < self.keep_recent
            limit = (self.max_tokens if wanted else self.target) - (self.summary_tokens if recent or not wanted else 0)
            cost = sum(costs[step.id] for step in group)
            if used + cost > limit:
                break
            recent.insert(0, group)
            used += cost
        if self.keep_recent and others and not recent:
            cut = shortened(others[-1], (self.max_tokens - used) // 2, self.price.count)
            recent = [cut] if cut else []
            used += sum(map(self.price.count, cut))
        return recent, used

    def _summary(self, covered: Sequence[Step], room: int) -> SummaryStep | None:
        """What stands for `covered` in at most `room` tokens, or None."""
        last = covered[-1]
        covers = tuple(dict.fromkeys(id for step in covered for id in (*_covers(step), step.id)))
        summary = SummaryStep(
            "", covers, id=last.id, number=last.number, session=last.session, timestamp=last.timestamp,
            metadata={"summarizer": self.summarizer.name},
        )  # fmt: skip
        text = self._text(covered, covers, min(self.summary_tokens, room) - self.price.count(summary))
        return summary.evolve(summary=text) if text else None

    def _text(self, covered: Sequence[Step], covers: Sequence[str], room: int) -> str:
        """The fenced summary, in at most `room` tokens; "" where there is none, or no room."""
        left = room - self.counter.count(summary_block("", covers))
        if left < LEAST_SUMMARY:
            return ""
        body = self._body([_opened(step) for step in covered], left)
        while body := fitted(body, left, self.counter):
            text = summary_block(body, covers)
            if (over := self.counter.count(text) - room) <= 0:
                return text
            left -= over  # the fence's name hangs on what is in it, and costs a token more or less
        return ""

    def _body(self, steps: Sequence[Step], max_tokens: int) -> str:
        try:
            found = self.summarizer.summarize(steps, max_tokens)
            if isinstance(found, str):
                return clean(found).strip()
            problem = f"gave no text but {type(found).__name__}"
        except Exception as error:  # whatever it is, the window must be kept within its tokens
            problem = f"failed: {without_content(error)}"
        logger.warning("the summarizer %s %s; lines of the steps are picked instead", self.summarizer.name, problem)
        return self.extractive.summarize(steps, max_tokens)


def _covers(step: Step) -> Sequence[str]:
    return step.covers if isinstance(step, SummaryStep) else ()


def _opened(step: Step) -> Step:
    """A summary without its fence, for the next one to be made of."""
    return step.evolve(summary=unfenced(as_text(step.summary))) if isinstance(step, SummaryStep) else step

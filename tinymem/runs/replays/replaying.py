"""Replay: recorded runs again, call by call, to see what each way to prune costs and what it leaves in sight.

What the agent did is held fixed. For each call of its model, the prompt that a policy would have sent gives three
figures that need no model: its tokens, the part of them that the provider's prefix cache serves, and whether what the
agent copied into that call stood in it. What they cannot say: whether the agent would have done the same, and how many
calls it would have needed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tinymem.errors import BudgetError, InputError
from tinymem.messages.tokens import PER_REPLY, count_message, counter_from
from tinymem.protocols import TokenCounter
from tinymem.runs.readers import Run, read_runs
from tinymem.runs.replays.billing import PrefixCache, Prices, prices_from
from tinymem.runs.replays.needles import Needles
from tinymem.runs.replays.policies import (
    MAKERS,
    USUAL,
    WHOLE,
    Policy,
    Setting,
    messages_of,
    of_strategy,
)
from tinymem.steps.checks import check_choice, check_token_budget
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Message, Step
from tinymem.window.strategy import Pruner, check_strategy

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Figures", "Replay", "Turn", "recorded_runs", "replay", "turns_of"]

QUARTER = "1/4 of the run"  # the budget, unless some are given
LEAST = 4_000  # tokens of such a budget
GIVEN = "as given"  # the budget of a strategy of the caller, which may have the name of a policy

Files: TypeAlias = str | Path | Run | Iterable[str | Path | Run]


@dataclass(frozen=True)
class Figures:
    """Figures of one policy at one budget, on one run or as means over several.

    Attributes:
        run: The name of the run; "" for means.
        policy: The name of the policy.
        budget: The tokens that it may send, as a share of the run or a number; "" for the whole history, "as given" for
            a strategy of your own.
        calls: The calls of the model.
        tokens: Tokens sent in all calls.
        cached: Those of them that the prefix cache served.
        bill: The price of all, in fresh tokens.
        share: The bill as a share of that of the whole history.
        needed: The identifiers and lines that calls copied from far back (`tinymem.runs.replays.needles`).
        visible: The share of them that stood in the prompt; None if nothing was needed.
        ms: Milliseconds that making a prompt took, on average.
        overflow: Tokens, about, that bore on a prompt and had no room, on average: much of it asks for a larger budget.
    """

    run: str
    policy: str
    budget: str
    calls: float
    tokens: float
    cached: float
    bill: float
    share: float
    needed: float
    visible: float | None
    ms: float
    overflow: float = 0


@dataclass(frozen=True)
class Replay:
    """The outcome of `replay`.

    Attributes:
        figures: Figures of each run, policy and budget.
        prices: What tokens cost.
        unfit: Policies that could not be replayed on a run, and why: a budget too small for what must be sent.
    """

    figures: tuple[Figures, ...]
    prices: Prices
    unfit: tuple[str, ...] = ()

    def means(self) -> list[Figures]:
        """Return means over runs, each run with the same weight, for every policy and budget."""
        groups: defaultdict[tuple[str, str], list[Figures]] = defaultdict(list)
        for figures in self.figures:
            groups[figures.policy, figures.budget].append(figures)
        return [*map(_mean, groups.values())]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        return {**asdict(self), "means": [*map(asdict, self.means())]}

    def table(self) -> Table:
        """Return the means as a table, to be printed by rich."""
        from rich.table import Table

        table = Table("policy", "budget")
        for name in ("calls", "tokens sent", "cached", "bill", "of the whole", "visible", "no room", "ms a call"):
            table.add_column(name, justify="right")
        for mean in self.means():
            visible = "-" if mean.visible is None else f"{mean.visible:.2f}"
            cached = f"{mean.cached / mean.tokens:.2f}" if mean.tokens else "-"
            sizes = f"{mean.calls:,.0f}", f"{mean.tokens:,.0f}", cached, f"{mean.bill:,.0f}", f"{mean.share:.2f}"
            table.add_row(mean.policy, mean.budget, *sizes, visible, f"{mean.overflow:,.0f}", f"{mean.ms:.1f}")
        return table


class Turn(NamedTuple):
    """A call of the model: the `new` steps since the one before, and what the model answered."""

    new: Sequence[Step]
    answer: Sequence[Message]


def replay(
    files: Files,
    *,
    budgets: Sequence[int] = (),
    policies: Sequence[str] = (),
    strategies: Mapping[str, Pruner] | None = None,
    prices: Prices | str = "anthropic",
    embedder: str = "static",
    counter: TokenCounter | str | None = None,
    progress: Progress = no_progress,
) -> Replay:
    """Replay recorded runs under each policy: what would have been sent, what that costs, and what stays in sight.

    Args:
        files: A file that `tinymem ingest` reads, a Run, or several of either.
        budgets: Tokens that a policy may send; a quarter of each run unless given.
        policies: Names of policies; unless given, all but `fit`, which takes as long as `context`.
        strategies: Strategies of your own, by name; they are replayed as they are, beside the policies.
        prices: A provider's name, ratios as in `"1:0.1:1.25"` (fresh, cached, written), or Prices.
        embedder: The embedder of policies that have one.
        counter: A TokenCounter, or the name of an encoding or of a model.
        progress: Hears of how many calls were replayed, and of how many there are.

    Returns:
        The figures, for each run, policy and budget.

    Raises:
        InputError: A file cannot be read, a name is unknown, or no run has a call of a model.

    >>> from tinymem import replay
    >>> found = replay("session.jsonl", budgets=[16_000])  # doctest: +SKIP
    >>> [(one.policy, one.share, one.visible) for one in found.means()]  # doctest: +SKIP
    """
    for budget in budgets:
        check_token_budget("budgets", budget)
    for policy in policies:
        check_choice("policies", policy, *MAKERS)
    for name, strategy in (strategies or {}).items():
        check_strategy(name, strategy)
    price, count = prices_from(prices), counter_from(counter)
    recorded = [_recorded(run, count, embedder, price.cached) for run in recorded_runs(files)]
    jobs: list[_Job] = []
    for run in recorded:
        if run.turns:
            jobs += _jobs(run, budgets, policies, strategies or {})
    if not jobs:
        raise InputError("there is no call of a model in what was given: replay needs what an assistant answered")
    figures: list[Figures] = []
    unfit: list[str] = []
    bill, done, total = 1.0, 0, sum(len(job.run.turns) for job in jobs)

    def tell(calls: int) -> None:
        progress(done + calls, total)

    for job in jobs:
        try:
            found = job.replay(price, tell)
            if job.policy == WHOLE and job.strategy is None:
                bill = found.bill
            figures.append(replace(found, share=found.bill / bill))
        except BudgetError as error:
            unfit.append(f"{job.run.name}: {job.policy}, {job.label}: {error}")
        done += len(job.run.turns)
    return Replay(tuple(figures), price, tuple(unfit))


class _RecordedPrompt(NamedTuple):
    """A run to replay: its calls, what each of them copied from far back, and the setting of the whole history."""

    name: str
    turns: Sequence[Turn]
    needed: Sequence[Sequence[str]]
    whole: Setting


def _recorded(run: Run, counter: TokenCounter, embedder: str, cache: float) -> _RecordedPrompt:
    turns, needles, needed = turns_of(run), Needles(), []
    tokens = 0
    for turn in turns:
        for message in messages_of(turn.new):
            count = count_message(message, counter)
            needles.add(message, count)
            tokens += count
        needed.append([*chain.from_iterable(map(needles.copied, turn.answer))])
    steps = sum(len(turn.new) for turn in turns)
    return _RecordedPrompt(run.name, turns, needed, Setting(tokens, tokens / max(1, steps), counter, embedder, cache))


class _Job(NamedTuple):
    """A policy, or a strategy of the caller, at one budget and on one run."""

    run: _RecordedPrompt
    policy: str
    label: str
    setting: Setting
    strategy: Pruner | None = None

    def replay(self, prices: Prices, tell: Callable[[int], object]) -> Figures:
        """Replay the run. Raises BudgetError where the budget is too small."""
        policy = of_strategy(self.strategy)(self.setting) if self.strategy else MAKERS[self.policy](self.setting)
        with closing(policy):
            found = _replayed(policy, self.run, PrefixCache(prices, self.setting.counter), tell)
        return replace(found, policy=self.policy, budget=self.label)


def _jobs(
    run: _RecordedPrompt, budgets: Sequence[int], policies: Sequence[str], strategies: Mapping[str, Pruner]
) -> list[_Job]:
    """Return what to replay of a run; the whole history comes first, since bills are shares of its bill."""
    labelled = {f"{budget:,}": budget for budget in budgets} or {QUARTER: max(LEAST, run.whole.budget // 4)}
    jobs = [_Job(run, WHOLE, "", run.whole)]
    wanted = {*(policies or USUAL)} - {WHOLE}
    for name in filter(wanted.__contains__, MAKERS):
        jobs += [_Job(run, name, label, replace(run.whole, budget=budget)) for label, budget in labelled.items()]
    return jobs + [_Job(run, name, GIVEN, run.whole, strategy) for name, strategy in strategies.items()]


def turns_of(run: Run) -> list[Turn]:
    """Return the calls of the model in a run; what it said in a row, with no answer between, is one call."""
    turns: list[Turn] = []
    new: list[Step] = []
    waits = False
    for step in run.steps:
        messages = step.to_messages(style="tools")
        if messages and messages[0]["role"] == "assistant":
            if waits:
                turns[-1] = turns[-1]._replace(answer=[*turns[-1].answer, messages[0]])
            elif new:
                turns.append(Turn(new, messages[:1]))
                new = []
            waits = bool(turns) and len(messages) == 1
        else:
            waits = False
        new.append(step)
    return turns


def recorded_runs(files: Files) -> Iterator[Run]:
    """Yield the runs in files, whole; InputError for one that ends early."""
    for file in [files] if isinstance(files, (str, Path, Run)) else files:
        for run in [file] if isinstance(file, Run) else read_runs(file):
            if run.fault is not None:
                raise run.fault
            yield run


def _replayed(policy: Policy, run: _RecordedPrompt, cache: PrefixCache, tell: Callable[[int], object]) -> Figures:
    """Replay a run under one policy. Raises BudgetError where its budget is too small."""
    calls, tokens, cached, visible, overflow = len(run.turns), 0, 0, 0, 0
    bill = seconds = 0.0
    for place, (turn, needles) in enumerate(zip(run.turns, run.needed, strict=True), 1):
        begun = time.perf_counter()
        policy.add(turn.new)
        prompt = policy.prompt()
        seconds += time.perf_counter() - begun
        overflow += policy.overflow
        sent = cache.send(prompt, PER_REPLY)
        tokens, cached, bill = tokens + sent.tokens, cached + sent.cached, bill + sent.bill
        if needles:
            text = "\n".join(piece.text for piece in prompt)
            visible += sum(needle in text for needle in needles)
        tell(place)
    needed, ms = sum(map(len, run.needed)), 1000 * seconds / calls
    seen = visible / needed if needed else None
    return Figures(run.name, "", "", calls, tokens, cached, bill, 1, needed, seen, ms, overflow / calls)


def _mean(same: Sequence[Figures]) -> Figures:
    """Return means of figures; what was visible by those that needed something."""
    names = ("calls", "tokens", "cached", "bill", "share", "needed", "ms", "overflow")
    means: dict[str, Any] = {name: fmean(map(attrgetter(name), same)) for name in names}
    seen = [figures.visible for figures in same if figures.visible is not None]
    return replace(same[0], run="", visible=fmean(seen) if seen else None, **means)

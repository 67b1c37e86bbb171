"""Replay: recorded runs again, call by call, to see what each way to prune costs and what it leaves in sight.

What the agent did is held fixed. For each call of its model, the prompt that a policy would have sent gives three
figures that need no model: its tokens, the part of them that the provider's prefix cache serves, and whether what the
agent copied into that call stood in it. What they cannot say: whether the agent would have done the same, and how many
calls it would have needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from tinymem.errors import BudgetError, InputError
from tinymem.messages.tokens import PER_REPLY, count_message, counter_from
from tinymem.protocols import TokenCounter
from tinymem.runs.readers import Run, read_runs
from tinymem.runs.replays.billing import PrefixCache, Prices, Sent, prices_from
from tinymem.runs.replays.needles import Needles
from tinymem.runs.replays.policies import MAKERS, USUAL, WHOLE, OfWindow, Policy, Setting, messages_of
from tinymem.steps.checks import check_choice, check_token_budget
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Message, Step
from tinymem.steps.terminal import Column, draw, table_of
from tinymem.window.strategy import Pruner, check_strategy

__all__ = ["Figures", "RecordedRun", "Replay", "Turn", "recorded_runs", "replay"]

QUARTER = "1/4 of the run"  # the budget, unless some are given
LEAST = 4_000  # tokens of such a budget
GIVEN = "as given"  # the budget of a strategy of the caller, which may have the name of a policy
NUMBERS = ("calls", "tokens", "cached", "bill", "share", "needed")  # of figures, whose means are taken
TITLES = ("budget", "calls", "tokens sent", "cached", "bill", "of the whole", "visible")

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

    def text(self) -> str:
        """Return the means as a table."""
        columns = [Column("policy"), *(Column(title, right=True) for title in TITLES)]
        return draw([table_of(columns, map(_cells, self.means()))])


class Turn(NamedTuple):
    """A call of the model: the `new` steps since the one before, and what it copied from far back."""

    new: Sequence[Step]
    needed: Sequence[str]


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
        progress: Hears of how many replays were made (of a run, under a policy, at a budget), and of how many there
            are.

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
    jobs: list[_Job] = []
    for run in recorded_runs(files, count):
        whole = Setting(run.tokens, run.tokens / len(run.steps()), count, embedder, price.cached)
        jobs += _jobs(run, whole, budgets, policies or USUAL, strategies or {})
    if not jobs:
        raise InputError("there is no call of a model in what was given: replay needs what an assistant answered")
    figures: list[Figures] = []
    unfit: list[str] = []
    bill = 1.0  # of the whole history
    for done, job in enumerate(jobs, 1):
        try:
            found = _replayed(job, PrefixCache(price, count))
            bill = bill if job.budget else found.bill
            figures.append(replace(found, share=found.bill / bill))
        except BudgetError as error:
            unfit.append(f"{job.run.name}: {job.policy}, {job.budget}: {error}")
        progress(done, len(jobs))
    return Replay(tuple(figures), price, tuple(unfit))


class RecordedRun(NamedTuple):
    """A run to replay: its name, its calls, and the tokens of its messages."""

    name: str
    turns: Sequence[Turn]
    tokens: int

    def steps(self) -> list[Step]:
        """Return the steps before the last call."""
        return [*chain.from_iterable(turn.new for turn in self.turns)]


def recorded_runs(files: Files, counter: TokenCounter) -> Iterator[RecordedRun]:
    """Yield the runs in files that have a call of a model; InputError for one that ends early."""
    for file in [files] if isinstance(files, (str, Path, Run)) else files:
        for run in [file] if isinstance(file, Run) else read_runs(file):
            if (recorded := _recorded(run, counter)).turns:
                yield recorded


def _recorded(run: Run, counter: TokenCounter) -> RecordedRun:
    turns: list[Turn] = []
    needles, tokens = Needles(), 0
    for new, answer in _calls_of(run):
        for message in messages_of(new):
            count = count_message(message, counter)
            needles.add(message, count)
            tokens += count
        turns.append(Turn(new, [*chain.from_iterable(map(needles.copied, answer))]))
    return RecordedRun(run.name, turns, tokens)


def _calls_of(run: Run) -> list[tuple[list[Step], list[Message]]]:
    """Return for each call of the model in a run the steps since the one before, and what the model answered.

    What it said in a row, with no answer between, is one call.
    """
    calls: list[tuple[list[Step], list[Message]]] = []
    new: list[Step] = []
    answer: list[Message] = []
    waits = False
    for step in run.steps:
        messages = step.to_messages(style="tools")
        if messages and messages[0]["role"] == "assistant":
            if waits:
                answer.append(messages[0])
            elif new:
                answer = messages[:1]
                calls.append((new, answer))
                new = []
            waits = bool(calls) and len(messages) == 1
        else:
            waits = False
        new.append(step)
    return calls


class _Job(NamedTuple):
    """A policy, or a strategy of the caller, at one budget and on one run."""

    run: RecordedRun
    policy: str
    budget: str
    make: Callable[[], Policy]


def _jobs(
    run: RecordedRun,
    whole: Setting,
    budgets: Sequence[int],
    policies: Sequence[str],
    strategies: Mapping[str, Pruner],
) -> Iterator[_Job]:
    """Yield what to replay of a run; the whole history comes first, since bills are shares of its bill."""
    labelled = {f"{budget:,}": budget for budget in budgets} or {QUARTER: max(LEAST, whole.budget // 4)}
    yield _Job(run, WHOLE, "", partial(MAKERS[WHOLE], whole))
    for name in [name for name in MAKERS if name in policies and name != WHOLE]:
        for label, budget in labelled.items():
            yield _Job(run, name, label, partial(MAKERS[name], replace(whole, budget=budget)))
    for name, strategy in strategies.items():
        yield _Job(run, name, GIVEN, partial(OfWindow, strategy, whole.counter))


def _replayed(job: _Job, cache: PrefixCache) -> Figures:
    """Replay a run under one policy. Raises BudgetError where its budget is too small."""
    run, visible = job.run, 0
    sent: list[Sent] = []
    with closing(job.make()) as policy:
        for turn in run.turns:
            policy.add(turn.new)
            prompt = policy.prompt()
            sent.append(cache.send(prompt, PER_REPLY))
            text = "\n".join(piece.text for piece in prompt) if turn.needed else ""
            visible += sum(needle in text for needle in turn.needed)
    tokens, cached, bill = map(sum, zip(*sent, strict=True))
    needed = sum(len(turn.needed) for turn in run.turns)
    seen = visible / needed if needed else None
    return Figures(run.name, job.policy, job.budget, len(run.turns), tokens, cached, bill, 1, needed, seen)


def _mean(same: Sequence[Figures]) -> Figures:
    """Return means of figures; what was visible by those that needed something."""
    means: dict[str, Any] = {name: fmean(map(attrgetter(name), same)) for name in NUMBERS}
    seen = [figures.visible for figures in same if figures.visible is not None]
    return replace(same[0], run="", visible=fmean(seen) if seen else None, **means)


def _cells(mean: Figures) -> Sequence[str]:
    """Return figures as a row of the table."""
    sent = f"{mean.calls:,.0f}", f"{mean.tokens:,.0f}", f"{mean.cached / mean.tokens:.2f}"
    visible = "-" if mean.visible is None else f"{mean.visible:.2f}"
    return mean.policy, mean.budget, *sent, f"{mean.bill:,.0f}", f"{mean.share:.2f}", visible

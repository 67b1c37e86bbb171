"""semantic_pruning: the window keeps what bears on the task at hand, not only what is newest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.base import Step, Style
from tinymem.errors import InputError
from tinymem.excerpts import LEAST, Slice, ends, excerpt, long_texts, with_texts
from tinymem.messages import groups
from tinymem.protocols import Embedder, TokenCounter, Vectors
from tinymem.recall.coverage import Coverage, Selection
from tinymem.recall.listed import Listed, StepIndex
from tinymem.registry import embedder_from
from tinymem.steps import TaskStep
from tinymem.strategy import (
    Group,
    Prices,
    PruneStrategy,
    Tasks,
    critical,
    fill_with_newest,
    in_order,
    low_mark,
    one_of,
    split,
    tokens_needed,
    whole_number,
)
from tinymem.tokens import PER_REPLY, counter_from

__all__ = ["SemanticPruning", "semantic_pruning"]

Asked: TypeAlias = str | Callable[[Sequence[Step]], str] | None

RECENT_SHARE = 0.5  # of what critical steps leave: the newest groups but the last get no more
TASK_SHOWN = 400  # characters of the task that are part of the question: what it is about stands first
END_SHOWN = 400  # characters of the head, and of the tail, of each newest text that are part of it
EXPONENT = 0.25  # of the cost that a gain is divided by
MARK = 6  # tokens of a mark, about
MISSES = 24  # passages in a row that did not fit, after which the window counts as full


def semantic_pruning(
    embedder: Embedder | str = "static",
    max_tokens: int = 8_000,
    query: Asked = None,
    keep_recent: int = 4,
    *,
    low_water: int | None = None,
    counter: TokenCounter | str | None = None,
    tasks: Tasks = "all",
    style: Style = "tools",
    shorten: bool = True,
) -> PruneStrategy:
    """A window of at most `max_tokens`: critical steps, the newest groups, and of the rest what matters most.

    As long as the whole is within `max_tokens` nothing changes. When it is over, critical steps stay; the newest
    `keep_recent` groups (a call and its results, or one message) stay whole, the very last whatever it costs, the
    others while they take no more than half of what critical steps leave; a last group that is itself too long is
    shortened. The rest, up to `low_water` tokens (default `max_tokens`), goes to what is most relevant to `query` and
    adds most beyond what is chosen already. With a lower `low_water` there is room for some steps before the window
    changes again, so that prompt caches hold.

    `query` is a text, or a callable that makes one of the steps; by default the beginning of the current task and the
    newest groups. `shorten` lets long results and messages be cut to their first line and their relevant passages, each
    verbatim and of 200 characters or more, with marks for what is left out; without it groups stay whole or go. The
    memory archives the original of a shortened step. `embedder` is one or its name; `counter`, `tasks` and `style`
    are as in `token_budget`.

    Passages are scored as `recall` scores them (cosine, BM25, max-sim, structure, in a linear fusion with published
    weights) and chosen by facility location with a cost-scaled greedy: Lin and Bilmes, Multi-document Summarization via
    Budgeted Maximization of Submodular Functions (NAACL 2010). Maximal marginal relevance (Carbonell and Goldstein,
    SIGIR 1998) measured a little worse; benchmarks/README.md has the figures. Tokens are counted on the messages as
    sent. The same steps give the same window. Each text is embedded once, and vectors are kept for the newest 4,096
    steps, or one window where that is longer; one strategy may serve several windows and threads.

    >>> steps = [TaskStep("Fix the login test"), MessageStep("user", "The login test fails on port 8080."),
    ...          *(MessageStep("user", f"Lunch on day {day} was soup again, with bread.") for day in range(30))]
    >>> strategy = semantic_pruning("static", max_tokens=60, query="Which port does the login test use?", keep_recent=1)
    >>> [step.text for step in strategy(steps)][:2]
    ['Fix the login test', 'The login test fails on port 8080.']

    Raises InputError for arguments that make no sense; the strategy raises BudgetError when system prompt, current
    task and pinned steps alone are over `max_tokens`, and EmbedderError when the embedder fails.
    """
    whole_number("max_tokens", max_tokens)
    whole_number("keep_recent", keep_recent)
    if query is not None and not isinstance(query, str) and not callable(query):
        raise InputError(f"query must be a text, a callable that gives one, or None, not {query!r:.80}")
    one_of("tasks", tasks, "all", "current")
    one_of("style", style, "tools", "observation")
    target = low_mark(low_water, "max_tokens", max_tokens)
    price = Prices(counter_from(counter), style)
    return SemanticPruning(
        StepIndex(embedder_from(embedder)), price, max_tokens, target, query, keep_recent, tasks, shorten
    )


@dataclass
class SemanticPruning:
    """The strategy that `semantic_pruning` makes; `select` makes what chooses among scored passages."""

    index: StepIndex
    price: Prices
    max_tokens: int
    target: int
    query: Asked
    keep_recent: int
    tasks: Tasks
    shorten: bool
    select: Callable[[Vectors, Vectors], Selection] = Coverage

    def __call__(self, steps: Sequence[Step]) -> list[Step]:
        """The new window; see `semantic_pruning`."""
        costs = self.price(steps)
        if PER_REPLY + sum(costs.values()) <= self.max_tokens:
            return list(steps)
        kept, rest = split(groups(steps), critical(steps, "current"))
        older_tasks, others = split(rest, critical(steps, self.tasks))
        used = tokens_needed(kept, costs, self.max_tokens)
        used = fill_with_newest(kept, older_tasks, costs, used, self.max_tokens, self.max_tokens)
        recent, used = self._recent(others, costs, used)
        candidates = others[: len(others) - len(recent)]
        text = self._question(steps, recent or others[-1:])
        if candidates and used < self.target and text.strip():
            listed = [step for group in candidates for step in group]
            found = self.index.score(listed, text)
            filling = _Filling(candidates, found, self.price, costs, self.target - used, self.shorten)
            kept += filling.fill(self.select(found.scores, found.vectors))
        return in_order(steps, [*kept, *recent])

    def _recent(self, others: Sequence[Group], costs: Mapping[str, int], used: int) -> tuple[list[Group], int]:
        """The newest groups, oldest first, and the tokens used with them."""
        recent: list[Group] = []
        share = used + int(RECENT_SHARE * (self.target - used))
        for group in reversed(others[len(others) - self.keep_recent :] if self.keep_recent else []):
            cost = sum(costs[step.id] for step in group)
            if used + cost > (share if recent else self.max_tokens):
                break
            recent.insert(0, group)
            used += cost
        if self.keep_recent and others and not recent:
            recent = self._fitted(others[-1], (self.max_tokens - used) // 2)
            used += sum(self.price.count(step) for group in recent for step in group)
        return recent, used

    def _fitted(self, group: Group, room: int) -> list[Group]:
        """A newest group that is too long, its long texts cut to head and tail; none where that is not enough."""
        low, high = -1, 4 * max(room, 0)  # the longest text, in characters
        while self.shorten and high - low > 8:
            middle = (low + high) // 2
            fits = sum(self.price.count(step) for step in _cut(group, middle)) <= room
            low, high = (middle, high) if fits else (low, middle)
        return [_cut(group, low)] if low >= 0 else []

    def _question(self, steps: Sequence[Step], recent: Iterable[Group]) -> str:
        if isinstance(self.query, str):
            return self.query
        if self.query is not None:
            return self.query(steps)
        task = next((step.text for step in reversed(steps) if isinstance(step, TaskStep)), "")
        said = [part.text for group in recent for step in group for part in step.parts()]
        return "\n".join([task[:TASK_SHOWN], *(_ends(text) for text in said)])


def _ends(text: str) -> str:
    """Head and tail of what a newest step says: one long listing must not drown the rest of the question."""
    return text if len(text) <= 2 * END_SHOWN else f"{text[:END_SHOWN]}\n{text[-END_SHOWN:]}"


def _cut(group: Group, length: int) -> Group:
    return [with_texts(step, {text: ends(text, length) for text in long_texts(step, LEAST)}) for step in group]


@dataclass
class _Filling:
    """Candidates on their way into the window: which groups are open, with which slices of their long texts."""

    groups: Sequence[Group]
    found: Listed
    price: Prices
    costs: Mapping[str, int]
    room: int
    shorten: bool
    chosen: dict[tuple[str, str], list[Slice]] = field(default_factory=dict)  # (step id, text) -> slices
    shown: dict[int, tuple[Group, int]] = field(default_factory=dict)  # open group -> its steps as shown, their tokens

    def __post_init__(self) -> None:
        steps = [(at, step) for at, group in enumerate(self.groups) for step in group]
        self.long = {step.id: long_texts(step) if self.shorten else [] for _, step in steps}
        self.group = np.array([at for at, _ in steps])[self.found.step]
        parts = [step.parts() for _, step in steps]
        self.step = [steps[at][1] for at in self.found.step.tolist()]
        texts = [
            parts[at][part].text for at, part in zip(self.found.step.tolist(), self.found.part.tolist(), strict=True)
        ]
        self.text = [text if text in self.long[step.id] else None for text, step in zip(texts, self.step, strict=True)]
        self.apart = np.array([text is not None for text in self.text], np.bool_)
        self.slice_price = np.where(self.apart, (self.found.end - self.found.start) / 4 + MARK, 0)
        self.group_price = np.array([self._least(group) for group in self.groups])

    def _least(self, group: Group) -> float:
        """About what a group costs with all long texts left out."""
        whole = sum(self.costs[step.id] for step in group)
        size = sum(len(step.text) for step in group) + 1
        long = sum(len(text) for step in group for text in self.long[step.id])
        return max(8.0, whole * (1 - long / size)) + MARK

    def fill(self, coverage: Selection) -> list[Group]:
        """Open groups and add slices, best gain for the cost first, while they fit; the groups as they are shown."""
        left: npt.NDArray[np.bool_] = np.ones(len(self.group), np.bool_)
        misses = 0
        while left.any() and misses < MISSES:
            opened = np.isin(self.group, list(self.shown))
            price = self.slice_price + np.where(opened, 0, self.group_price[self.group])
            value = np.where(left, coverage.gains() / np.maximum(price, 1) ** EXPONENT, 0)
            best = int(value.argmax())
            if value[best] <= 0:
                break
            left[best] = False
            if price[best] > 2 * self.room + MARK or not self._take(best):
                misses += 1
                continue
            misses = 0
            coverage.take(best)
            for row in np.flatnonzero(left & (self.group == self.group[best]) & ~self.apart):
                coverage.take(int(row))
                left[row] = False
        return [group for group, _ in self.shown.values()]

    def _take(self, row: int) -> bool:
        """Show the passage `row`, with its group; False, and nothing changes, if that is more than is left."""
        at, text = int(self.group[row]), self.text[row]
        slices = dict(self.chosen)
        if text is not None:
            key = (self.step[row].id, text)
            slices[key] = [*slices.get(key, []), (int(self.found.start[row]), int(self.found.end[row]))]
        steps = [
            with_texts(step, {long: excerpt(long, slices.get((step.id, long), [])) for long in self.long[step.id]})
            for step in self.groups[at]
        ]
        tokens = sum(self.price.count(step) for step in steps)
        more = tokens - (self.shown[at][1] if at in self.shown else 0)
        if more > self.room:
            return False
        self.chosen, self.shown[at] = slices, (steps, tokens)
        self.room -= more
        return True

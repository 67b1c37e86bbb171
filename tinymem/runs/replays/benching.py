"""Recall on recorded runs: of what an agent copied from far back, the share that a memory would have brought back.

The run is read again, call by call. Before a call that copies something from far back (`needles`), each method is
asked with the newest steps as the question, and everything before them in its memory. What counts is whether the copied
identifier or line stands in what comes back within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.tokens import default_counter
from tinymem.recall.passages import cut
from tinymem.registry import embedder_from
from tinymem.runs.readers import Run
from tinymem.runs.replays.needles import DISTANCE, text_of
from tinymem.runs.replays.policies import messages_of
from tinymem.runs.replays.replaying import RecordedRun, recorded_runs
from tinymem.steps.checks import check_token_budget
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step
from tinymem.steps.terminal import pluralize
from tinymem.stores.journals import full_text_in_memory

__all__ = ["BUDGETS", "Bench", "bench"]

METHODS = ("tinymem", "BM25", "vectors", "newest")
BUDGETS = (500, 1_000, 2_000, 4_000)
SHOWN = 2  # steps before a call that are the question
MOST_CHARACTERS = 32_000  # of a question: its end
MOST_QUESTIONS = 100  # of longer runs some, evenly spread
SHORTEST = 8  # tokens of a short passage: more than budget / SHORTEST are of no use


Outcomes: TypeAlias = list[tuple[float, int]]  # the share that came back and its tokens, a method each


class Question(NamedTuple):
    """A call of a run that copies needles from far back: the steps in the memory, the text asked, what is to come."""

    run: RecordedRun
    steps: int
    text: str
    needles: Sequence[str]

    def judge(self, text: str) -> tuple[float, int]:
        """Return the share of the needles that a text has, and its tokens."""
        return fmean(needle in text for needle in self.needles), default_counter().count(text)


@dataclass(frozen=True)
class Bench:
    """The outcome of `bench`.

    Attributes:
        runs: The runs that copied something from far back.
        questions: The calls that did.
        needles: The identifiers and lines that they copied.
        budgets: Tokens of what comes back.
        shares: For each method the share of a call's needles that came back, 0 to 1, a budget each; means over calls.
        tokens: For each method the tokens that came back, a budget each; means over calls.
    """

    runs: int
    questions: int
    needles: int
    budgets: tuple[int, ...]
    shares: Mapping[str, Sequence[float]]
    tokens: Mapping[str, Sequence[float]]

    def text(self) -> str:
        """Return the shares as a table, and tokens for each needle that came back as another."""
        head = (
            f"{pluralize(self.questions, 'call')} copied {self.needles:,} identifiers and lines from {DISTANCE:,} "
            "tokens back or more. The share that comes back in so many tokens:"
        )
        budgets = _row("", "{:>8,}", self.budgets)
        shares = [_row(name, "{:>8.2f}", found) for name, found in self.shares.items()]
        prices = [_row(name, "{:>8,.0f}", self._prices(name)) for name in self.shares]
        return "\n".join([head, "", budgets, *shares, "", "Tokens for all that one call copied:", "", budgets, *prices])

    def _prices(self, method: str) -> list[float]:
        pairs = zip(self.tokens[method], self.shares[method], strict=True)
        return [tokens / share if share else math.inf for tokens, share in pairs]


def _row(name: str, figure: str, values: Iterable[float]) -> str:
    return f"{name:<8}" + "".join(map(figure.format, values))


def bench(
    files: Iterable[str | Path | Run],
    *,
    budgets: Sequence[int] = BUDGETS,
    embedder: str = "static",
    progress: Progress = no_progress,
) -> Bench:
    """Measure what comes back of what the agents of recorded runs copied from far back, beside plain methods.

    Args:
        files: Files that `tinymem ingest` reads, or runs.
        budgets: Tokens of what comes back.
        embedder: The name of the embedder of tinymem and of plain vectors.
        progress: Hears of how many questions were asked, and of how many there are.

    Returns:
        The share and the tokens for each method and budget.

    Raises:
        InputError: A file cannot be read, or no call copied anything from far back.

    >>> from tinymem.runs.replays.benching import bench
    >>> print(bench(["session.jsonl"]).text())  # doctest: +SKIP
    """
    for budget in budgets:
        check_token_budget("budgets", budget)
    asked = [*chain.from_iterable(map(questions_of, recorded_runs(files, default_counter())))]
    if not asked:
        raise InputError(f"no call in these runs copied anything from {DISTANCE:,} tokens back or more")
    asked = asked[:: -(-len(asked) // MOST_QUESTIONS)]
    found: list[list[Outcomes]] = []  # by question and budget
    runs = 0
    for run, questions in groupby(asked, attrgetter("run")):
        runs += 1
        for outcomes in _asked(run, questions, budgets, embedder):
            found.append(outcomes)
            progress(len(found), len(asked))
    means: list[list[list[float]]] = np.mean(found, axis=0).T.tolist()  # of shares and of tokens, by method and budget
    needles = sum(len(question.needles) for question in asked)
    return Bench(runs, len(asked), needles, tuple(budgets), *(dict(zip(METHODS, of, strict=True)) for of in means))


def _asked(
    run: RecordedRun, questions: Iterable[Question], budgets: Sequence[int], embedder: str
) -> Iterator[list[Outcomes]]:
    """Ask a run's questions, each when all before it is known; yield what comes back of each, for every budget."""
    steps, model = run.steps(), embedder_from(embedder)
    passages: list[str] = []
    vectors: list[Any] = []
    known = 0
    with HierarchicalMemory(embedder=embedder, store="exact") as memory, full_text_in_memory() as words:
        for question in questions:
            new = steps[known : question.steps]
            known = question.steps
            memory.add_steps(new)
            added = _passages_of(new)
            words.add(enumerate(added, len(passages)))
            passages += added
            vectors += [*model.embed_documents(added)]
            cosines = np.array(vectors) @ model.embed_queries([question.text])[0]
            ranked = (
                words.search(question.text).ids,
                np.argsort(-cosines, kind="stable"),
                range(len(passages))[::-1],
            )
            outcomes: list[Outcomes] = []
            for budget in budgets:
                back = [memory.recall(question.text, budget, now=new[-1].timestamp).text]
                back += [_packed(passages, places, budget) for places in ranked]
                outcomes.append([question.judge(text) for text in back])
            yield outcomes


def _passages_of(steps: Sequence[Step]) -> list[str]:
    passages: list[str] = []
    for text in map(text_of, messages_of(steps)):
        passages += [text[start:end] for start, end in cut(text)]
    return passages


def _packed(passages: Sequence[str], places: Iterable[int], budget: int) -> str:
    """Return the best passages that fit, whose places come first."""
    taken: list[str] = []
    for passage in map(passages.__getitem__, islice(places, 100 + budget // SHORTEST)):
        cost = default_counter().count(passage + "\n")
        if cost <= budget:
            budget -= cost
            taken.append(passage)
    return "\n".join(taken)


def questions_of(run: RecordedRun) -> list[Question]:
    """Return the calls of a run that copy something from far back, what the newest steps show apart."""
    known: list[Step] = []
    found = []
    for turn in run.turns:
        known += turn.new
        shown = "\n\n".join(map(text_of, messages_of(known[-SHOWN:])))
        copied = [needle for needle in turn.needed if needle not in shown]
        if copied:
            found.append(Question(run, len(known) - SHOWN, shown[-MOST_CHARACTERS:], copied))
    return found

"""Recall on recorded runs: of what an agent copied from far back, the share that a memory would have brought back.

The run is read again, call by call. Before a call that copies something from far back (`needles`), each method is
asked with the newest steps as the question, and everything before them in its memory. What counts is whether the copied
identifier or line stands in what comes back within the budget.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeAlias

import numpy as np

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.tokens import count_message, default_counter
from tinymem.recall.passages import cut
from tinymem.registry import embedder_from
from tinymem.runs.readers import Run
from tinymem.runs.replays.needles import DISTANCE, Needles, text_of
from tinymem.runs.replays.policies import messages_of
from tinymem.runs.replays.replaying import recorded_runs, turns_of
from tinymem.steps.checks import check_token_budget
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step
from tinymem.steps.terminal import pluralize

__all__ = ["BUDGETS", "Bench", "bench"]

BUDGETS = (500, 1_000, 2_000, 4_000)
SHOWN = 2  # steps before a call that are the question
MOST_CHARACTERS = 32_000  # of a question: its end
MOST_QUESTIONS = 100  # of longer runs some, evenly spread
MOST_WORDS = 64  # of a question to BM25, the rarest
SHORTEST = 8  # tokens of a short passage: more than budget / SHORTEST are of no use
K1, B = 1.2, 0.75  # of BM25
BAR = 40  # characters


class Question(NamedTuple):
    """A call that copies needles from far back: the steps in the memory, the text asked, and what is to come back."""

    steps: int
    text: str
    needles: Sequence[str]


@dataclass(frozen=True)
class Bench:
    """The outcome of `bench`.

    Attributes:
        runs: The runs that copied something from far back.
        questions: The calls that did.
        needles: The identifiers and lines that they copied.
        budgets: Tokens of what comes back.
        shares: For each method the share of a call's needles that came back, 0 to 1, a budget each; means over calls.
    """

    runs: int
    questions: int
    needles: int
    budgets: tuple[int, ...]
    shares: Mapping[str, tuple[float, ...]]

    def text(self) -> str:
        """Return the curve as lines of text."""
        copied = f"{self.needles:,} identifiers and lines from {DISTANCE:,} tokens back or more"
        lines = [f"{pluralize(self.questions, 'call')} copied {copied}. The share of a call that comes back:"]
        for place, budget in enumerate(self.budgets):
            lines += ["", f"in {budget:,} tokens"]
            for method, shares in self.shares.items():
                bar = "█" * round(BAR * shares[place])
                lines.append(f"  {method:<8} {shares[place]:.2f} {bar}".rstrip())
        return "\n".join(lines)


class TinymemMethod:
    """`HierarchicalMemory.recall`, which fills the budget here."""

    def __init__(self, embedder: str) -> None:
        self._memory = HierarchicalMemory(embedder=embedder, store="exact")

    def add(self, steps: Sequence[Step]) -> None:
        """Take in the next steps."""
        self._memory.add_steps(steps)
        self._now = steps[-1].timestamp

    def recall(self, question: str, budget: int) -> str:
        """Return the block."""
        return self._memory.recall(question, budget, now=self._now, min_relevance=0).text

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


class Newest:
    """The newest passages that fit; and what the other plain methods share."""

    def __init__(self) -> None:
        self.passages: list[str] = []
        self._counter = default_counter()
        self._costs: list[int] = []

    def add(self, steps: Sequence[Step]) -> None:
        """Take in the next steps, cut into passages."""
        for text in map(text_of, messages_of(steps)):
            self.passages += [text[start:end] for start, end in cut(text)]
        self._costs += [self._counter.count(passage + "\n") for passage in self.passages[len(self._costs) :]]

    def recall(self, question: str, budget: int) -> str:
        """Return the best passages that fit."""
        taken, used = [], 0
        for place in self.rank(question, 100 + budget // SHORTEST):
            if used + self._costs[place] <= budget:
                used += self._costs[place]
                taken.append(self.passages[place])
        return "\n".join(taken)

    def rank(self, question: str, most: int) -> Iterable[int]:
        """Return the places of passages, the best first."""
        return range(len(self.passages) - 1, max(-1, len(self.passages) - 1 - most), -1)

    def close(self) -> None:
        """Nothing is left open."""


class BM25(Newest):
    """BM25 (Robertson and Zaragoza, 2009; k1 1.2, b .75), with the rarest words of the question."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, dict[int, int]] = {}  # by word, how often it is in each passage
        self._lengths: list[int] = []

    def add(self, steps: Sequence[Step]) -> None:
        """Take in the next steps."""
        before = len(self.passages)
        super().add(steps)
        for place, passage in enumerate(self.passages[before:], before):
            words = _words_of(passage)
            self._lengths.append(len(words))
            for word, count in Counter(words).items():
                self._counts.setdefault(word, {})[place] = count

    def rank(self, question: str, most: int) -> Iterable[int]:
        """Return the places of the highest BM25."""
        known = {word for word in _words_of(question) if word in self._counts}
        rarest = sorted(known, key=lambda word: (len(self._counts[word]), word))[:MOST_WORDS]
        mean = fmean(self._lengths) if self._lengths else 1.0
        scores: dict[int, float] = {}
        for word in rarest:
            counts = self._counts[word]
            weight = math.log(1 + (len(self._lengths) - len(counts) + 0.5) / (len(counts) + 0.5))
            for place, count in counts.items():
                length = 1 - B + B * self._lengths[place] / (mean or 1.0)
                score = weight * count * (K1 + 1) / (count + K1 * length)
                scores[place] = scores.get(place, 0.0) + score
        return sorted(scores, key=lambda place: (-scores[place], place))[:most]


class Vectors(Newest):
    """Plain vectors: the passages nearest to the question by cosine."""

    def __init__(self, embedder: str) -> None:
        super().__init__()
        self._embedder = embedder_from(embedder)
        self._vectors = np.empty((0, self._embedder.dimensions), np.float32)

    def add(self, steps: Sequence[Step]) -> None:
        """Take in the next steps."""
        before = len(self.passages)
        super().add(steps)
        new = self.passages[before:]
        if new:
            self._vectors = np.concatenate([self._vectors, self._embedder.embed_documents(new)])

    def rank(self, question: str, most: int) -> Iterable[int]:
        """Return the places of the nearest."""
        cosines = self._vectors @ self._embedder.embed_queries([question])[0]
        places: list[int] = np.argsort(-cosines, kind="stable")[:most].tolist()
        return places


Method: TypeAlias = TinymemMethod | Newest


def _words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


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
        The share for each method and budget.

    Raises:
        InputError: A file cannot be read, or no call copied anything from far back.

    >>> from tinymem.runs.replays.benching import bench
    >>> print(bench(["session.jsonl"]).text())  # doctest: +SKIP
    """
    for budget in budgets:
        check_token_budget("budgets", budget)
    asked = [(run, questions) for run in recorded_runs(files) if (questions := questions_of(run))]
    total = sum(len(questions) for _, questions in asked)
    if not total:
        raise InputError(f"no call in these runs copied anything from {DISTANCE:,} tokens back or more")
    every = -(-total // MOST_QUESTIONS)
    chosen = [(run, questions[::every]) for run, questions in asked]
    counted = [*chain.from_iterable(questions for _, questions in chosen)]
    makers: dict[str, Callable[[], Method]] = {
        "tinymem": lambda: TinymemMethod(embedder),
        "BM25": BM25, "vectors": lambda: Vectors(embedder), "newest": Newest,
    }  # fmt: skip
    shares = {}
    for place, (name, maker) in enumerate(makers.items()):
        found = []
        for hits in _measured(maker, chosen, budgets):
            found.append(hits)
            progress(place * len(counted) + len(found), len(makers) * len(counted))
        shares[name] = tuple(map(fmean, zip(*found, strict=True)))
    needles = sum(len(question.needles) for question in counted)
    return Bench(len(chosen), len(counted), needles, tuple(budgets), shares)


def _measured(
    maker: Callable[[], Method], chosen: Iterable[tuple[Run, Sequence[Question]]], budgets: Sequence[int]
) -> Iterator[list[float]]:
    """Yield the shares of all questions; each run gets a memory of its own."""
    for run, questions in chosen:
        with closing(maker()) as method:
            yield from _asked(method, run, questions, budgets)


def _asked(method: Method, run: Run, questions: Sequence[Question], budgets: Sequence[int]) -> Iterator[list[float]]:
    """Yield, for each question, the share of its needles that comes back in each budget."""
    added = 0
    for question in questions:
        if question.steps > added:
            method.add(run.steps[added : question.steps])
            added = question.steps
        shares = []
        for budget in budgets:
            text = method.recall(question.text, budget)
            shares.append(fmean(needle in text for needle in question.needles))
        yield shares


def questions_of(run: Run) -> list[Question]:
    """Return the calls of a run that copy something from far back, what the newest steps show apart."""
    needles, counter = Needles(), default_counter()
    known = 0
    found = []
    for turn in turns_of(run):
        for message in messages_of(turn.new):
            needles.add(message, count_message(message, counter))
        known += len(turn.new)
        first = max(0, known - SHOWN)
        shown = "\n\n".join(map(text_of, messages_of(run.steps[first:known])))
        found_again = chain.from_iterable(map(needles.copied, turn.answer))
        copied = [needle for needle in found_again if needle not in shown]
        if copied and first:
            found.append(Question(first, shown[-MOST_CHARACTERS:], copied))
    return found

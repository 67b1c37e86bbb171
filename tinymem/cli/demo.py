"""The demo: a recorded agent run goes through a real memory, then come questions about what left its window.

The run in `data/demo.jsonl` was recorded by `benchmarks/demo/record.py`, which really executed every command in it.
Seven questions are a demonstration, not a measurement: for that see benchmarks/recall/run.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import fmean

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.runs.readers import read_runs
from tinymem.steps.step import Step

__all__ = ["QUESTIONS", "RECORDING", "DemoQuestion", "Report", "run_demo"]

RECORDING = Path(__file__).parents[1] / "data" / "demo.jsonl"
WINDOW = 2_000  # tokens
BUDGET = 400  # tokens for each answer
BEFORE, WIDTH = 30, 74  # characters of a line that are shown before the answer, and in all
QUESTIONS = (  # and a string that the answer must contain
    ("At which byte did reading the items as UTF-8 fail?", "43452"),
    ("Who is the contact person at the Quarry branch?", "Tomasz Lis"),
    ("Under which case number do the auditors hold the loans of 2019?", "GH-5516"),
    ("Which error did writers get when several tills wrote at once?", "database is locked"),
    ("Which seed made the test of the reservation queue fail?", "seed 12"),
    ("How long does one wait for a reservation with a single copy?", "50.9 days"),
    ("Which free number did the second tool under TL-4937 get?", "TL-5694"),
)


@dataclass(frozen=True)
class DemoQuestion:
    """A question and its outcome: the `step` with the answer (None: not found), and the `line` that has it."""

    question: str
    answer: str
    in_window: bool
    step: int | None
    line: str
    tokens: int

    def text(self) -> str:
        """Return the outcome as lines of text."""
        if self.step is None:
            return f"{self.question}\n   not recalled in {self.tokens} tokens"
        place = max(0, self.line.find(self.answer) - BEFORE)
        return f"{self.question}\n   step {self.step}: {self.line[place:].strip()[: WIDTH - 10]}"


@dataclass(frozen=True)
class Report:
    """The outcome of the demo."""

    steps: int
    tokens: int
    window_tokens: int
    archived: int
    asked: tuple[DemoQuestion, ...]

    @property
    def answered(self) -> int:
        """The number of answers that came back."""
        return sum(asked.step is not None for asked in self.asked)

    def text(self) -> str:
        """Return the report as lines of text."""
        window, tokens = (map(attrgetter(name), self.asked) for name in ("in_window", "tokens"))
        asked = [f"\n{number}. {question.text()}" for number, question in enumerate(self.asked, 1)]
        return "\n".join([
            "The recorded run of an agent that built a small service with bash:",
            f"{self.steps} steps, {self.tokens:,} tokens. The window has {self.window_tokens:,} tokens of them,",
            f"and {self.archived} steps are in the archive.",
            *asked,
            f"\n{self.answered} of {len(self.asked)} answers came back; the window alone held {sum(window)}.",
            f"On average {fmean(tokens):.0f} of {BUDGET} tokens each.",
        ])  # fmt: skip


def run_demo(path: Path | None = None, embedder: str | None = None, store: str = "chroma") -> Report:
    """Replay the run and ask, in a memory of this process alone, or in `path`, where the memory then stays.

    Raises:
        InputError: There are steps at `path` already.
    """
    memory = HierarchicalMemory(path, max_tokens=2 * WINDOW, window_tokens=WINDOW, embedder=embedder, store=store)
    with memory:
        known = memory.stats().steps
        if known:
            raise InputError(f"{path} is a memory of {known} steps already: choose a new folder for the demo")
        for run in read_runs(RECORDING):
            for step in run.steps:
                memory.add(step)
        stats, window = memory.stats(), memory.short_term.steps
        asked = tuple(_ask(memory, window, question, answer) for question, answer in QUESTIONS)
    return Report(stats.steps, stats.tokens, stats.window_tokens, stats.archived_steps, asked)


def _ask(memory: HierarchicalMemory, window: Sequence[Step], question: str, answer: str) -> DemoQuestion:
    found = memory.recall(question, max_tokens=BUDGET)
    excerpts = [item for item in found.items if answer in item.text]
    best = max(excerpts, key=attrgetter("score"), default=None)
    line = next(line for line in best.text.splitlines() if answer in line) if best else ""
    in_window = any(answer in step.text for step in window)
    return DemoQuestion(question, answer, in_window, best.step.step_number if best else None, line, found.tokens)

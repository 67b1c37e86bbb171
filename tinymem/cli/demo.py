"""The demo: a recorded agent run goes through a real memory, then come questions about what left its window.

The run in `data/demo.jsonl` was recorded by `benchmarks/demo/record.py`, which really executed every command in it.
Seven questions are a demonstration, not a measurement: for that see benchmarks/recall/run.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.runs.readers import read_runs

__all__ = ["QUESTIONS", "RECORDING", "DemoQuestion", "Report", "run_demo"]

RECORDING = Path(__file__).parents[1] / "data" / "demo.jsonl"
WINDOW = 2_000  # tokens
BUDGET = 400  # tokens for each answer
BEFORE, BEHIND = 30, 24  # characters of a line that are shown around the answer
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
    """A question and its outcome: the `step` with the answer (None: not found), and the words `shown` of it."""

    question: str
    answer: str
    in_window: bool
    step: int | None
    shown: str
    tokens: int


@dataclass(frozen=True)
class Report:
    """The outcome of the demo."""

    steps: int
    tokens: int
    window_tokens: int
    archived: int
    asked: tuple[DemoQuestion, ...]
    answered: int

    def text(self) -> str:
        """Return the report as lines of text."""
        asked = [f"\n{number}. {about.question}\n   {about.shown}" for number, about in enumerate(self.asked, 1)]
        in_window = sum(about.in_window for about in self.asked)
        return "\n".join([
            "The recorded run of an agent that built a small service with bash:",
            f"{self.steps} steps, {self.tokens:,} tokens. The window has {self.window_tokens:,} tokens of them,",
            f"and {self.archived} steps are in the archive.",
            *asked,
            f"\n{self.answered} of {len(self.asked)} answers came back; the window alone held {in_window}.",
            f"On average {fmean(about.tokens for about in self.asked):.0f} of {BUDGET} tokens each.",
            "Try it on your own run: tinymem ingest FILE",
        ])  # fmt: skip


def run_demo(embedder: str | None = None) -> Report:
    """Replay the run and ask, in a memory of this process alone."""
    with HierarchicalMemory(max_tokens=2 * WINDOW, window_tokens=WINDOW, embedder=embedder) as memory:
        for run in read_runs(RECORDING):
            for step in run.steps:
                memory.add(step)
        asked = tuple(_ask(memory, question, answer) for question, answer in QUESTIONS)
        stats = memory.stats()
    answered = sum(about.step is not None for about in asked)
    return Report(stats.steps, stats.tokens, stats.window_tokens, stats.archived_steps, asked, answered)


def _ask(memory: HierarchicalMemory, question: str, answer: str) -> DemoQuestion:
    in_window = any(answer in step.text for step in memory.steps)
    found = memory.recall(question, max_tokens=BUDGET)
    around = re.compile(f".{{,{BEFORE}}}{re.escape(answer)}.{{,{BEHIND}}}")
    for item in found.items:
        if words := around.search(item.text):
            number = item.step.step_number
            shown = f"step {number}: {words[0].strip()}"
            return DemoQuestion(question, answer, in_window, number, shown, found.tokens)
    return DemoQuestion(question, answer, in_window, None, f"not recalled in {found.tokens} tokens", found.tokens)

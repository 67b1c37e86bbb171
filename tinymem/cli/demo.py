"""The demo: a recorded agent run goes through a real memory, then come questions about what left its window.

The run in `data/demo.jsonl` was recorded by `benchmarks/demo/record.py`, which really executed every command in it.
Seven questions are a demonstration, not a measurement: for that see benchmarks/recall/run.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.runs.readers import read_runs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tinymem.steps.step import Step

__all__ = ["QUESTIONS", "RECORDING", "DemoQuestion", "Report", "run_demo", "show"]

RECORDING = Path(__file__).parents[1] / "data" / "demo.jsonl"
WINDOW = 2_000  # tokens
BUDGET = 400  # tokens for each answer
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
    """A question and its outcome: the `step` with the answer (None: not found), and the `lines` that have it."""

    question: str
    answer: str
    in_window: bool
    step: int | None
    lines: tuple[str, ...]
    tokens: int
    milliseconds: float


@dataclass(frozen=True)
class Report:
    """The outcome of the demo. `window` has the numbers of the steps that are left in it."""

    steps: int
    tokens: int
    seconds: float
    window: tuple[int, ...]
    window_tokens: int
    archived: int
    passages: int
    budget: int
    asked: tuple[DemoQuestion, ...]

    @property
    def answered(self) -> int:
        """The number of answers that came back."""
        return sum(asked.step is not None for asked in self.asked)

    @property
    def passed(self) -> bool:
        """True if all of them did."""
        return self.answered == len(self.asked)


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
        begin = time.perf_counter()
        for run in read_runs(RECORDING):
            for step in run.steps:
                memory.add(step)
        seconds = time.perf_counter() - begin
        memory.recall("(what loads only once is loaded here)", max_tokens=BUDGET)
        stats, window = memory.stats(), memory.short_term.steps
        asked = tuple(_ask(memory, window, question, answer) for question, answer in QUESTIONS)
    return Report(
        steps=stats.steps,
        tokens=stats.tokens,
        seconds=seconds,
        window=tuple(step.step_number for step in window if step.step_number is not None),
        window_tokens=stats.window_tokens,
        archived=stats.archived_steps,
        passages=stats.passages,
        budget=BUDGET,
        asked=asked,
    )


def _ask(memory: HierarchicalMemory, window: Sequence[Step], question: str, answer: str) -> DemoQuestion:
    begin = time.perf_counter()
    found = memory.recall(question, max_tokens=BUDGET)
    milliseconds = (time.perf_counter() - begin) * 1000
    excerpts = [item for item in found.items if answer in item.text]
    best = max(excerpts, key=lambda item: item.score, default=None)
    step = best.step.step_number if best else None
    lines = [line for line in best.text.splitlines() if answer in line][:2] if best else []
    in_window = any(answer in step.text for step in window)
    return DemoQuestion(question, answer, in_window, step, tuple(lines), found.tokens, milliseconds)


def show(report: Report, console: Console, path: Path | None = None) -> None:
    """Print the report; `path` is where the memory was kept."""
    asked = report.asked
    console.print("[bold]tinymem demo[/]: the recorded run of an agent that built a small service with bash\n")
    facts = {
        "replayed": f"{report.steps} steps, {report.tokens:,} tokens in {report.seconds:.2f} s",
        "window": f"steps {_ranges(report.window)}: {report.window_tokens:,} tokens, all the prompt would hold",
        "archive": f"{report.archived} steps in {report.passages} passages",
    }
    for name, text in facts.items():
        console.print(f"   [dim]{name:<9}[/]{text}", highlight=False)
    for number, answer in enumerate(asked, 1):
        console.print(f"\n[bold]{number}. {answer.question}[/]", highlight=False)
        _show_answer(console, answer, report.steps)
    style = "bold green" if report.passed else "bold red"
    visible = sum(answer.in_window for answer in asked)
    tokens, milliseconds = (fmean(map(attrgetter(name), asked)) for name in ("tokens", "milliseconds"))
    console.print(
        f"\n[{style}]{report.answered} of {len(asked)} answers came back[/]; the window alone held {visible}."
    )
    console.print(f"On average {tokens:.0f} of {report.budget} tokens and {milliseconds:.0f} ms each.", highlight=False)
    if path is not None:
        console.print(f'Ask it yourself: tinymem recall "..." --path {path}', highlight=False, markup=False)
    console.print("Try it on your own run: [bold]tinymem ingest FILE[/]")


def _show_answer(console: Console, asked: DemoQuestion, steps: int) -> None:
    window = "in the window; " if asked.in_window else "not in the window; "
    if asked.step is None:
        console.print(f"   {window}[red]not recalled[/] in {asked.tokens} tokens", highlight=False)
        return
    where = f"recalled from step {asked.step}, {steps - asked.step} steps back"
    console.print(f"   {window}{where} ({asked.tokens} tokens, {asked.milliseconds:.0f} ms)", highlight=False)
    for line in asked.lines:
        console.print(_marked(line, asked.answer, console.width - 5), no_wrap=True, overflow="ellipsis")


def _marked(line: str, answer: str, width: int) -> Text:
    """Highlight the answer in the line, cut so that it can be seen."""
    from rich.text import Text

    line = line.strip()
    place = line.find(answer)
    if len(line) > width and place + len(answer) >= width:
        line = "…" + line[max(0, place - width // 3) :]
    text = Text(f"   │ {line}", style="dim")
    text.highlight_words([answer], style="not dim bold green")
    return text


def _ranges(numbers: Sequence[int]) -> str:
    """Render numbers in order as ranges.

    >>> _ranges([1, 2, 7, 8, 9])
    '1-2, 7-9'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)

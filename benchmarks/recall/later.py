"""Failures that say what passed later: the share of failed commands that do in agent runs, and some to judge by hand.

    python -m benchmarks.recall.later --data claude-code-dev.jsonl.gz coder-dev.jsonl.gz [--sample 40] [--seed 41]

A failure is a command of a shell whose exit code, or whose words, say that it failed. It says what passed later where
it did in the same folder and session, and the newest one did not fail again.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.data import Haystack, read_haystacks
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import as_message
from tinymem.coding.acts import FileNote
from tinymem.coding.commands import FAILURES, mark_of_pass
from tinymem.coding.failures import RUN
from tinymem.coding.tracker import CodingTracker
from tinymem.messages.conversion import steps_from_messages
from tinymem.steps.step import Step

__all__ = ["failures", "main"]

SHOWN = 300  # characters of a call and its result, at each end


class Failure(NamedTuple):
    """A failed command: the step that ran it, and the mark of what passed later with the step of that, if any."""

    step: Step
    mark: str
    passed: Step | None


def failures(haystack: Haystack) -> Iterator[Failure]:
    """Yield the failed commands of a run."""
    said = list[Step]()
    for session, units in groupby(haystack.units, key=lambda unit: unit.session):
        said += steps_from_messages([as_message(unit) for unit in units], session=session)
    steps = [step.evolve(step_number=number) for number, step in enumerate(said, 1)]
    runs = defaultdict[str, list[FileNote]](list)
    for note in CodingTracker().notes_of(steps, list):
        if note.key.startswith(RUN):
            runs[note.key].append(FileNote.of(note))
    for notes in runs.values():
        for number in {note.step for note in notes if note.act.kind in FAILURES}:
            mark = mark_of_pass(notes, number)
            passed = int(mark.removeprefix("later: #").split(" ")[0]) if mark else 0
            yield Failure(steps[number - 1], mark, steps[passed - 1] if passed else None)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the share of each file, and the drawn ones."""
    parser = command_line("benchmarks.recall.later", __doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="data files of agent runs")
    parser.add_argument("--sample", type=int, default=0, help="marks to print")
    parser.add_argument("--seed", type=int, default=41, help="for the marks that are drawn")
    args = parser.parse_args(argv)
    print("| set | failed commands | of these say what passed later | share |\n| --- | --- | --- | --- |")
    marked: list[tuple[str, Failure]] = []
    for path in args.data:
        found = [(haystack.id, failure) for haystack in read_haystacks(path) for failure in failures(haystack)]
        says = [(name, failure) for name, failure in found if failure.mark]
        print(f"| {path.name.split('.')[0]} | {len(found)} | {len(says)} | {len(says) / max(len(found), 1):.2f} |")
        marked += says
    random.Random(args.seed).shuffle(marked)
    for place, (name, (step, mark, passed)) in enumerate(marked[: args.sample], 1):
        assert passed is not None
        print(f"\n== {place}: {name} #{step.step_number}\n{_ends(step)}\n-> [{mark}]\n{_ends(passed)}")


def _ends(step: Step) -> str:
    shown = [f"{part.kind}: {part.text}" for part in step.parts() if part.kind in ("call", "observation", "error")]
    return "\n".join(text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]} … {text[-SHOWN:]}" for text in shown)


if __name__ == "__main__":
    main()

"""Reminders at the moment of acting: what helped when a command failed so before, and what a person said of a file."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tinymem.coding.acts import has_suffix
from tinymem.coding.commands import FAILURES, PASSED, QUIET, plain_line
from tinymem.coding.failures import ShellRun
from tinymem.coding.rules import keys_of, rule_among
from tinymem.coding.tools import calls_in, calls_of, edits_in, run_in
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.fitting import fitted
from tinymem.recall.render import DAY, fenced, quoted
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.step import Step
from tinymem.steps.types import shown_time

__all__ = ["Reminders"]

TOKENS = 60  # of a reminder, at most
SPAN = 100  # steps after a failure in which it may have passed
BEFORE = 25  # and before it, where its call may stand
CANDIDATES = 5  # earlier failures, or rules, that are looked at
LONGEST, COMMAND = 200, 45  # characters of a line, and of a command
REMEMBERED = 10_000  # reminders that were given
LOOKS = frozenset(f"git {name}" for name in "add branch commit diff log push show status".split())  # noqa: SIM905


class Done(NamedTuple):
    """A deed between a failure and the run that passed: a command, or an edit of a file, with a new line.

    Of several, the one that bears on the failure most is told, and the last of these.
    """

    bears_on_it: int
    step: int
    what: str
    line: str = ""


class Reminders:
    """Reminders from a memory that keeps track of `coding`: each once a session, and none where nothing is known.

    Args:
        memory: The memory.
        label: What stands before the numbers of its steps.

    >>> from tinymem import HierarchicalMemory
    >>> runs = {"pytest": "No module named 'yaml'", "pip install pyyaml": "Done", "pytest -q": "3 passed"}
    >>> with HierarchicalMemory(embedder="hashing:64") as memory:
    ...     for line, said in runs.items():
    ...         step = ActionStep(tool_name="bash", tool_args={"command": line}, observation=said, session="a")
    ...         added = memory.archive([step])
    ...     step = ActionStep(tool_name="bash", tool_args={"command": "pytest"}, error=runs["pytest"], session="b")
    ...     print(Reminders(memory).of(step).splitlines()[1].partition(" pytest ")[2])
    failed like this; pytest -q passed in #3, after pip install pyyaml in #2
    """

    def __init__(self, memory: HierarchicalMemory, label: str = "") -> None:
        self._past, self._label = memory.long_term, label
        self._told: deque[tuple[str | None, str]] = deque(maxlen=REMEMBERED)

    def of(self, step: ActionStep, after: int = 0) -> str | None:
        """Return what the memory has on a command that failed, or on an edit that has no result yet.

        Args:
            step: The step, which need not be in the memory.
            after: What its own session said up to this number counts as well.
        """
        for call in step.tool_calls:
            run = run_in(call)
            keys = run.keys if run else []
            paths = [] if call.answered else [path for path, _ in edits_in(call)]
            if (keys or paths) and not self._past.journal.is_read_only:
                self._past.queue.cut_new()
            line = self._on_failure(keys, step.session, after) or next(filter(None, map(self._on_rule, paths)), "")
            if line and (step.session, line) not in self._told:
                self._told.append((step.session, line))
                return fenced("recalled", "from earlier steps", line, self._past.key)
        return None

    def _on_rule(self, path: str) -> str:
        first, *more = keys_of(path)
        notes = self._past.journal.notes_with([first, *more])
        for step in self._newest({note.step for note in notes}):
            correction = self._past.fetch([self._past.corrections.get(step.step_number or 0, 0)])
            is_of_edit = any(note.key == first and note.step == step.step_number for note in notes)
            said = [*(rule.text for rule in correction.values()), rule_among(step.text, path, is_of_edit)]
            if said[0]:
                return self._shown(step, f"{step.speaker or 'user'}: ", plain_line(said[0], LONGEST))
        return ""

    def _on_failure(self, keys: list[str], session: str | None, after: int) -> str:
        shared = Counter(note.step for note in self._past.journal.notes_with(keys))
        alike = [number for number, count in shared.items() if 2 * count > len(keys)]
        earlier = (step for step in self._newest(alike) if step.session != session or (step.step_number or 0) <= after)
        return next(filter(None, (self._what_helped(step, keys) for step in earlier)), "")

    def _newest(self, numbers: Collection[int]) -> list[Step]:
        found = self._past.fetch(sorted(numbers)[-CANDIDATES:])
        return [step for _, step in sorted(found.items(), reverse=True)]

    def _what_helped(self, failed: Step, keys: list[str]) -> str:
        """Return what was done after a failure with these keys, up to the run that passed; "" where none did."""
        first: ShellRun | None = None
        done = list[Done]()
        is_other = False  # what failed since failed otherwise: what helped was done before
        for step, call in self._calls_since(failed):
            run = run_in(call)
            is_same = run is not None and 2 * len({*run.keys}.intersection(keys)) > len(keys)
            if first is None:
                first = run if is_same else None
            elif is_same:
                return ""  # a newer failure tells more
            elif run is not None and run.passes(first):
                is_guess = "''" in first.words and run.line != first.line and not done  # another text may be why
                return "" if is_guess else self._told_of(failed, first, max(done, default=None), step, run)
            elif run is None or run.program != first.program:
                done += [] if is_other else _done(step, call, run, first)
            else:
                is_other = is_other or run.outcome in FAILURES
        return ""

    def _calls_since(self, failed: Step) -> Iterator[tuple[Step, ToolCall]]:
        """Yield what the session of a failure did from it on, as far as it is looked at."""
        number = failed.step_number or 0
        found = self._past.fetch(range(number - BEFORE, number + SPAN))
        steps = [step for _, step in sorted(found.items()) if step.session == failed.session]
        known = calls_in(steps)
        for step in steps:
            for call in calls_of(step, known) if (step.step_number or 0) >= number else ():
                yield step, call

    def _told_of(self, failed: Step, first: ShellRun, done: Done | None, passed: Step, run: ShellRun) -> str:
        is_longer = first.words == run.words and first.line != run.line  # what differs stands before the last command
        tried, passing = first.command, run.line if is_longer else run.command
        tried, passing = plain_line(tried, COMMAND), plain_line(passing, COMMAND)
        said = f"{tried} failed like this; {'it' if tried == passing else passing} passed in "
        said += f"{self._label}#{passed.step_number}"
        if done is not None:
            said += f", after {plain_line(done.what, COMMAND)} in {self._label}#{done.step}"
            said += f": {plain_line(done.line, LONGEST)}" if done.line else ""
        return self._shown(failed, "", said)

    def _shown(self, step: Step, name: str, said: str) -> str:
        """Return a line with the number and the day of a step, cut to so many tokens."""
        line = quoted(f"{self._label}#{step.step_number} {shown_time(step, DAY)} {name}", said)
        return fitted(line, TOKENS, self._past.counter)


def _done(step: Step, call: ToolCall, run: ShellRun | None, failed: ShellRun) -> list[Done]:
    """Return what a call did that may have helped."""
    number = step.step_number or 0
    if run is None:
        edits = ((path.rpartition("/")[2], line) for path, line in edits_in(call))
        return [
            Done(1 + (line != "" and name in failed.result), number, f"an edit of {name}", line)
            for name, line in edits
            if name
        ]
    is_done = run.outcome in (PASSED, QUIET) and run.program not in LOOKS
    is_alike = "install" in run.words if failed.is_absent else run.words[0] == failed.words[0] == "git"
    return [Done(3 * is_alike or has_suffix(run.program), number, run.command)] if is_done else []

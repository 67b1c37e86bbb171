"""The progress of a session, for an agent that forgets it, as after a compaction: commands, and files with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from tinymem.coding.commands import FAILURES
from tinymem.coding.reminders import plain_line
from tinymem.coding.tools import files_in, run_in, text_in_file
from tinymem.coding.tracker import calls_in, calls_of
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.fitting import fitted
from tinymem.recall.query.identifiers import identifiers
from tinymem.recall.render import fenced
from tinymem.steps.step import Step

__all__ = ["progress_block", "progress_of"]

NEWEST = 500  # steps of a session that are looked at

FAILED = 2  # commands that failed and have not passed since
NAMES = 5  # of a file
LONGEST = 120  # characters of a command, or a path
SHORTEST = 8  # characters of a name
READ = 20_000  # characters of a text in which names are looked for


class _Use(NamedTuple):
    """The use of a file: the number of the step, the file, and the names in what was written or read."""

    number: int
    path: str
    names: Sequence[str]


def progress_block(memory: HierarchicalMemory, session: str, max_tokens: int, label: str = "", folder: str = "") -> str:
    """Return what a session did in at most `max_tokens` tokens, with its fence; "" for nothing. See `progress_of`."""
    past, newest = memory.long_term, islice(memory.history(session, newest=True), NEWEST)
    text = "\n".join(progress_of([*newest][::-1], label, folder))
    fence = partial(fenced, "recalled", "from earlier steps", key=past.key)
    text = fitted(text, max_tokens - past.counter.count(fence("")), past.counter)
    return fence(text) if text else ""


def progress_of(steps: Sequence[Step], label: str = "", folder: str = "") -> Iterator[str]:
    """Yield what a session did, the newest first: commands, then the files that it changed and read.

    Commands are those that failed and have not passed since, else the last one. Beside a file stand names that the
    session saw more than once, the most frequent first; each stands once. What an agent types next from far back is
    mostly of this kind.

    Args:
        steps: The steps, in order.
        label: What stands before their numbers, which are behind what was done: it is not shown whole.
        folder: Where the session is: paths below it are given from there.

    >>> from tinymem import ActionStep
    >>> given = {"file_path": "/shop/cart.py", "content": "def add_sales_tax(): ..."}
    >>> wrote = ActionStep(tool_name="Write", tool_args=given, observation="ok", step_number=7)
    >>> ran = ActionStep(tool_name="Bash", tool_args={"command": "pytest -q"}, error="Exit code 1", step_number=8)
    >>> [*progress_of([wrote, wrote, ran], folder="/shop")]
    ['$ pytest -q (failed, #8)', 'cart.py (#7): add_sales_tax']
    """
    known, uses = calls_in(steps), list[_Use]()
    last: dict[str, tuple[bool, str]] = {}  # command of each program: if it failed, and its line
    for step in reversed(steps):
        for call in reversed(calls_of(step, known)):
            if run := run_in(call):
                failed = run.outcome in FAILURES
                said = f"$ {plain_line(run.line, LONGEST)} ({'failed, ' * failed}{label}#{step.step_number})"
                last.setdefault(run.program, (failed, said))
            for path in islice(files_in(call), 1):
                path = path.removeprefix(f"{folder.rstrip('/')}/") if folder else path
                names = [name for name in identifiers(text_in_file(call)[:READ]) if name.isidentifier()]
                uses.append(_Use(step.step_number or 0, path, names))
    yield from [said for failed, said in last.values() if failed][:FAILED] or [said for _, said in last.values()][:1]
    yield from _files(uses, label)


def _files(uses: Sequence[_Use], label: str) -> Iterator[str]:
    """Yield a line for each file, the one that was used last first."""
    seen_in = Counter[str]()
    for use in uses:
        seen_in.update({*use.names})
    shown, files = set[str](), dict[str, tuple[int, list[str]]]()
    for use in uses:
        _, names = files.setdefault(use.path, (use.number, []))
        new = [name for name in use.names if len(name) >= SHORTEST and seen_in[name] > 1 and name not in shown]
        names += sorted(new, key=lambda name: -seen_in[name])[: NAMES - len(names)]
        shown.update(names)
    for path, (number, names) in files.items():
        yield f"{plain_line(path, LONGEST)} ({label}#{number}){': ' if names else ''}{', '.join(names)}"

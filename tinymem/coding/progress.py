"""The progress of a session, for an agent that forgets it, as after a compaction: commands, and files with names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

from tinymem.coding.commands import FAILURES, plain_line
from tinymem.coding.tools import calls_in, calls_of, file_in, run_in, text_in_file
from tinymem.messages.fitting import fitted
from tinymem.recall.render import fenced
from tinymem.steps.step import Step

if TYPE_CHECKING:
    from tinymem.archive.archive import Archive

__all__ = ["progress_block", "progress_of"]

NEWEST = 100  # steps of a session that are looked at

FAILED = 2  # commands that failed and have not passed since
NAMES = 5  # of a file
LONGEST = 120  # characters of a command, or a path
READ = 20_000  # characters of a text in which names are looked for
ROOTED = 0.8  # share of the uses of files that the folder has from which paths are given
_NAME = re.compile(r"\b(?=\w{8})[^\W\d]\w*?(?:_[^\W_]|\d|[a-z][A-Z])\w*")  # it has an underscore, a digit or a hump


class _Use(NamedTuple):
    """The use of a file: the number of the step, the file, and the names in what was written or read."""

    number: int
    path: str
    names: Sequence[str]


def progress_block(
    past: Archive,
    session: str,
    max_tokens: int,
    label: str = "",
    folder: str = "",
    allows: Callable[[Step], bool] | None = None,
) -> str:
    """Return what a session did in at most `max_tokens` tokens, with its fence; "" for nothing. See `progress_of`.

    It is of the steps that it `allows`; of all unless given.
    """
    rows = past.journal.rows(0, NEWEST, session=session, newest=True)
    newest = filter(allows, [past.load(row.record) for row in rows])
    fence = partial(fenced, "recalled", "from earlier steps", key=past.key)
    text = "\n".join(progress_of([*newest][::-1], label, folder))
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
        folder: Where the session is: paths below it are given from there. Unless given, the first line says it.

    >>> from tinymem import ActionStep
    >>> given = {"file_path": "/shop/cart.py", "content": "def add_sales_tax(): ..."}
    >>> wrote = ActionStep(tool_name="Write", tool_args=given, observation="ok", step_number=7)
    >>> ran = ActionStep(tool_name="Bash", tool_args={"command": "pytest -q"}, error="Exit code 1", step_number=8)
    >>> [*progress_of([wrote, wrote, ran], folder="/shop")]
    ['$ pytest -q (failed, #8)', 'cart.py (#7): add_sales_tax']
    >>> next(progress_of([wrote]))
    'in /shop:'
    """
    known, uses = calls_in(steps), list[_Use]()
    last: dict[str, tuple[bool, str]] = {}  # command of each program: if it failed, and its line
    for step in reversed(steps):
        for call in reversed(calls_of(step, known)):
            if run := run_in(call):
                failed = run.outcome in FAILURES
                said = f"$ {plain_line(run.line, LONGEST)} ({'failed, ' * failed}{label}#{step.step_number})"
                last.setdefault(run.program, (failed, said))
            if path := file_in(call):
                names = [*dict.fromkeys(_NAME.findall(text_in_file(call)[:READ]))]
                uses.append(_Use(step.step_number or 0, path, names))
    root = folder.rstrip("/") or _root_of([use.path for use in uses])
    yield from [f"in {root}:"] if root and not folder else []
    yield from [said for failed, said in last.values() if failed][:FAILED] or [said for _, said in last.values()][:1]
    yield from _files(uses, label, root)


def _root_of(paths: Sequence[str]) -> str:
    """Return the deepest folder that has most of these paths below it; "" where none has."""
    folders = (accumulate(path.split("/")[:-1], "{}/{}".format) for path in paths)
    counts = Counter(chain.from_iterable(folders))
    return max((folder for folder, count in counts.items() if count >= ROOTED * len(paths)), key=len, default="")


def _files(uses: Sequence[_Use], label: str, root: str) -> Iterator[str]:
    """Yield a line for each file, the one that was used last first."""
    seen_in = Counter[str]()
    for use in uses:
        seen_in.update(use.names)
    shown, files = set[str](), dict[str, tuple[int, list[str]]]()
    for use in uses:
        _, names = files.setdefault(use.path, (use.number, []))
        new = [name for name in use.names if seen_in[name] > 1 and name not in shown]
        names += sorted(new, key=lambda name: -seen_in[name])[: NAMES - len(names)]
        shown.update(names)
    for path, (number, names) in files.items():
        path = plain_line(path.removeprefix(f"{root}/" if root else ""), LONGEST)
        yield f"{path} ({label}#{number}){': ' if names else ''}{', '.join(names)}"

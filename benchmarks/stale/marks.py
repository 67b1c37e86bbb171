"""Random marks that a memory puts on what it recalls, to be judged by hand.

    python -m benchmarks.stale.marks --data FILE... [--count 20] [--seed 1]

Each file's haystacks are taken in whole, and their queries asked in 4,096 tokens. Of all marks that stand in the
blocks, some are drawn: lines that are gone from a file, and statements that a later one takes back. Each is printed
with the step that the mark names.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.harness.data import Haystack, read_haystacks
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import Setup, Tinymem
from benchmarks.recall.run import progress
from tinymem.recall import Excerpt

__all__ = ["Marked", "main", "marks_in"]

BUDGET = 4_096
SHOWN = 600  # characters of a text
_NUMBER = re.compile(r"#(\d+)")


class Marked(NamedTuple):
    """A text of the `step` with this number, the `mark` on it, and the text of the step that it names."""

    haystack: str
    step: int
    text: str
    mark: str
    by: str


def marks_in(haystack: Haystack) -> Iterator[Marked]:
    """Yield each mark of the blocks that the queries of a haystack get, once."""
    seen = set[tuple[int, str, str]]()
    with tempfile.TemporaryDirectory(prefix="marks-", ignore_cleanup_errors=True) as folder:
        method = Tinymem(Setup(Path(folder) / "memory", "static", "exact", haystack.is_agent_run, None))
        method.add(haystack.units)
        for query in haystack.queries:
            question = query.question
            found = method.memory.recall(question.text, BUDGET, now=question.now, min_relevance=0)
            for number, text, mark in (one for item in found for one in _marks_on(item)):
                if (number, text, mark) not in seen:
                    seen.add((number, text, mark))
                    by = _NUMBER.search(mark)
                    yield Marked(haystack.id, number, text, mark, method.memory.get(int(by[1])).text if by else "")
        method.close()


def _marks_on(item: Excerpt) -> Iterator[tuple[int, str, str]]:
    number, part = item.step.step_number or 0, item.step.parts()[item.part]
    yield from ((number, part.text[first:last], mark) for first, last, mark in item.gone)
    if item.newer is not None:
        yield number, item.text, f"perhaps outdated by #{item.newer}"


def main(given: Sequence[str] | None = None) -> None:
    """Draw and print."""
    parser = command_line("benchmarks.stale.marks", __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks")
    add("--count", type=int, default=20, metavar="N", help="marks of each file (default: %(default)s)")
    add("--seed", type=int, default=1, metavar="N", help="of the random numbers (default: %(default)s)")
    args = parser.parse_args(given)
    for path in args.data:
        found = list[Marked]()
        for haystack in read_haystacks(path):
            progress(haystack.id)
            found += marks_in(haystack)
        progress("")
        print(f"{path.name}: {len(found)} marks")
        for place, one in enumerate(Random(args.seed).sample(found, min(args.count, len(found))), 1):
            print(f"\n{place}. {one.haystack} #{one.step}: {one.mark}\n{one.text[:SHOWN]}\n--\n{one.by[:SHOWN]}")


if __name__ == "__main__":
    main()

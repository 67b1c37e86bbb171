"""The text that a prompt gets from a memory: what it needs where something is needed, and nothing where nothing is.

    python -m benchmarks.moments --data MOMENTS.json [--recorded RUNS...] [--out MOMENTS.summary.json]
    python -m benchmarks.moments             # shows how it works, on a sample that says nothing about quality
    python -m benchmarks.moments.table --write

`benchmarks/harness/moments.py` describes the file and builds the memories: of every kind one session and thirty
unrelated ones, made up, and with `--recorded` also pieces of the recorded runs in these files. Each prompt is asked in
a new session, as the hook of a coding agent asks (`tinymem-hook prompt --also user`). With recorded runs, prompts that
people typed elsewhere are asked of memories of thirty pieces of other repositories' runs. The page of the tables
says what the figures mean.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeAlias

from benchmarks.harness.data import read_haystacks, sha256
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import loaded
from benchmarks.harness.moments import (
    Kind,
    Moments,
    Prompt,
    Session,
    archive,
    generated,
    open_session,
    read_moments,
    recorded,
    sessions_of,
)
from benchmarks.harness.summary import circumstances, write_summary
from benchmarks.recall.run import progress
from tinymem import HierarchicalMemory, TinymemError
from tinymem.errors import NotAMemoryError
from tinymem.runs.hooks.answers import Answers, Asked

__all__ = ["BENCHMARK", "RESULTS", "Answer", "figures", "main", "measure", "scored"]

BENCHMARK = "moments"
SAMPLE = Path(__file__).with_name("sample.json")
RESULTS = Path(__file__).parents[1] / "results" / "moments.summary.json"
SESSIONS = 30  # unrelated ones
RECORDED = "recorded"
MARK = re.compile(r"\b(?:outdated|superseded|corrected|changed) by #\d")  # words of the memory, behind old text
REPOSITORY, USER = "repository", "user"  # the namespaces that a hook reads

Others: TypeAlias = Callable[[str, str], list[Session]]  # unrelated sessions by seed, none of a repository


@dataclass(frozen=True)
class Answer:
    """The block that a prompt got.

    Attributes:
        tokens: Its tokens; 0 where it got none.
        is_found: The needed text stands in it.
        needed: Its tokens that stand in the needed message.
        is_stale: The old text stands in it without a mark, above what corrected it or without that.
    """

    prompt: Prompt
    tokens: int
    is_found: bool = False
    needed: int = 0
    is_stale: bool = False


def measure(moments: Moments, others: Others, spread: bool = False, with_foreign: bool = False) -> Iterator[Answer]:
    """Ask every prompt of a memory of its own kind, and with `with_foreign` those of other repositories."""
    for kind in moments.kinds:
        progress(kind.name)
        nothing = () if kind.is_standing else moments.nothing
        sessions = sessions_of(kind, others(kind.name, ""), spread)
        yield from _asked(moments, sessions, [*kind.needs, *nothing], kind)
    foreign = moments.foreign if with_foreign else ()
    for repository in dict.fromkeys(prompt.repository for prompt in foreign):
        progress(repository)
        prompts = [prompt for prompt in foreign if prompt.repository == repository]
        yield from _asked(moments, others(repository, repository), prompts)
    progress("")


def _asked(
    moments: Moments, sessions: Sequence[Session], prompts: Sequence[Prompt], kind: Kind | None = None
) -> Iterator[Answer]:
    with (
        tempfile.TemporaryDirectory(prefix="moments-", ignore_cleanup_errors=True) as folder,
        HierarchicalMemory(folder, namespace=REPOSITORY, embedder=loaded("static")) as memory,
    ):
        archive(memory, sessions)
        hook = Answers(lambda namespace, create: _opened(memory, namespace))
        for number, prompt in enumerate(prompts):
            session = f"asks-{number}"
            open_session(memory, prompt, session, moments.words)
            event = {"hook_event_name": "UserPromptSubmit", "prompt": prompt.text, "session_id": session}
            block = hook.answer(Asked("prompt", event, REPOSITORY, (USER,)))
            yield scored(prompt, block, kind.texts if kind else (), memory.long_term.counter.count)


def _opened(memory: HierarchicalMemory, namespace: str) -> HierarchicalMemory:
    if namespace != memory.namespace:
        raise NotAMemoryError("nothing is kept for all repositories")
    return memory


def scored(prompt: Prompt, block: str, texts: Iterable[str], count: Callable[[str], int]) -> Answer:
    """Return what a block is worth to a prompt, by the texts of the prompt's kind."""
    if prompt.wants is None or not block:
        return Answer(prompt, count(block))
    found = prompt.wants.search(block)
    old = prompt.stale.search(block) if prompt.stale else None
    is_marked = old is not None and MARK.search(block[old.end() :].partition("\n")[0]) is not None
    is_stale = old is not None and not is_marked and (found is None or old.start() < found.start())
    needed = [count(shared(block, text)) for text in texts if found and prompt.wants.search(text)]
    return Answer(prompt, count(block), found is not None, max(needed, default=0), is_stale)


def shared(block: str, text: str) -> str:
    """Return the longest stretch of a text that stands in a block."""
    start, _, size = SequenceMatcher(None, block, text, autojunk=False).find_longest_match()
    return block[start : start + size]


def figures(answers: Iterable[Answer]) -> dict[str, dict[str, dict[str, int]]]:
    """Return the sums over prompts that need something, and over those that need nothing, by style or class."""
    groups: dict[str, dict[str, list[Answer]]] = {"needs": defaultdict(list), "nothing": defaultdict(list)}
    for answer in answers:
        groups["needs" if answer.prompt.wants else "nothing"][answer.prompt.style].append(answer)
    return {group: {style: _sums(some) for style, some in by_style.items()} for group, by_style in groups.items()}


def _sums(answers: Sequence[Answer]) -> dict[str, int]:
    return {
        "prompts": len(answers),
        "blocks": sum(answer.tokens > 0 for answer in answers),
        "tokens": sum(answer.tokens for answer in answers),
        "found": sum(answer.is_found for answer in answers),
        "needed": sum(answer.needed for answer in answers),
        "stale": sum(answer.is_stale for answer in answers),
        "corrected": sum(answer.prompt.stale is not None for answer in answers),
    }


def fillers(moments: Moments, count: int, files: Sequence[Path]) -> dict[str, Others]:
    """Return by name where unrelated sessions come from: they are made up, or those of recorded runs."""
    found: dict[str, Others] = {"made up": lambda seed, but: generated(moments.words, count, seed)}
    if files:
        runs = [run for path in files for run in read_haystacks(path)]
        found[RECORDED] = lambda seed, but: recorded(runs, count, seed, but)
    return found


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = command_line("benchmarks.moments", __doc__)
    add = parser.add_argument
    add("--data", type=Path, default=SAMPLE, metavar="MOMENTS.json", help="a file of moments (default: the sample)")
    add("--recorded", type=Path, nargs="+", default=[], metavar="RUNS", help="haystacks whose runs are sessions, too")
    add("--sessions", type=int, default=SESSIONS, metavar="N", help="unrelated sessions (default: %(default)s)")
    add("--spread", action="store_true", help="each fact in another of the unrelated sessions")
    add("--out", type=Path, metavar="SUMMARY", help="the file to write (default: figures only)")
    args = parser.parse_args(given)
    from benchmarks.moments.table import tables  # it reads what is written here

    try:
        made = circumstances()  # at the start: the working tree may move on while this runs
        moments = read_moments(args.data)
        found = {}
        for name, others in fillers(moments, args.sessions, args.recorded).items():
            found[name] = figures(measure(moments, others, args.spread, name == RECORDED))
        record = {"benchmark": BENCHMARK, "data": args.data.name, "sha256": sha256(args.data), **made}
        record |= {"sessions": args.sessions, "spread": args.spread, "fillers": found}
        print(tables(record))
        if args.out:
            write_summary(args.out, record)
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.moments: {error}")


if __name__ == "__main__":
    main()

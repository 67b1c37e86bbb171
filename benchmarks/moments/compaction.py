"""The first prompt behind a compaction: how much of what the agent types next from before it stands there.

    python -m benchmarks.moments.compaction --recorded RUNS... [--out COMPACTION.summary.json]
    python -m benchmarks.moments.compaction --write | --check      # the table in tables/moments.md

A run is compacted where its client did so (the line that goes on with a summary), or, where none did and it has more
than 30,000 tokens, at six tenths of them. A memory gets all before that, and `tinymem-hook session-start` is asked as
the client asks then. Needed are the identifiers (paths, names, ids) that the next thirty calls type, that stand before
the compaction and in nothing that came since.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.data import Haystack
from benchmarks.harness.methods import as_message, loaded
from benchmarks.moments.command import RECORDED, Benchmark, runs_of
from benchmarks.recall.run import progress
from tinymem import HierarchicalMemory
from tinymem.coding.progress import progress_block
from tinymem.messages.tokens import default_counter
from tinymem.runs.hooks.answers import Answers, Asked
from tinymem.runs.hooks.reader import PROGRESS
from tinymem.runs.replays.needles import IDENTIFIER, text_of, typed_in, values_in

__all__ = ["Compaction", "compactions_of", "folder_of", "main", "measure", "needed_of", "stands"]

SUMMARY = "This session is being continued"  # how Claude Code goes on
SHARE, LEAST = 0.6, 30_000  # where a run without one is compacted: at this share of its tokens, if it has so many
CALLS = 30
RUN = "run"
PATH = re.compile(r"/[\w.@+/-]+\.\w{1,8}")
METHODS = {
    "newest": f"the newest {PROGRESS} tokens or so",
    "rest": "what the hook prints: rules, requests and what was said",
    "did": f"what it prints of what the session did, in {PROGRESS} tokens at most",
    "now": "both",
    "summary": "the client's own summary",
}

Said = dict[str, Any]
counted = default_counter().count


class Compaction(NamedTuple):
    """A run cut in two: the messages before and after, the summary that its client made, and what is needed."""

    before: Sequence[Said]
    summary: str
    needed: frozenset[str]


def compactions_of(run: Haystack) -> Iterator[Compaction]:
    """Yield the compactions of a run; one where it has none of its own and is long enough."""
    said = [as_message(unit) for unit in run.units]
    places = [place for place, unit in enumerate(run.units) if unit.text.startswith(SUMMARY)] or _made_up(said)
    for place in places:
        summary = run.units[place].text if run.units[place].text.startswith(SUMMARY) else ""
        before = [message for message in said[:place] if not text_of(message).startswith(SUMMARY)]
        yield Compaction(before, summary, needed_of(before, said[place + bool(summary) :]))


def _made_up(said: Sequence[Said]) -> list[int]:
    tokens = [counted(text_of(message)) for message in said]
    total = 0
    for place, count in enumerate(tokens if sum(tokens) > LEAST else []):
        if total > SHARE * sum(tokens) and said[place]["role"] != "tool":
            return [place]
        total += count
    return []


def needed_of(before: Sequence[Said], after: Sequence[Said]) -> frozenset[str]:
    """Return the identifiers that the next calls type from before, where nothing that came since has them."""
    whole, since, calls = "\n".join(map(text_of, before)), "", 0
    found: set[str] = set()
    for message in after:
        typed = [name for name in typed_in(message) if IDENTIFIER.fullmatch(name)]
        found.update(name for name in typed if name in whole and name not in since)
        calls += len(message.get("tool_calls", ()))
        if calls >= CALLS:
            break
        since += f"\n{text_of(message)}"
    return frozenset(found)


def folder_of(messages: Sequence[Said]) -> str:
    """Return the deepest folder that holds four fifths of the files in the arguments of calls; "" for none."""
    paths = [value for message in messages for value in values_in(message) if PATH.fullmatch(value)]
    folders: Counter[str] = Counter()
    for path in paths:
        folders.update(map(str, Path(path).parents))
    return max((folder for folder, count in folders.items() if count >= 0.8 * len(paths)), key=len, default="")


def stands(name: str, text: str, folder: str) -> bool:
    """Return whether an identifier stands in a text; a path below the folder may stand as it is from there."""
    return name in text or name.removeprefix(f"{folder.lstrip('/')}/") in text


def measure(run: Haystack) -> Iterator[tuple[str, int, list[bool], list[bool]]]:
    """Yield each method at each compaction: its tokens, which needed names stand there, and which beyond a summary."""
    for before, summary, needed in compactions_of(run):
        folder = folder_of(before)
        with HierarchicalMemory(namespace=RUN, embedder=loaded("hashing:64")) as memory:
            memory.archive_messages(before, session=RUN)
            hook = Answers(lambda namespace, create, memory=memory: memory)
            now = hook.answer(Asked("session-start", {"session_id": RUN, "source": "compact", "cwd": folder}, RUN))
            did = progress_block(memory.long_term, RUN, PROGRESS, folder=folder)
        newest = "\n".join(map(text_of, before))[-4 * PROGRESS :]
        texts = {"newest": newest, "rest": now.replace(did, ""), "did": did, "now": now}
        texts |= {"summary": summary} if summary else {}
        for method, text in texts.items():
            found = {name: stands(name, text, folder) for name in needed}
            beyond = [found[name] for name in needed if summary and not stands(name, summary, folder)]
            yield method, counted(text), [*found.values()], beyond


def measured(args: Namespace) -> dict[str, Any]:
    """Return the counts of each text, over all compactions."""
    keys = ("times", "tokens", "there", "of there", "beyond", "of beyond")
    found = {method: Counter(dict.fromkeys(keys, 0)) for method in METHODS}
    for run in runs_of(args.recorded):
        progress(run.id)
        for method, tokens, there, beyond in measure(run):
            counts = (1, tokens, sum(there), len(there), sum(beyond), len(beyond))
            found[method].update(dict(zip(keys, counts, strict=True)))
    return {"data": [file.name for file in args.recorded], "found": {name: dict(one) for name, one in found.items()}}


def rows(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table: one for each text."""
    yield "| the agent sees | compactions | tokens | needed names there | not in the summary, but there |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for method, name in METHODS.items():
        row = record["found"][method]
        shares = [f"{row[key]} of {row[f'of {key}']}" for key in ("there", "beyond")]
        yield f"| {name} | {row['times']} | {row['tokens'] // max(row['times'], 1):,} | {' | '.join(shares)} |"


main = Benchmark("compaction", __doc__, measured, rows, {"recorded": RECORDED}).main

if __name__ == "__main__":
    main()

"""The first prompt behind a jump: how much of what the agent types next stands there.

    python -m benchmarks.moments.jumps --recorded RUNS... [--budgets 4096,8192] [--out JUMPS.summary.json]
    python -m benchmarks.moments.jumps --write | --check      # the table in tables/moments.md

The first messages of a run are added one by one, and before each of the agent's turns `context(session=)` builds its
prompt: once as it is, and once without what it says of the session's acts. Where a prompt does not begin as the one
before, needed are the identifiers that the next thirty calls type, that stand in what was said, and in nothing that
came since; of these, the far ones stand in no message of the prompt's window. Of every prompt it is counted which
identifiers of the next calls it has, and which needles: what these copy from far back (`tinymem.runs.replays.needles`).
"""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from benchmarks.harness.methods import as_message, loaded
from benchmarks.moments.command import RECORDED, Benchmark, runs_of
from benchmarks.moments.compaction import folder_of, needed_of, stands
from benchmarks.recall.run import budgets, progress
from tinymem import Context, HierarchicalMemory
from tinymem.coding.tracker import CodingTracker
from tinymem.errors import BudgetError
from tinymem.messages.tokens import default_counter
from tinymem.protocols import ChangeTracker
from tinymem.runs.replays.needles import IDENTIFIER, Needles, text_of, typed_in

__all__ = ["main", "measure"]

RUN = "run"
KEYS = ("jumps", "tokens", "prompts", "needed", "far", "typed", "needles")

Said = dict[str, Any]


class Silent(CodingTracker):
    """A tracker that does not say what a session did."""

    progress_of = cast(Any, None)


TRACKERS: dict[str, ChangeTracker] = {"without": Silent(), "with": CodingTracker()}


def measure(said: Sequence[Said], budget: int, tracker: ChangeTracker) -> Counter[str]:
    """Return the counts of a run; under "of ..." how many there could be."""
    counts, needles, count = Counter[str](), Needles(), default_counter().count
    last, whole = list[Said](), ""
    options: dict[str, Any] = {"embedder": loaded("static"), "store": "exact", "changes": tracker}
    with HierarchicalMemory(namespace=RUN, max_tokens=budget, **options) as memory:
        for place, message in enumerate(said[:-1], 1):
            memory.add_messages([message], session=RUN)
            text = text_of(message)
            needles.add(message, count(text))
            whole += f"\n{text}"
            if said[place]["role"] != "assistant":
                continue
            try:
                context = memory.context(session=RUN)
            except BudgetError:  # a system prompt that does not fit
                continue
            typed = [name for name in typed_in(said[place]) if IDENTIFIER.fullmatch(name) and name in whole]
            wanted = {"typed": typed, "needles": needles.copied(said[place])}
            counts.update(prompts=1, tokens=context.tokens)
            if context.messages[: len(last)] != last:
                counts["jumps"] += 1
                needed = needed_of(said[:place], said[place:])
                window = "\n".join(text_of(entry.message) for entry in context.entries if entry.kind == "message")
                folder = folder_of(said[:place])
                wanted |= {"needed": [*needed], "far": [name for name in needed if not stands(name, window, folder)]}
            counts.update(_found(context, wanted, folder_of(said[:place])))
            last = context.messages
    return counts


def _found(context: Context, wanted: Mapping[str, Sequence[str]], folder: str) -> Counter[str]:
    shown = "\n".join(map(text_of, context.messages))
    found = {key: sum(stands(name, shown, folder) for name in names) for key, names in wanted.items()}
    return Counter({**found, **{f"of {key}": len(names) for key, names in wanted.items()}})


def messages_of(units: Sequence[Any]) -> list[Said]:
    """Return the messages of a run; results of calls that it does not have are a user's."""
    said, called = [], set[str]()
    for message in map(as_message, units):
        called.update(call["id"] for call in message.get("tool_calls", ()))
        is_lost = message["role"] == "tool" and message["tool_call_id"] not in called
        said.append({"role": "user", "content": message["content"]} if is_lost else message)
    return said


def measured(args: Namespace) -> dict[str, Any]:
    """Return the counts by budget, with and without what a prompt says of the session's acts."""
    found = {str(budget): {way: Counter(dict.fromkeys(KEYS, 0)) for way in TRACKERS} for budget in args.budgets}
    runs = [*runs_of(args.recorded)][:: args.every]
    for run in runs:
        for budget, ways in found.items():
            for way, tracker in TRACKERS.items():
                progress(f"{run.id}, {budget} tokens, {way}")
                ways[way].update(measure(messages_of(run.units[: args.messages]), int(budget), tracker))
    counts = {budget: {way: dict(one) for way, one in ways.items()} for budget, ways in found.items()}
    return {
        "data": [file.name for file in args.recorded],
        "runs": len(runs),
        "messages": args.messages,
        "found": counts,
    }


def rows(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table: two for each budget."""
    yield "| budget | what the session did | jumps | tokens | needed names | far ones of these | next names | needles |"
    yield f"| ---: | --- |{' ---: |' * 6}"
    for budget, ways in record["found"].items():
        for way, counts in ways.items():
            cells = [
                f"{counts[key]:,} of {counts.get(f'of {key}', 0):,}" for key in ("needed", "far", "typed", "needles")
            ]
            tokens = counts["tokens"] // max(counts["prompts"], 1)
            yield f"| {int(budget):,} | {way} | {counts['jumps']} | {tokens:,} | {' | '.join(cells)} |"


OPTIONS: dict[str, dict[str, Any]] = {
    "recorded": RECORDED,
    "budgets": {"type": budgets, "default": (4_096, 8_192), "metavar": "N,N", "help": "tokens (default: 4096,8192)"},
    "messages": {"type": int, "default": 240, "metavar": "N", "help": "the first of a run (default: %(default)s)"},
    "every": {"type": int, "default": 1, "metavar": "N", "help": "of so many runs, one (default: %(default)s)"},
}
main = Benchmark("jumps", __doc__, measured, rows, OPTIONS).main

if __name__ == "__main__":
    main()

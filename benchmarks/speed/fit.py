"""Costs of `fit` on a history that is known, as multiples of a `context` of the same messages.

    python -m benchmarks.speed.fit [--sizes 1000,4000] [--asks 40] [--out SUMMARY.json]
    python -m benchmarks.speed.fit --write | --check     # the table in benchmarks/tables/speed.md, from that file

One memory is given a made history by `fit` in each format, another the same messages by `add_messages`. Then they are
asked in turns: `fit` with nothing new, and `context`, both with the same query. At last the history grows by a message
at each `fit`, which is archived. Figures are milliseconds of CPU in the calling thread, by medians.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.speed.run import sizes
from benchmarks.speed.steps import steps_from
from tinymem import HierarchicalMemory
from tinymem.messages import messages_from_steps
from tinymem.messages.formats import FORMATS, write_messages

__all__ = ["main", "measure", "table"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.speed.fit"
SUMMARY = HERE / "results" / "fit.summary.json"
START, END = "<!-- fit: python -m benchmarks.speed.fit --write -->", "<!-- end of fit -->"
BUDGET = 2_000  # tokens of a context
QUESTION = "Which file was it?"
SYSTEM = {"role": "system", "content": "You help."}


def measure(size: int, asks: int) -> dict[str, Any]:
    """Return the medians of each call at so many messages: of `context`, and by format of `fit`."""
    made = messages_from_steps(steps_from(None, size), style="tools")[: size - 1]
    while made[-1]["role"] != "assistant" or made[-1].get("tool_calls"):
        made.pop()
    messages = [SYSTEM, *made]
    found: dict[str, Any] = {"messages": len(messages), "context": 0.0, "fit": {}, "grown": {}}
    times: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="fit-", ignore_cleanup_errors=True) as name,
        HierarchicalMemory(Path(name) / "added") as memory,
    ):
        memory.add_messages(messages)
        memory.flush()
        for format in FORMATS:
            with HierarchicalMemory(Path(name) / format) as fitted:
                known, grown, contexts = turns(fitted, memory, write_messages(messages, format), asks)
            found["fit"][format], found["grown"][format] = known, grown
            times += contexts
    return {**found, "context": round(median(times), 2)}


def turns(
    fitted: HierarchicalMemory, added: HierarchicalMemory, history: Any, asks: int
) -> tuple[float, float, list[float]]:
    """Return the medians of `fit` with nothing new and with one message more, and the times of `context` beside."""

    def fit() -> object:
        return fitted.fit(history, session="s", max_tokens=BUDGET, query=QUESTION)

    fit()
    fitted.flush()
    known, contexts, grown = [], [], []
    for _ in range(asks):
        history = copy.deepcopy(history)  # as a framework reads it again from its store
        known.append(taken(fit))
        contexts.append(taken(lambda: added.context(QUESTION, max_tokens=BUDGET)))
    listed = history["messages"] if isinstance(history, dict) else history
    for at in range(asks):
        listed.append({"role": "assistant" if at % 2 else "user", "content": f"This is note {at} of many."})
        grown.append(taken(fit))
    return round(median(known[1:]), 2), round(median(grown), 2), contexts[1:]


def taken(call: Callable[[], object]) -> float:
    """Milliseconds of CPU that a call takes in this thread."""
    begun = time.thread_time()
    call()
    return 1000 * (time.thread_time() - begun)


def table(record: dict[str, Any]) -> str:
    """The costs as Markdown: a row for each format, a column for each call and size."""
    sizes = record["sizes"]
    heads = [f"{what}, {one['messages']:,} messages" for one in sizes for what in ("nothing new", "one message new")]
    lines = [f"| `fit`, ms of CPU (x `context`) | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for format in FORMATS:
        cells = [
            f"{one[what][format]:.1f} ({one[what][format] / one['context']:.2f})"
            for one in sizes
            for what in ("fit", "grown")
        ]
        lines.append(f"| {format} | {' | '.join(cells)} |")
    contexts = ", ".join(f"{one['context']:.1f} ms at {one['messages']:,} messages" for one in sizes)
    machine = record["machine"]
    about = (
        f"`context` takes {contexts}. Measured on {machine['cores']} cores ({machine['architecture']}), Python "
        f"{record['versions']['python']}, {record['date']}."
    )
    return "\n".join([*lines, "", about])


def main(given: Sequence[str] | None = None) -> None:
    """Measure and write the summary, or write or check the table."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--sizes", type=sizes, default=(1_000, 4_000), metavar="N,N", help="messages of the history")
    parser.add_argument("--asks", type=int, default=40, metavar="N", help="calls of each kind")
    parser.add_argument("--out", type=Path, default=SUMMARY, metavar="SUMMARY.json", help="the file of the figures")
    parser.add_argument(
        "--page", type=Path, default=HERE / "tables" / "speed.md", help="the document that holds the table"
    )
    args: argparse.Namespace = parser.parse_args(given)
    if not args.write and not args.check:
        found = [measure(size, args.asks) for size in args.sizes]
        write_summary(args.out, {"benchmark": "fit", **circumstances(), "sizes": found})
    deliver(PROGRAM, args, lambda: table(read_summary(args.out)), START, END)


if __name__ == "__main__":
    main()

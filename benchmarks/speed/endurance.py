"""Private memory of a process that lives long: a chatty agent's month, or many small namespaces.

    python -m benchmarks.speed.endurance month [--adds 100000] [--contexts 10000] [--out SUMMARY.json]
    python -m benchmarks.speed.endurance namespaces [--count 1000] [--steps 40] [--out SUMMARY.json]

`month` adds steps one by one to one memory and asks for a context after every tenth. `namespaces` opens one memory
after the other, each with some steps that leave the window, and closes it, as a service with many users does. Private
memory is what no other process can share: RssAnon of /proc/self/status, in MiB, at ten points of the way.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import circumstances, write_summary
from benchmarks.speed.steps import steps_from
from tinymem import HierarchicalMemory, Memories, Step

__all__ = ["main", "month", "namespaces"]

RESULTS = Path(__file__).parents[1] / "results"
WARM = 60  # steps of the first memory, which loads what every process loads once
WINDOW = 400  # tokens of the window of a small namespace, so that most of its steps are archived


def month(folder: Path, adds: int, contexts: int) -> Iterator[dict[str, Any]]:
    """Add `adds` steps and ask for `contexts` contexts, and yield ten points of the way."""
    with HierarchicalMemory(folder) as memory:
        steps = steps_from(None, adds)
        every, part = max(1, adds // contexts), max(1, adds // 10)
        asked: list[float] = []
        for number, step in enumerate(steps, 1):
            memory.add(step)
            if number % every == 0:
                begun = time.perf_counter()
                memory.context()
                asked.append(time.perf_counter() - begun)
            if number % part == 0:
                yield {"done": number, "private_mib": private(), "context_ms": round(1000 * median(asked), 2)}
                asked.clear()


def namespaces(folder: Path, count: int, steps: int) -> Iterator[dict[str, Any]]:
    """Open, fill and close `count` namespaces, and yield the point before the first and ten of the way."""
    made = steps_from(None, WARM + count * steps)
    with Memories(folder, max_tokens=WINDOW) as memories:
        fill(memories, "first", list(islice(made, WARM)))
        yield {"done": 0, "private_mib": private()}
        for number in range(1, count + 1):
            fill(memories, f"user-{number}", list(islice(made, steps)))
            if number % max(1, count // 10) == 0:
                yield {"done": number, "private_mib": private()}


def fill(memories: Memories, namespace: str, steps: Sequence[Step]) -> None:
    """Add steps to a namespace, wait until its index has them, and close it."""
    with memories.open(namespace) as memory:
        memory.add_steps(steps)
        memory.flush()


def private() -> float:
    """MiB of this process that no other can share."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return round(int(next(line for line in status if line.startswith("RssAnon")).split()[1]) / 1024, 1)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("benchmarks.speed.endurance", __doc__)
    parser.add_argument("what", choices=("month", "namespaces"))
    parser.add_argument("--adds", type=int, default=100_000, metavar="N", help="steps of the month")
    parser.add_argument("--contexts", type=int, default=10_000, metavar="N", help="contexts of the month")
    parser.add_argument("--count", type=int, default=1_000, metavar="N", help="namespaces")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="steps of each namespace")
    parser.add_argument("--out", type=Path, metavar="SUMMARY.json", help="the file to write; default: in results/")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print each point, and write all of them."""
    args = arguments(given)
    record: dict[str, Any] = {"benchmark": args.what, **circumstances(), "points": []}
    record |= {"adds": args.adds, "contexts": args.contexts} if args.what == "month" else {"steps": args.steps}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="endurance-", ignore_cleanup_errors=True) as name:
        month_of = month(Path(name), args.adds, args.contexts)
        points = month_of if args.what == "month" else namespaces(Path(name), args.count, args.steps)
        for point in points:
            record["points"].append(point | {"seconds": round(time.perf_counter() - begun, 1)})
            print(record["points"][-1], flush=True)
    write_summary(args.out or RESULTS / f"{args.what}.summary.json", record)


if __name__ == "__main__":
    main()

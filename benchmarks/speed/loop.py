"""Stalls of an event loop while 100 tasks add to one AsyncHierarchicalMemory and recall from it.

    python -m benchmarks.speed.loop [--seconds 30] [--tasks 100] [--size 1000] [--out SUMMARY.json]
    python -m benchmarks.speed.loop --write | --check     # the table in benchmarks/tables/speed.md, from that file

The loop sleeps for 5 ms again and again; a stall is the time by which it wakes too late. Three loops are measured: an
idle one before the work, the one with the tasks, and at the same time an idle one in another process, which shows what
the machine does to any loop while its cores are busy. The last loop calls `context` itself ten times a second, without
a thread, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.speed.steps import questions, steps_from
from tinymem import AsyncHierarchicalMemory, HierarchicalMemory

__all__ = ["main", "table"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.speed.loop"
SUMMARY = HERE / "results" / "loop.summary.json"
START, END = "<!-- loop: python -m benchmarks.speed.loop --write -->", "<!-- end of loop -->"
TICK = 0.005  # seconds
BUDGET = 500  # tokens of a recall
NAMES = {
    "before": "idle, before the work",
    "beside": "idle, in another process during the work",
    "working": "with the tasks",
    "blocked": "with `context` called in the loop itself",
}


async def ticked(seconds: float) -> list[float]:
    """Return the stalls of this loop, in milliseconds."""
    stalls: list[float] = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        await asyncio.sleep(TICK)
        stalls.append(max(0.0, 1000 * (time.perf_counter() - begun - TICK)))  # clocks may wake a little early
    return stalls


async def working(folder: Path, tasks: int, size: int, seconds: float) -> dict[str, Any]:
    """Return the stalls of this loop and of an idle one beside it, and the number of calls."""
    steps, calls = steps_from(None, sys.maxsize), count()
    async with AsyncHierarchicalMemory(folder) as memory:
        first = list(islice(steps, size))
        await memory.add_steps(first)
        await memory.flush()
        asked = questions([step.text for step in first], tasks)
        end = time.perf_counter() + seconds

        async def task(question: str) -> None:
            while time.perf_counter() < end:
                await memory.add(next(steps))
                await memory.recall(question, BUDGET)
                next(calls)

        beside = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, "--idle", str(seconds)], stdout=subprocess.PIPE, text=True
        )
        working = [asyncio.create_task(task(question)) for question in asked]
        stalls = await ticked(seconds)
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        out, _ = beside.communicate()
        return {"working": numbers(stalls), "beside": json.loads(out), "pairs": next(calls)}


async def blocked(folder: Path, seconds: float) -> dict[str, float]:
    """Return the stalls of a loop that one task blocks by calls of a HierarchicalMemory, made every 100 ms."""
    with HierarchicalMemory(folder) as memory:
        ticking = asyncio.create_task(ticked(seconds))
        while not ticking.done():
            memory.context()
            await asyncio.sleep(0.1)
        return numbers(await ticking)


def numbers(stalls: Sequence[float]) -> dict[str, float]:
    """Return the percentiles of stalls in milliseconds."""
    p50, p99, most = np.percentile(stalls, [50, 99, 100])
    return {"p50": round(p50, 2), "p99": round(p99, 2), "max": round(most, 2), "ticks": len(stalls)}


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Measure all loops."""
    load = [round(os.getloadavg()[0], 1)]
    stalls: dict[str, Any] = {"before": numbers(asyncio.run(ticked(args.seconds)))}
    with tempfile.TemporaryDirectory(prefix="loop-", ignore_cleanup_errors=True) as name:
        found = asyncio.run(working(Path(name), args.tasks, args.size, args.seconds))
        pairs = found.pop("pairs")
        stalls |= found
        stalls["blocked"] = asyncio.run(blocked(Path(name), args.seconds))
    load.append(round(os.getloadavg()[0], 1))
    about = {"tasks": args.tasks, "steps": args.size, "seconds": args.seconds, "pairs": pairs}
    return {"benchmark": "loop", **circumstances(), **about, "load": load, "stalls_ms": stalls}


def table(record: dict[str, Any]) -> str:
    """The stalls as Markdown, a row for each loop."""
    lines = ["| loop | p50, ms | p99, ms | longest, ms |", "| --- | ---: | ---: | ---: |"]
    for name, label in NAMES.items():
        one = record["stalls_ms"][name]
        lines.append(f"| {label} | {one['p50']:.1f} | {one['p99']:.1f} | {one['max']:.0f} |")
    machine, (before, after) = record["machine"], record["load"]
    about = (
        f"{record['tasks']} tasks made {record['pairs']:,} adds with a recall each in {record['seconds']:g} s, in a "
        f"memory that began with {record['steps']:,} steps. Measured on {machine['cores']} cores "
        f"({machine['architecture']}), Python {record['versions']['python']}, {record['date']}; the machine's load "
        f"before and after: {before:.1f}, {after:.1f}."
    )
    return "\n".join([*lines, "", about])


def main(given: Sequence[str] | None = None) -> None:
    """Measure and write the summary, or write or check the table."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--seconds", type=float, default=30, metavar="S", help="of each loop")
    parser.add_argument("--tasks", type=int, default=100, metavar="N")
    parser.add_argument("--size", type=int, default=1_000, metavar="N", help="steps that the memory begins with")
    parser.add_argument("--idle", type=float, metavar="S", help="print the stalls of an idle loop")
    parser.add_argument("--out", type=Path, default=SUMMARY, metavar="SUMMARY.json", help="the file of the figures")
    parser.add_argument(
        "--page", type=Path, default=HERE / "tables" / "speed.md", help="the document that holds the table"
    )
    args = parser.parse_args(given)
    if args.idle is not None:
        print(json.dumps(numbers(asyncio.run(ticked(args.idle)))))
        return
    if not args.write and not args.check:
        write_summary(args.out, measured(args))
    deliver(PROGRAM, args, lambda: table(read_summary(args.out)), START, END)


if __name__ == "__main__":
    main()

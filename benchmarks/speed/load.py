"""Time calls while many threads of many processes use many namespaces at once, up to the one that waits longest.

    python -m benchmarks.speed.load [--processes 8] [--threads 4] [--namespaces 200] [--seconds 60] [--out SUMMARY.json]

Each process has one `Memories` of the same folder. Each thread draws a namespace, adds a message of twenty words to it
or asks for a context, three adds to a context, and begins again at once: the machine is never idle. What is timed is
the call with the opening of its namespace, by the clock on the wall, as a user waits for it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import numpy as np

from benchmarks.harness.documents import deliver, parser_of
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.speed.run import environment
from tinymem import Memories

__all__ = ["main", "measure", "table"]

HERE = Path(__file__).parents[1]
PROGRAM = "benchmarks.speed.load"
SUMMARY = HERE / "results" / "load.summary.json"
START, END = "<!-- load: python -m benchmarks.speed.load --write -->", "<!-- end of load -->"
WORDS = [
    "gate", "field", "wheat", "oats", "rye", "horse", "cart", "wheel", "hedge",
    "stone", "river", "mill", "barn", "fence", "pump", "ladder", "roof", "bell",
]  # fmt: skip
BUDGET = 1_000  # tokens of a context
QUANTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}

Times: TypeAlias = dict[str, list[float]]


def measure(processes: int, threads: int, namespaces: int, seconds: float) -> dict[str, Any]:
    """Return the quantiles of the seconds that calls take, and how many there were."""
    with tempfile.TemporaryDirectory(prefix="load-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", PROGRAM, "--folder", folder, f"--threads={threads}", f"--seconds={seconds}"]
        command.append(f"--namespaces={namespaces}")
        started = [
            subprocess.Popen([*command, f"--seed={seed}"], env=environment(), stdout=subprocess.PIPE, text=True)
            for seed in range(processes)
        ]
        printed = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"{PROGRAM}: a process failed")
    found: dict[str, Any] = {"processes": processes, "threads": threads, "namespaces": namespaces, "seconds": seconds}
    for call in ("add", "context"):
        times = [seconds for text in printed for seconds in json.loads(text)[call]]
        at = {name: round(float(np.percentile(times, rank)), 3) for name, rank in QUANTILES.items()}
        found[call] = {"calls": len(times), **at}
    return found


def use(folder: Path, threads: int, namespaces: int, seconds: float, seed: int) -> Times:
    """Return the seconds of each call that the threads of this process made."""
    times: Times = {"add": [], "context": []}
    until = time.monotonic() + seconds
    with Memories(folder) as memories:
        working = [
            Thread(target=_call, args=(memories, namespaces, until, random.Random(f"{seed} {at}"), times))
            for at in range(threads)
        ]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
    return times


def _call(memories: Memories, namespaces: int, until: float, dice: random.Random, times: Times) -> None:
    while time.monotonic() < until:
        text = " ".join(dice.choices(WORDS, k=20))
        call = dice.choice(["add", "add", "add", "context"])
        begun = time.monotonic()
        with memories.open(f"user{dice.randrange(namespaces)}") as memory:
            if call == "add":
                memory.add_message("user", text)
            else:
                memory.context(text, max_tokens=BUDGET)
        times[call].append(time.monotonic() - begun)


def table(record: dict[str, Any]) -> str:
    """The seconds as Markdown: a row for each call."""
    lines = [f"| seconds | calls | {' | '.join(QUANTILES)} |", f"| --- | ---: |{' ---: |' * len(QUANTILES)}"]
    for call in ("add", "context"):
        found = record[call]
        lines.append(f"| `{call}` | {found['calls']:,} | {' | '.join(f'{found[name]:.2f}' for name in QUANTILES)} |")
    machine = record["machine"]
    about = (
        f"{record['processes']} processes of {record['threads']} threads use {record['namespaces']} namespaces for "
        f"{record['seconds']:.0f} s. Measured on {machine['cores']} cores ({machine['architecture']}), Python "
        f"{record['versions']['python']}, {record['date']}."
    )
    return "\n".join([*lines, "", about])


def main(given: Sequence[str] | None = None) -> None:
    """Measure and write the summary, or write or check the table."""
    parser = parser_of(PROGRAM, __doc__)
    parser.add_argument("--processes", type=int, default=8, metavar="N")
    parser.add_argument("--threads", type=int, default=4, metavar="N", help="of each process")
    parser.add_argument("--namespaces", type=int, default=200, metavar="N")
    parser.add_argument("--seconds", type=float, default=60, metavar="N")
    parser.add_argument("--out", type=Path, default=SUMMARY, metavar="SUMMARY.json", help="the file of the figures")
    parser.add_argument("--page", type=Path, default=HERE / "tables" / "speed.md", help="the document with the table")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of a process that this program started
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    args: argparse.Namespace = parser.parse_args(given)
    if args.folder:
        sys.stdout.write(json.dumps(use(args.folder, args.threads, args.namespaces, args.seconds, args.seed)))
        return
    if not args.write and not args.check:
        found = measure(args.processes, args.threads, args.namespaces, args.seconds)
        write_summary(args.out, {"benchmark": "load", **circumstances(), **found})
    deliver(PROGRAM, args, lambda: table(read_summary(args.out)), START, END)


if __name__ == "__main__":
    main()

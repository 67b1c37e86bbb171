"""Survival of SIGKILL: real processes, killed at random moments of everything that they do to a memory.

    python -m benchmarks.reliability.crash --kills 1000 [--seed S] [--jobs J] [--out RESULT.json] [--only OPERATION]

A process opens a memory and does one kind of operation again and again (crash_work.py has the list). It is
killed at a random moment, and another process opens the memory and demands all that the dead one said had returned
(crash_check.py). Memories live through KILLS_EACH kills, one after the other. Both processes are forks of
one that has everything imported and no memory open, so that a kill takes a tenth of a second. Moments depend on the
machine: a seed gives the same operations, and not the same kills. Exit status 1 if anything was wrong; the memories
that it was wrong with stay, and their folders are printed.

A killed process leaves what it wrote to the operating system. What a lost power supply does is not tested here.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks.harness.summary import circumstances, write_summary
from benchmarks.reliability.crash_check import Expected, check
from benchmarks.reliability.crash_work import OPERATIONS, Operation
from benchmarks.reliability.crash_worker import Worker, opened, read_ledger
from tinymem import MessageStep

__all__ = ["main", "survived"]

RESULTS = Path(__file__).parents[1] / "results" / "crash.summary.json"
KILLS_EACH = 12  # of one memory, before a new one is made
ANSWERS = (
    "added", "forgotten", "noted", "marked", "embedded", "indexed", "summarised", "made", "reindexed", "rebuilt",
    "exported", "imported",
)  # fmt: skip
PATIENCE = 60  # seconds in which a process opens a memory, or checks one
DEATH = -signal.SIGKILL if hasattr(signal, "SIGKILL") else None

Answer: TypeAlias = tuple[list[str], dict[str, int], list[str]]  # of `check`


class Kill(NamedTuple):
    """The outcome of one kill."""

    operation: str
    inside: bool  # an operation, rather than between two
    acknowledged: int  # lines that say that something has returned
    wrong: list[str]


def rounds(kills: int, seed: int, names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The operations that each memory lives through, of one store each: all equally often, in random order."""
    dice = random.Random(seed)
    found = []
    for store in dict.fromkeys(OPERATIONS[name].store for name in names):
        plan = [name for at in range(kills) if OPERATIONS[name := names[at % len(names)]].store == store]
        dice.shuffle(plan)
        found += [plan[at : at + KILLS_EACH] for at in range(0, len(plan), KILLS_EACH)]
    return [(f"{seed}-{at}", some) for at, some in enumerate(found)]


def survived(task: tuple[Path, str, list[str]]) -> list[Kill]:
    """Kill the processes of one memory, in `base`; stops at the first that was not survived."""
    base, seed, names = task
    home = base / seed
    home.mkdir()
    expected, dice, kills = Expected(), random.Random(seed), list[Kill]()
    for at, name in enumerate(names):
        kills.append(_killed(home, f"{at:03}", name, expected, dice))
        if kills[-1].wrong:
            return kills
    shutil.rmtree(home, ignore_errors=True)  # the process of an index may still write there
    return kills


def _killed(home: Path, number: str, name: str, expected: Expected, dice: random.Random) -> Kill:
    operation, file, seed = OPERATIONS[name], home / f"ledger-{number}", str(dice.random())
    status = _kill_once(lambda ready: _worker(home, file, number, operation, seed, ready), operation, dice)
    ledger = read_ledger(file)
    expected.read(ledger)
    wrong = [] if status == DEATH else [f"it ended by itself ({status}): {ledger.of('error')}"]
    found, held, notes = _answer(lambda: check(home / "memory", operation.store, expected, seed))
    if not ledger.of("making"):
        expected.see(held, notes)
    acknowledged = sum(line[0] in ANSWERS for line in ledger.lines)
    return Kill(name, ledger.inside, acknowledged, [f"{home.name} {number} {name}: {one}" for one in (*wrong, *found)])


def _worker(home: Path, file: Path, number: str, operation: Operation, seed: str, ready: Callable[[], None]) -> None:
    worker = Worker(home / "memory", file, number, seed)
    try:
        if not operation.opens:
            worker.open(operation.store)
        ready()
        worker.work(operation.work)
    except BaseException:
        worker.tell("error", traceback.format_exc())
        raise


def _kill_once(work: Callable[[Callable[[], None]], None], operation: Operation, dice: random.Random) -> int:
    """Fork a process that works, kill it after a random time, and give its exit status."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _leave(lambda: work(lambda: os.close(writer)))
    os.close(writer)
    os.read(reader, 1)  # until it is ready, or dead
    os.close(reader)
    time.sleep(dice.uniform(0, operation.longest))
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _answer(ask: Callable[[], Answer]) -> Answer:
    """Return the result of `ask` in a forked process; an exception there becomes a fault."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)

        def report() -> None:
            try:
                answer: Any = ask()
            except BaseException:
                answer = ([traceback.format_exc()], {}, [])
            with open(writer, "wb") as stream:
                pickle.dump(answer, stream)

        _leave(report)
    os.close(writer)
    with open(reader, "rb") as stream:
        text = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not text:
        return [f"the check ended with status {status}"], {}, []
    answer: Answer = pickle.loads(text)  # by this very program
    return answer


def _leave(work: Callable[[], None]) -> None:
    """Work, and end the process without going back into its parent's code."""
    try:
        work()
    finally:
        os._exit(0)


def run(kills: int, seed: int, jobs: int, names: Sequence[str], base: Path) -> Iterator[Kill]:
    """All kills, by `jobs` processes."""
    tasks = [(base, *one) for one in rounds(kills, seed, names)]
    if jobs == 1:
        for task in tasks:
            yield from survived(task)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for done in pool.imap_unordered(survived, tasks):
            yield from done


def _warm(folder: Path) -> None:
    """Import and load, once, what all forks use; nothing stays open."""
    import chromadb  # noqa: F401

    with opened(folder, "exact") as memory:
        memory.add(MessageStep("user", "warm"))
        memory.context("warm")


def summary(kills: Sequence[Kill], seconds: float) -> dict[str, Any]:
    """The figures."""
    by_name = {name: [kill for kill in kills if kill.operation == name] for name in OPERATIONS}
    return {
        "kills": len(kills),
        "survived": sum(not kill.wrong for kill in kills),
        "seconds": round(seconds, 1),
        "operations": {
            name: {
                "kills": len(some),
                "survived": sum(not kill.wrong for kill in some),
                "inside": sum(kill.inside for kill in some),
                "acknowledged": sum(kill.acknowledged for kill in some),
            }
            for name, some in by_name.items()
            if some
        },
        "wrong": [one for kill in kills for one in kill.wrong],
    }


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reliability.crash",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=1000, metavar="N", help="how many in all")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="J", help="processes that kill")
    parser.add_argument("--only", action="append", choices=list(OPERATIONS), help="kinds of operation; repeatable")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="SUMMARY.json", help="the file to write")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Kill, check, write, print."""
    args = arguments(given)
    base, begin = Path(tempfile.mkdtemp(prefix="crash-")), time.perf_counter()
    _warm(base / "warm")
    kills = []
    for kill in run(args.kills, args.seed, args.jobs, args.only or list(OPERATIONS), base):
        kills.append(kill)
        for one in kill.wrong:
            print(one, file=sys.stderr)
    found = summary(kills, time.perf_counter() - begin)
    write_summary(args.out, {"benchmark": "crash", "seed": args.seed, "jobs": args.jobs, **circumstances(), **found})
    print(json.dumps(found["operations"], indent=1))
    print(f"{found['survived']} of {found['kills']} kills survived, in {found['seconds']} s")
    if found["wrong"]:
        sys.exit(f"see {base}")
    shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()

"""A soak: several processes write to one memory and read from it at once, and nothing may be lost, doubled or torn.

    python -m benchmarks.reliability.processes --writers 4 --readers 4 --seconds 60 [--out RESULTS.summary.json]

Writers add messages, call tools in one process and answer in another, archive, mark and ask; readers ask. All open the
same path and namespace. The index is Chroma, used from a few hundred passages on; one process holds it at a time, and
each of them ends and opens the memory again now and then, so that another takes it over. At the end every step whose
`add` returned must be there once, as it was given; each call answered at most once; full text, vectors and index must
agree with the journal. Exit status 1 if not, or if a process failed or hung.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np

import tinymem.archive.indexing.indexing
from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import circumstances, write_summary
from benchmarks.speed.run import environment
from tinymem import ActionStep, HierarchicalMemory, MessageStep, Step, ToolCall
from tinymem.embedders import HashingEmbedder
from tinymem.messages import problems
from tinymem.recall.passages import slices
from tinymem.steps.step import load_step
from tinymem.upkeep import doctor

__all__ = ["main", "soak"]

RESULTS = Path(__file__).parents[1] / "results" / "processes.summary.json"
EMBEDDER = "hashing:64"
MAX_TOKENS = 1_200
LEAST = 50  # things that each process does, however long they take
GRACE = 900.0  # seconds after the time is up, in which a process must have ended


@contextmanager
def opened(folder: Path) -> Iterator[HierarchicalMemory]:
    """The memory that all share, with thresholds so low that all of its machinery runs."""
    tinymem.archive.indexing.indexing.WAITING = 2_000
    with HierarchicalMemory(folder, embedder=EMBEDDER, max_tokens=MAX_TOKENS) as memory:
        yield memory


class Worker:
    """One process: does things at random until the time is up, and writes down what was acknowledged."""

    def __init__(self, folder: Path, name: str, until: float) -> None:
        self.folder, self.name, self.until = folder, name, until
        self.dice, self.made, self.done = random.Random(name), 0, 0
        self.took: dict[str, list[float]] = {}
        self.acknowledged = (folder.parent / f"{name}.acknowledged").open("w", encoding="utf-8")

    def work(self, jobs: dict[Callable[[HierarchicalMemory], None], int]) -> None:
        """Do `jobs`, by their weights."""
        while self.goes_on():
            with opened(self.folder) as memory:
                for _ in range(self.dice.randrange(50, 500)):
                    if not self.goes_on():
                        break
                    (job,) = self.dice.choices(list(jobs), list(jobs.values()))
                    begun = time.perf_counter()
                    job(memory)
                    self.done += 1
                    self.took.setdefault(job.__name__, []).append(1000 * (time.perf_counter() - begun))
        print(json.dumps(self.took), flush=True)

    def goes_on(self) -> bool:
        """Return whether there is time left; a slow machine has more of it."""
        return time.time() < self.until or self.done < LEAST

    def said(self) -> str:
        """A text that no other step has."""
        self.made += 1
        return f"mark{self.name}x{self.made} lot {self.dice.randrange(999)} holds {self.dice.choice(['figs', 'plums'])}"

    def acknowledge(self, steps: Sequence[Any]) -> None:
        """Write down what `add` returned."""
        self.acknowledged.writelines(json.dumps([step.id, step.step_number, step.text]) + "\n" for step in steps)
        self.acknowledged.flush()

    def add(self, memory: HierarchicalMemory) -> None:
        """Add one message."""
        self.acknowledge([memory.add(MessageStep("user", self.said()))])

    def add_many(self, memory: HierarchicalMemory) -> None:
        """Add a few at once."""
        self.acknowledge(memory.add_steps([MessageStep("assistant", self.said()) for _ in range(5)]))

    def archive(self, memory: HierarchicalMemory) -> None:
        """Add past the window."""
        self.acknowledge(memory.archive([MessageStep("user", self.said()), MessageStep("assistant", self.said())]))

    def call(self, memory: HierarchicalMemory) -> None:
        """Call a tool, whose result somebody will add."""
        self.acknowledge([memory.add(ActionStep(self.said(), [ToolCall("look", {}, f"{self.name}-{self.made}")]))])

    def answer(self, memory: HierarchicalMemory) -> None:
        """Add the result of an open call of any process; another one may be faster, and both results are kept."""
        if waiting := sorted(memory.short_term.open_calls):
            call = self.dice.choice(waiting)
            self.acknowledge([memory.add(MessageStep("tool", f"{self.said()} for {call}", call))])

    def mark(self, memory: HierarchicalMemory) -> None:
        """Make a step of the window a milestone."""
        if steps := memory.short_term.steps:
            memory.mark(self.dice.choice(steps).id)

    def context(self, memory: HierarchicalMemory) -> None:
        """Build a prompt, which must be valid and within its tokens."""
        context = memory.context(f"lot {self.dice.randrange(999)}")
        assert context.tokens <= MAX_TOKENS, context.tokens
        assert problems(context.messages) == [], problems(context.messages)

    def recall(self, memory: HierarchicalMemory) -> None:
        """Ask for something."""
        assert memory.recall(f"which lot holds {self.dice.randrange(999)} plums?", 300).tokens <= 300

    def stats(self, memory: HierarchicalMemory) -> None:
        """Ask how much there is; the window on disk is the window here, but for what has come since."""
        assert memory.stats().steps >= len(memory.short_term.steps)


def write(worker: Worker) -> None:
    """Work as a writer."""
    jobs = {worker.add: 60, worker.add_many: 8, worker.archive: 4, worker.call: 10, worker.answer: 10, worker.mark: 1}
    worker.work({**jobs, worker.context: 4, worker.recall: 3})


def read(worker: Worker) -> None:
    """Work as a reader."""
    worker.work({worker.context: 5, worker.recall: 5, worker.stats: 1})


def soak(folder: Path, writers: int, readers: int, seconds: float) -> dict[str, Any]:
    """Let so many processes at a memory in `folder` (new), and check what they leave: figures, and `faults`."""
    memory = folder / "memory"
    with opened(memory):
        pass
    names = [f"w{n}" for n in range(writers)] + [f"r{n}" for n in range(readers)]
    processes = {name: start(memory, name) for name in names}
    for process in processes.values():
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
    until = time.time() + seconds
    took: dict[str, list[float]] = {}
    faults = []
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write(f"{until}\n")
        process.stdin.flush()
    for name, process in processes.items():
        try:
            out, err = process.communicate(timeout=max(1.0, until - time.time()) + GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            faults.append(f"{name} did not end")
            continue
        if process.returncode:
            last = err.strip().splitlines()[-1:] or [""]
            faults.append(f"{name} ended with status {process.returncode}: {last[0]}")
        else:
            for job, times in json.loads(out).items():
                took.setdefault(job, []).extend(times)
    lines = [line for file in folder.glob("*.acknowledged") for line in file.read_text("utf-8").splitlines()]
    acknowledged = [json.loads(line) for line in lines]
    counts, found = check(memory, acknowledged)
    figures = {job: shown(times) for job, times in sorted(took.items())}
    return {"acknowledged": len(acknowledged), **counts, "operations": figures, "faults": faults + found}


def start(memory: Path, name: str) -> subprocess.Popen[str]:
    """Start a worker in a process of its own, which reports when it is ready, and then gets the time to stop at."""
    command = [sys.executable, "-m", "benchmarks.reliability.processes", "--worker", name, "--memory", str(memory)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe)


def shown(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the count, and quantiles of the durations."""
    cuts = quantiles(milliseconds, n=100) if len(milliseconds) > 1 else [milliseconds[0]] * 99
    values = {"p50_ms": cuts[49], "p95_ms": cuts[94], "p99_ms": cuts[98], "max_ms": max(milliseconds)}
    return {"count": len(milliseconds), **{name: round(value, 2) for name, value in values.items()}}


def check(folder: Path, acknowledged: Sequence[Sequence[Any]]) -> tuple[dict[str, int], list[str]]:
    """Counts of what is in the memory, and what is wrong with it."""
    faults = []
    with opened(folder) as memory:
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        journal = memory.long_term.journal
        rows = journal.rows(limit=10_000_000)
        steps = {row.number: load_step(row.record) for row in rows}
        held = {step.id: (number, step.text) for number, step in steps.items()}
        faults += [f"{id} is not there as it was added" for id, *given in acknowledged if held.get(id) != tuple(given)]
        if (last := max(steps, default=0)) != len(rows):
            faults.append(f"the numbers of {len(rows)} steps go up to {last}")
        if len(rows) != len(acknowledged):
            faults.append(f"{len(rows)} steps are there, {len(acknowledged)} were acknowledged")
        if [row.number for row in rows if row.window] != [step.step_number for step in memory.short_term.steps]:
            faults.append("the window is not what the journal says")
        faults += unfound(memory, steps)
        counts = {"steps": len(rows), "passages": len(memory.long_term.current())}
        counts["in_index"] = memory.long_term.index.notes.passage
    faults += [str(finding) for finding in doctor(folder).findings]
    return counts, faults


def unfound(memory: HierarchicalMemory, steps: Mapping[int, Step]) -> list[str]:
    """Steps whose vectors are not those of their texts, and of a sample, those that full-text search does not find."""
    catalog = memory.long_term.current()
    places = list(zip(*(getattr(catalog, name).tolist() for name in ("step", "part", "start", "end")), strict=True))
    faults = [] if len(set(places)) == len(places) else ["passages are there twice"]
    faults += [f"step {number} has no passage" for number in sorted(steps.keys() - set(catalog.step.tolist()))]
    texts = [slices(steps[number], [(part, start, end)])[0] for number, part, start, end in places]
    near = np.einsum("ij,ij->i", catalog.vectors, HashingEmbedder(64).embed_documents(texts))
    faults += [f"the vector of step {catalog.step[row]} is another one's" for row in np.flatnonzero(near < 0.99)]
    for row in random.Random(1).sample(range(len(places)), min(500, len(places))):
        mark = next(word for word in steps[places[row][0]].text.split() if word.startswith("mark"))
        if not set(memory.long_term.journal.search_text(mark).ids) & set(catalog.id[catalog.step == places[row][0]]):
            faults.append(f"step {places[row][0]} is not found by its words")
    return faults


def main(given: Sequence[str] | None = None) -> int:
    """Run, print, write; or be one of the workers."""
    parser = command_line("benchmarks.reliability.processes", __doc__.split("\n", 1)[0])
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(given)
    if args.worker:
        print("ready", flush=True)
        worker = Worker(args.memory, args.worker, float(sys.stdin.readline()))
        (write if worker.name.startswith("w") else read)(worker)
        return 0
    options = {"writers": args.writers, "readers": args.readers, "seconds": args.seconds}
    with tempfile.TemporaryDirectory(prefix="processes-") as folder:
        record = {"benchmark": "processes", **circumstances(), **options, **soak(Path(folder), **options)}
    write_summary(args.out, record)
    for job, figures in record["operations"].items():
        print(f"{job:<20} {figures['count']:>8,}   p50 {figures['p50_ms']:>7.2f} ms   p99 {figures['p99_ms']:>8.2f} ms")
    print(
        f"{record['acknowledged']:,} steps acknowledged, {record['steps']:,} there, {record['in_index']:,} in the index"
    )
    print("\n".join(record["faults"]) or "no fault")
    return 1 if record["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())

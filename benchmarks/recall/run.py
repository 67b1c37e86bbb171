"""The share of the evidence that comes back inside a token budget.

    python -m benchmarks.recall --data FILE... --budgets 512,1024,2048 --out RESULTS.jsonl [--method NAME]
    python -m benchmarks.recall        # shows how it works, on a sample that says nothing about quality
    python -m benchmarks.recall --plot [RESULTS.jsonl...]        # draws recall by budget, and measures nothing

Streams the units of every haystack into a new memory, stops where a query is to be asked, asks it at every budget, and
writes a line each: {"haystack", "query", "budget", "tokens", "text", "units": [{"id", "start", "end"}], "latency_ms"}.
The figures printed and written beside the results (RESULTS.summary.json) are scored from that file, as
benchmarks/README.md describes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TextIO, TypeVar

from benchmarks.harness.data import Haystack, Method, claimed, read_haystacks, sha256
from benchmarks.harness.documents import command_line
from benchmarks.harness.methods import AS_CALLED, EMBEDDING, METHODS, OURS, Setup, method_from
from benchmarks.harness.scoring import figures, read_results, report, score
from benchmarks.harness.summary import circumstances, figures_record, shown_adapter, write_summary
from tinymem import HierarchicalMemory, TinymemError
from tinymem.errors import InputError
from tinymem.messages import TiktokenCounter
from tinymem.recall.fusion import Fusion

__all__ = ["Run", "main", "measure", "replay"]

T = TypeVar("T")
SAMPLE = Path(__file__).with_name("sample.jsonl")  # one short conversation, made up: it only shows how this works
SAMPLE_BUDGETS, BUDGETS = (64, 128, 256), (512, 1_024, 2_048, 4_096)
EMBEDDERS = "static, minilm, sentence-transformers:NAME_OR_PATH, openai:NAME"


@dataclass
class Run:
    """A run: its settings and its progress."""

    method: str
    budgets: tuple[int, ...]
    embedder: str = "static"
    store: str = "chroma"
    limit: int | None = None
    weights: Path | None = None  # by fold of each file, as the fit writes them
    units: int = 0
    seconds: float = 0.0  # of taking units in, with what the first recall after it takes longer than the next

    def made(self, setup: Setup) -> Method:
        """The method, empty."""
        return method_from(self.method, setup)

    def record(self) -> dict[str, Any]:
        """The choices, as JSON values; adapters that the method does not use are left out."""
        chosen: dict[str, Any] = {"method": self.method, "budgets": list(self.budgets)}
        if self.method in EMBEDDING:
            chosen["embedder"] = shown_adapter(self.embedder)
        if self.method in OURS:
            chosen["store"] = shown_adapter(self.store)
        if self.weights is not None:
            chosen["weights"] = "cross-validated"
        return chosen | ({"limit": self.limit} if self.limit is not None else {})

    def fusions(self, path: Path) -> Sequence[Fusion | None]:
        """Return the weights for each fold of a file, whose haystacks belong to the folds in turns."""
        if self.weights is None:
            return [None]
        folds = json.loads(self.weights.read_text(encoding="utf-8"))["folds"]
        if (found := folds.get(sha256(path))) is None:
            raise InputError(f"{self.weights} has no weights that are fitted without the haystacks of {path.name}")
        return [Fusion.from_json(json.dumps({"weights": one}), self.embedder) for one in found]


def measure(
    run: Run, haystacks: Iterator[Haystack], out: TextIO, seen: set[str], fusions: Sequence[Fusion | None] = (None,)
) -> int:
    """Replay every haystack and write the lines; how many haystacks there were. An id in `seen` is an InputError.

    The haystacks are ranked by `fusions` in turns; None stands for the published weights.
    """
    count = 0
    for count, haystack in enumerate(haystacks, 1):
        if haystack.id in seen:
            raise InputError(f"two haystacks have the id {haystack.id!r}")
        seen.add(haystack.id)
        progress(f"haystack {count}: {haystack.id}, {len(haystack.units)} units, {len(haystack.queries)} queries")
        with tempfile.TemporaryDirectory(prefix="recall-", ignore_cleanup_errors=True) as folder:
            fusion = fusions[(count - 1) % len(fusions)]
            setup = Setup(Path(folder) / "memory", run.embedder, run.store, haystack.is_agent_run, fusion)
            method = run.made(setup)
            try:
                for line in replay(run, haystack, method):
                    out.write(json.dumps(line) + "\n")
            finally:
                method.close()
    progress("")
    return count


def replay(run: Run, haystack: Haystack, method: Method) -> Iterator[dict[str, Any]]:
    """Add units up to each query's cutoff, ask it at every budget, and give the lines of the results."""
    counter, added = TiktokenCounter(), 0
    for query in haystack.queries:
        first = 0.0
        if query.cutoff > added:
            run.seconds += timed(method.add, haystack.units[added : query.cutoff])[1]
            run.units += query.cutoff - added
            added = query.cutoff
            first = timed(method.recall, query.question, run.budgets[0])[1]
        for budget in run.budgets:
            recalled, seconds = timed(method.recall, query.question, budget)
            run.seconds += max(0.0, first - seconds)  # what had been put off until the first question
            first = 0.0
            yield {
                "haystack": haystack.id, "query": query.id, "budget": budget, "tokens": counter.count(recalled.text),
                "text": recalled.text, "units": claimed(haystack, recalled), "latency_ms": round(seconds * 1000, 3),
            }  # fmt: skip


def timed(call: Callable[..., T], *given: Any) -> tuple[T, float]:
    """Return the result of `call`, and its seconds."""
    start = time.perf_counter()
    return call(*given), time.perf_counter() - start


def measure_files(run: Run, files: Sequence[Path], out: Path) -> None:
    """Measure every file, then score what was written; print the figures and write the summary."""
    made = circumstances()  # at the start: the working tree may move on while this runs
    taken: list[tuple[Path, int, int, float]] = []
    seen: set[str] = set()
    with out.open("w", encoding="utf-8") as lines:
        for path in files:
            before = run.units, run.seconds
            count = measure(run, read_haystacks(path, run.limit), lines, seen, run.fusions(path))
            taken.append((path, count, run.units - before[0], run.seconds - before[1]))
    written, sets = read_results(out), []
    for path, count, units, seconds in taken:
        rows = score(read_haystacks(path, run.limit), written)
        by_budget = {budget: figures(found) for budget, found in rows.items()}
        queries = len(next(iter(rows.values()), ()))
        speed = units / seconds if seconds else 0
        print(f"{path.name}: {count} haystacks, {units} units taken in at {speed:.0f} a second")
        print(report(by_budget))
        sets.append(
            {"data": path.name, "sha256": sha256(path), "haystacks": count, "units": units, "queries": queries}
            | {"ingest_seconds": round(seconds, 2), "figures": figures_record(by_budget)}
        )
    write_summary(out, {**run.record(), **made, "sets": sets})


def progress(text: str) -> None:
    """Print the progress, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("benchmarks.recall", __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", metavar="FILE", help="haystacks: JSON lines, also gzip'd (default: the sample)")
    add(
        "--budgets",
        type=budgets,
        metavar="N,N",
        help="token budgets (default: 512,1024,2048,4096; less for the sample)",
    )
    result = parser.add_mutually_exclusive_group()
    result.add_argument("--out", type=Path, metavar="RESULTS.jsonl", help="the file to write (default: figures only)")
    result.add_argument(
        "--explain", metavar="QUERY", help="only say what `tinymem` does with the query of this id or text"
    )
    result.add_argument(
        "--plot",
        type=Path,
        nargs="*",
        metavar="RESULTS",
        help="only draw these results, into one file beside the first (default: benchmarks/results, all)",
    )
    add("--method", choices=METHODS, default="tinymem", help="default: %(default)s")
    add("--embedder", default="static", metavar="NAME", help=f"{EMBEDDERS} (default: %(default)s)")
    add(
        "--store", default="chroma", metavar="NAME", help="the store of `tinymem`: chroma, exact (default: %(default)s)"
    )
    add(
        "--weights",
        type=Path,
        metavar="FOLDS.json",
        help="rank each haystack by weights that were fitted without it (benchmarks.fitting.fusion writes them)",
    )
    add("--limit", type=int, metavar="N", help="only the first N haystacks of each file")
    args = parser.parse_args(given)
    args.budgets = args.budgets or (BUDGETS if args.data else SAMPLE_BUDGETS)
    if args.method == AS_CALLED:
        args.budgets = (signature(HierarchicalMemory.recall).parameters["max_tokens"].default,)
    args.data = args.data or [SAMPLE]
    return args


def budgets(text: str) -> tuple[int, ...]:
    """The budgets in `text`, ascending."""
    found = sorted({int(part) for part in text.split(",")})
    if found[0] < 1:
        raise ValueError(f"a budget must be 1 or more, not {found[0]}")
    return tuple(found)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, write, print."""
    args = arguments(given)
    run = Run(args.method, args.budgets, args.embedder, args.store, args.limit, args.weights)
    try:
        if args.plot is not None:
            from benchmarks.recall.curves import draw  # it reads what is written here

            print(*draw(args.plot), sep="\n")
        elif args.explain is not None:
            from benchmarks.recall.explain import explain

            print(explain(args.explain, args.data, args.budgets, args.embedder, args.limit))
        else:
            with tempfile.TemporaryDirectory() as folder:
                measure_files(run, args.data, args.out or Path(folder) / "results.jsonl")
            if args.data == [SAMPLE]:
                print("The sample is one short conversation: its figures say nothing about quality. Give --data FILE.")
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.recall: {error}")


if __name__ == "__main__":
    main()

"""The share of the evidence that outlives a memory's retention, by the order in which steps are removed.

    python -m benchmarks.pruning.retention --data FILE... [--out FILE] [--shares 75,50,25]

Every conversation is put into a memory; every agent run as it stands at each query's cutoff, less the newest 2,000
tokens, which are its window. Of its steps, or of its bytes, a share is kept: what goes is chosen by the functions of
`tinymem.upkeep.retention`, from an order that is its own or one to compare it with. `python -m
benchmarks.pruning.retention_table
--write` puts the figures into benchmarks/tables/retention.md.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness.data import Haystack, Query, read_haystacks, sha256
from benchmarks.harness.methods import as_message, as_step, loaded
from benchmarks.harness.scoring import mean
from benchmarks.harness.summary import circumstances, write_summary
from benchmarks.recall.run import budgets, progress
from tinymem import HierarchicalMemory, Step, TinymemError, count_tokens
from tinymem.messages import groups, messages_from_steps
from tinymem.messages import steps_from_messages as run_steps
from tinymem.protocols import StepRow
from tinymem.upkeep.retention import removable_steps

__all__ = ["BENCHMARK", "WAYS", "main", "measure"]

BENCHMARK = "retention"
Cost = Callable[[Sequence[StepRow]], int]
RESULTS = Path(__file__).parents[1] / "results" / "retention.summary.json"
WINDOW = 2_000  # newest tokens of a run: nothing in them is evidence
WEIGHTS = """
SELECT number, length(record) + ifnull(length(view), 0) + ifnull(derived, 0) FROM steps LEFT JOIN (
    SELECT step, sum(length(identifiers) + ifnull(length(vector), 0)) derived
    FROM passages LEFT JOIN vectors ON passage = id GROUP BY step
) ON step = number
"""
SEEDS = 10  # of the random orders that the figures are means of

Order: TypeAlias = Callable[[Sequence[StepRow]], Iterator[list[StepRow]]]  # steps as tinymem removes them -> orders


@dataclass(frozen=True)
class Case:
    """A memory's steps, and the queries about them: `evidence` has ids of steps for each, `needles` of those that hold
    its needle."""

    steps: Sequence[Step]
    evidence: Sequence[frozenset[str]]
    needles: Sequence[frozenset[str]]


@dataclass
class Tally:
    """The results of one order: for each query the share of its evidence that is kept, for each needle 1 or 0."""

    evidence: list[float] = field(default_factory=list)
    needles: list[float] = field(default_factory=list)

    def record(self) -> dict[str, float]:
        """The figures as JSON values."""
        needles = {"needles": round(mean(self.needles), 4)} if self.needles else {}
        return {"evidence": round(mean(self.evidence), 4), **needles}


def oldest(some: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Remove the oldest steps first."""
    yield sorted(some, key=attrgetter("number"))


def at_random(some: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Remove steps in random order, once for each seed."""
    for seed in range(SEEDS):
        yield random.Random(seed).sample(some, len(some))


def shortest(some: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Remove the steps with the fewest tokens first, whoever says them."""
    yield sorted(some, key=attrgetter("tokens"))


def longest(some: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Remove the steps with the most tokens first."""
    (order,) = shortest(some)
    yield order[::-1]


def as_tinymem(some: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Remove what tools gave first, then the model's words, then a person's."""
    yield [*some]


WAYS: dict[str, Order] = {
    "oldest first": oldest,
    "random": at_random,
    "shortest first": shortest,
    "longest first": longest,
    "tinymem": as_tinymem,
}


def cases(haystack: Haystack) -> Iterator[Case]:
    """A conversation as it ends, a run as it is at each cutoff."""
    queries = [query for query in haystack.queries if query.type != "adversarial"]
    if not haystack.is_agent_run:
        yield case([as_step(unit) for unit in haystack.units], haystack, queries)
        return
    for cutoff in sorted({query.cutoff for query in queries}):
        units = haystack.units[:cutoff]
        steps = run_steps([as_message(unit) for unit in units], timestamp=units[0].timestamp)
        yield case(before_window(steps), haystack, [query for query in queries if query.cutoff == cutoff])


def before_window(steps: Sequence[Step]) -> list[Step]:
    """All groups but the newest, which have WINDOW tokens or, the last of them, more."""
    found, tokens = list(groups(steps)), 0
    while found and tokens < WINDOW:
        tokens += count_tokens(messages_from_steps(found.pop()))
    return [step for group in found for step in group]


def case(steps: Sequence[Step], haystack: Haystack, queries: Sequence[Query]) -> Case:
    """The steps, and which of them the queries are about."""
    holding = [step.id for step in steps for _ in step.to_messages(style="tools")]  # the step that holds each unit
    evidence, needles = list[frozenset[str]](), list[frozenset[str]]()
    for query in queries:
        places = [haystack.places[id] for id in query.gold]
        evidence.append(frozenset(holding[place] for place in places if place < len(holding)))
        if query.needle is not None:
            texts = zip(holding, haystack.units, strict=False)
            needles.append(frozenset(id for id, unit in texts if query.needle in unit.text))
    return Case(steps, [one for one in evidence if one], [one for one in needles if one])


def measure(path: Path, shares: Sequence[int], embedder: str, limit: int | None = None) -> dict[str, Any]:
    """The figures of all ways on the haystacks of one file."""
    tallies: dict[tuple[str, str, int], Tally] = defaultdict(Tally)
    steps = queries = memories = 0
    for number, haystack in enumerate(read_haystacks(path, limit)):
        for one in cases(haystack):
            progress(f"{path.name}: haystack {number}, {len(one.steps)} steps")
            if one.evidence:
                memories, steps, queries = memories + 1, steps + len(one.steps), queries + len(one.evidence)
                keep_shares(one, shares, embedder, tallies)
    progress("")
    figures = {
        kind: {way: {str(share): tallies[kind, way, share].record() for share in shares} for way in WAYS}
        for kind in ("steps", "bytes")
    }
    counts = {"memories": memories, "steps": steps, "queries": queries}
    return {"data": path.name, "sha256": sha256(path), **counts, "figures": figures}


def keep_shares(one: Case, shares: Sequence[int], embedder: str, tallies: dict[tuple[str, str, int], Tally]) -> None:
    """Put the steps into a memory, keep each share of them in each way, and note what is left of the evidence."""
    with (
        tempfile.TemporaryDirectory(prefix="retention-") as folder,
        HierarchicalMemory(folder, embedder=loaded(embedder), store="exact") as memory,
    ):
        memory.archive(one.steps)
        memory.long_term.queue.embed_pending()
        some = removable_steps(memory.long_term)
        weights = weigh_steps(Path(folder, "default", "journal.db"))
        costs: dict[str, Cost] = {
            "steps": len,
            "bytes": lambda rows: sum(weights[row.number] for row in rows),
        }
        for (kind, cost), (way, order) in product(costs.items(), WAYS.items()):
            for going, share in product(order(some), shares):
                gone = {row.id for row in take_first(going, cost(some) * (100 - share) / 100, cost)}
                note(tallies[kind, way, share], one, gone)


def take_first(order: Sequence[StepRow], excess: float, cost: Callable[[Sequence[StepRow]], int]) -> Iterator[StepRow]:
    """Yield as many of the first steps as cost the excess."""
    for row in order:
        if excess <= 0:
            return
        yield row
        excess -= cost([row])


def weigh_steps(journal: Path) -> dict[int, int]:
    """The bytes of each step in a journal, by number, without those of the search indexes."""
    with closing(sqlite3.connect(journal)) as db:
        return dict(db.execute(WEIGHTS))


def note(tally: Tally, one: Case, gone: set[str]) -> None:
    """Add the share of the evidence that is left without the steps that are `gone` to the tally."""
    tally.evidence += [len(ids - gone) / len(ids) for ids in one.evidence]
    tally.needles += [float(not ids <= gone) for ids in one.needles]


def report(measured: dict[str, Any]) -> str:
    """The figures as text, a line a way."""
    lines = [f"{measured['data']}: {measured['memories']} memories, {measured['queries']} queries"]
    for kind, ways in measured["figures"].items():
        for way, by_share in ways.items():
            cells = [f"{share} % {' / '.join(f'{f:.3f}' for f in found.values())}" for share, found in by_share.items()]
            lines.append(f"  {kind} {way:<36}" + "   ".join(cells))
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pruning.retention",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks")
    add("--out", type=Path, default=RESULTS, metavar="RESULTS.summary.json", help="the file to write")
    add("--shares", type=budgets, default=(25, 50, 75), metavar="N,N", help="that are kept, in %% (default: 25,50,75)")
    add("--embedder", default="static", metavar="NAME", help="whose vectors take bytes (default: static)")
    add("--limit", type=int, metavar="N", help="only the first N haystacks of each file")
    args = parser.parse_args(given)
    sets = []
    try:
        for path in args.data:
            sets.append(measure(path, args.shares, args.embedder, args.limit))
            print(report(sets[-1]), flush=True)
        record = {"benchmark": BENCHMARK, "shares": list(args.shares), "embedder": args.embedder}
        write_summary(args.out, {**record, **circumstances(), "sets": sets})
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.pruning.retention: {error}")


if __name__ == "__main__":
    main()

"""Survival of old facts in a pruned window, by strategy, at the same tokens.

    python -m benchmarks.pruning --data FILE... --out benchmarks/results/pruning.json [--budgets 1000,2000,4000]

Each agent run is cut at each query's cutoff; the window is what was there by then and the four units that the query
shows. Every strategy prunes it to the same tokens beside what all of them keep: system prompt, task, those four units.
benchmarks/tables/pruning.md says when a needle survives. `python -m benchmarks.pruning.table --write` writes it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.data import read_haystacks, sha256
from benchmarks.harness.documents import command_line
from benchmarks.harness.scoring import mean
from benchmarks.harness.summary import circumstances
from benchmarks.pruning.windows import STRATEGIES, Window, needle_survives, strategy_at, windows
from benchmarks.recall.run import budgets, progress, timed
from tinymem import TinymemError, count_tokens
from tinymem.messages import messages_from_steps

__all__ = ["FORMAT", "main", "measure"]

FORMAT = "pruning 1"
HALVES = {"even": (False,), "odd": (True,), "all": (False, True)}


@dataclass
class Tally:
    """The results of one strategy at one budget: needles that survived, tokens used, milliseconds."""

    survived: list[tuple[bool, bool]] = field(default_factory=list)  # (in a held-back run, survived)
    tokens: list[int] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    again_ms: list[float] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        shares = {
            name: round(mean([float(found) for half, found in self.survived if half in halves]), 6)
            for name, halves in HALVES.items()
        }
        times = {"first_ms": round(median(self.first_ms), 2), "again_ms": round(median(self.again_ms), 2)}
        return {"survive": shares, "tokens": round(mean(self.tokens), 1), **times}


def measure(path: Path, tokens: Sequence[int], names: Sequence[str], limit: int | None = None) -> dict[str, Any]:
    """The figures of all strategies on the agent runs of one file."""
    tallies: dict[tuple[str, int], Tally] = defaultdict(Tally)
    runs = queries = held_back = 0
    for number, haystack in enumerate(read_haystacks(path, limit)):
        progress(f"{path.name}: run {number}")
        found = list(windows(haystack, held_back=number % 2 == 1))
        runs += bool(found)
        queries += len(found)
        held_back += sum(window.held_back for window in found)
        for name in names:
            maker = STRATEGIES[name]()
            for window in found:
                for budget in tokens:
                    prune(tallies[name, budget], maker, window, budget)
    progress("")
    figures = {name: {str(budget): tallies[name, budget].record() for budget in tokens} for name in names}
    counts = {"runs": runs, "queries": queries, "held_back": held_back}
    return {"data": path.name, "sha256": sha256(path), **counts, "figures": figures}


def prune(tally: Tally, maker: Any, window: Window, tokens: int) -> None:
    """Prune one window twice, and note what came of it."""
    strategy, budget = strategy_at(maker, window, tokens)
    after, first = timed(strategy, window.steps)
    same, again = timed(strategy, window.steps)
    used = count_tokens(messages_from_steps(after))
    if used > budget or after != same:
        raise AssertionError(f"{window.haystack}, {window.query.id}: {used} of {budget} tokens, or not the same twice")
    tally.survived.append((window.held_back, needle_survives(window, after)))
    tally.tokens.append(used - window.fixed)
    tally.first_ms.append(first * 1000)
    tally.again_ms.append(again * 1000)


def report(measured: dict[str, Any]) -> str:
    """The figures as text, a line a strategy."""
    lines = [f"{measured['data']}: {measured['runs']} runs, {measured['queries']} queries"]
    for name, by_budget in measured["figures"].items():
        cells = [
            f"@{budget} {f['survive']['all']:.3f} ({f['survive']['odd']:.3f}), {f['tokens']:.0f} tokens"
            for budget, f in by_budget.items()
        ]
        lines.append(f"  {name:<46}" + "  ".join(cells))
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, write, print."""
    parser = command_line("benchmarks.pruning", __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks that are agent runs")
    add("--out", type=Path, required=True, metavar="RESULTS.json", help="the file to write")
    add("--budgets", type=budgets, default=(1000, 2000, 4000), metavar="N,N", help="tokens (default: 1000,2000,4000)")
    add("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES), metavar="NAME", help="default: all")
    add("--limit", type=int, metavar="N", help="only the first N runs of each file")
    args = parser.parse_args(given)
    sets = []
    try:
        for path in args.data:
            sets.append(measure(path, args.budgets, args.strategies, args.limit))
            print(report(sets[-1]), flush=True)
        record = {"format": FORMAT, "budgets": list(args.budgets), **circumstances(), "sets": sets}
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except (TinymemError, OSError) as error:
        sys.exit(f"benchmarks.pruning: {error}")


if __name__ == "__main__":
    main()

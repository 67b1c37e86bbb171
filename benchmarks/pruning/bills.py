"""Bills: what each way to prune costs on agent runs, and what the agent still sees, by `tinymem.replay`.

    python -m benchmarks.pruning.bills --data FILE...         # to benchmarks/results/bills.json
    python -m benchmarks.pruning.bills --write | --check      # the table of tables/bills.md; --write its plot too

Of each file the first RUNS runs of LONG tokens or more are replayed, at prices 1 : .1 : 1.25, with weights of the
recall that were fitted without each run. Masking is `prune_old_observations` of all but the newest ten outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.fitting.fusion import FOLDED
from benchmarks.fitting.relevance import read_folds
from benchmarks.harness.data import read_haystacks, set_name, sha256
from benchmarks.harness.methods import as_message
from benchmarks.pruning.command import Benchmark
from benchmarks.recall.run import progress
from benchmarks.recall.variants import constants
from tinymem import count_tokens, prune_old_observations, replay
from tinymem.messages import steps_from_messages
from tinymem.runs import Figures, Replay, Run
from tinymem.runs.replays.billing import prices_from

__all__ = ["main", "measure", "table"]

HERE = Path(__file__).parents[1]
RESULTS, PAGE, PLOT = HERE / "results" / "bills.json", HERE / "tables" / "bills.md", HERE / "plots" / "bills.svg"
PROGRAM = "benchmarks.pruning.bills"
MARKS = "<!-- bills: python -m benchmarks.pruning.bills --write -->", "<!-- end of bills -->"
LONG, RUNS = 50_000, 3
BUDGETS = (8_000, 16_000, 32_000, 44_000, 48_000)
POLICIES = ("token_budget", "summarize_strategy", "semantic_pruning", "context", "fit", "fit without recall")
MASKING = {
    "masking, at every call": prune_old_observations(10),
    "masking, in jumps of 20": prune_old_observations(10, batch=20),
}


def long_runs(path: Path) -> Iterator[tuple[int, Run]]:
    """Yield the runs that are replayed, each with its place in the file."""
    found = 0
    for at, haystack in enumerate(read_haystacks(path)):
        messages = [as_message(unit) for unit in haystack.units]
        if found < RUNS and haystack.is_agent_run and count_tokens(messages) >= LONG:
            found += 1
            yield at, Run(haystack.id, steps_from_messages(messages))


def measure(path: Path, tokens: Sequence[int]) -> dict[str, Any]:
    """Return means over the runs of one file; weights rank that were fitted without the run."""
    folds, figures, runs = read_folds(FOLDED)[sha256(path)], list[Figures](), set[str]()
    for at, run in long_runs(path):
        progress(f"{path.name}: {run.name}")
        runs.add(run.name)
        fusion = folds[at % len(folds)]
        with constants({"tinymem.recall.fusion.load_weights": lambda embedder, fusion=fusion: fusion}):
            figures += replay([run], budgets=tokens, policies=POLICIES, strategies=MASKING).figures
    progress("")
    means = Replay(tuple(figures), prices_from("anthropic")).means()
    return {"data": path.name, "sha256": sha256(path), "runs": len(runs), "figures": [*map(asdict, means)]}


def table(record: dict[str, Any]) -> str:
    """Return the figures as Markdown: for each set bill and visible share, a row a policy and budget."""
    sets = [one for one in record["sets"] if one["runs"]]
    heads = [f"{set_name(one['data'])} ({one['runs']} runs)" for one in sets]
    lines = [f"| policy | budget | {' | '.join(heads)} |", f"| --- | ---: |{' ---: |' * len(heads)}"]
    rows = {(one["policy"], one["budget"]): None for each in sets for one in each["figures"]}
    for policy, budget in rows:
        cells = []
        for each in sets:
            found = [one for one in each["figures"] if (one["policy"], one["budget"]) == (policy, budget)]
            cells += [
                f"{one['share']:.2f} / {one['visible']:.2f} / {one['cached'] / one['tokens']:.2f}" for one in found
            ]
        lines.append(f"| {policy} | {budget} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(record: dict[str, Any]) -> None:
    """Draw bill against what was visible, as means over the sets."""
    from matplotlib.figure import Figure

    names = [field.name for field in fields(Figures)]  # older records have more
    every = [
        Figures(**{name: one[name] for name in names} | {"run": each["data"]})
        for each in record["sets"]
        for one in each["figures"]
    ]
    points: dict[str, list[Figures]] = {}
    for mean in Replay(tuple(every), prices_from("anthropic")).means():
        points.setdefault(mean.policy, []).append(mean)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for (policy, means), form in zip(points.items(), cycle("ovs^Dp*X")):
        axes.plot([mean.share for mean in means], [mean.visible or 0 for mean in means], f"{form}-", label=policy)
    axes.set_xlabel("bill, of that of the whole history")
    axes.set_ylabel("needed and visible")
    axes.legend(fontsize="small")
    figure.savefig(PLOT)


def measured(paths: Sequence[Path], tokens: Sequence[int]) -> list[dict[str, Any]]:
    """Return the figures of each file."""
    return [measure(path, tokens) for path in paths]


main = Benchmark(PROGRAM, __doc__, "bills 1", BUDGETS, RESULTS, PAGE, MARKS, measured, table, draw).run

if __name__ == "__main__":
    main()

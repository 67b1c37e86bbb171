"""What an agent's next call types from far back: how much of it stands in the prompt, and what the prompts cost.

    python -m benchmarks.pruning.needed --data FILE...        # to benchmarks/results/needed.json
    python -m benchmarks.pruning.needed --write | --check     # the table of tables/needed.md; --write its plot too

A prompt is built before each call. It is billed as a provider with a prefix cache bills it: what stands where it stood
in the prompt before costs .1 of a fresh token, all else 1.25. The ways to build it are the newest messages that fit,
`context(session=...)` and `fit`, which go on from the prompt before, and the context that is built anew (`cache=1`).
Beside them, without a budget: the whole history, and that with old results masked, in jumps of 20.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import dropwhile, product, takewhile
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness.data import Haystack, read_haystacks, set_name, sha256
from benchmarks.harness.methods import as_message
from benchmarks.pruning.command import Benchmark
from tinymem import HierarchicalMemory, count_tokens
from tinymem.errors import BudgetError

__all__ = ["main", "measure", "table"]

HERE = Path(__file__).parents[1]
RESULTS, PAGE, PLOT = HERE / "results" / "needed.json", HERE / "tables" / "needed.md", HERE / "plots" / "needed.svg"
PROGRAM = "benchmarks.pruning.needed"
MARKS = "<!-- needed: python -m benchmarks.pruning.needed --write -->", "<!-- end of needed -->"
WAYS = ("newest messages", "goes on", "fit", "anew")
WHOLE = ("whole history", "masked results")  # ways without a budget
MASK, UNMASKED, JUMP = "(output omitted)", 10, 20
BUDGETS = (8_000, 16_000, 24_000)
NEEDLES = 60  # of a set, about: of a larger one every so manieth run
SEEN = 4  # units behind the cutoff, which the question of a needle shows
BUILT = 400  # units before the last needle from which on prompts are built
CACHED, WRITTEN = 0.1, 1.25  # prices of a token

Messages: TypeAlias = list[dict[str, Any]]
Prompts: TypeAlias = Callable[[Messages], Messages]


def needles_of(haystack: Haystack) -> dict[int, list[str]]:
    """Return what is typed next, by the number of units that are there."""
    found: dict[int, list[str]] = {}
    for query in haystack.queries:
        if query.needle is not None:
            found.setdefault(min(query.cutoff + SEEN, len(haystack.units)), []).append(query.needle)
    return found


def chosen(path: Path) -> Iterator[Haystack]:
    """Yield the runs of a file that are measured."""
    every = max(1, round(sum(sum(map(len, needles_of(run).values())) for run in read_haystacks(path)) / NEEDLES))
    yield from (run for at, run in enumerate(read_haystacks(path)) if at % every == 0)


def newest(messages: Messages, budget: int) -> Messages:
    """Return the newest messages that fit, from the first one that is no result on."""
    first = len(messages)
    while first and (budget := budget - tokens_of(json.dumps(messages[first - 1]))) >= 0:
        first -= 1
    return [*dropwhile(lambda message: message["role"] == "tool", messages[first:])]


def masked(messages: Messages) -> Messages:
    """Return messages with a mask for all results but the newest, as many more at once as stand in a jump."""
    results = [at for at, message in enumerate(messages) if message["role"] == "tool"]
    old = {*results[: max(0, len(results) - UNMASKED) // JUMP * JUMP]}
    return [{**message, "content": MASK} if at in old else message for at, message in enumerate(messages)]


@cache
def tokens_of(message: str) -> int:
    """Return the tokens of a message in JSON."""
    return count_tokens([json.loads(message)])


def cost(before: Messages, now: Messages) -> float:
    """Return the bill of a prompt behind another one, in fresh tokens of four characters."""
    texts = [json.dumps(message, ensure_ascii=False) for message in now]
    pairs = zip(before, now, strict=False)
    same = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
    return (CACHED * sum(map(len, texts[:same])) + WRITTEN * sum(map(len, texts[same:]))) / 4


def measure(path: Path, way: str, budget: int) -> dict[str, Any]:
    """Return how many needles stand in the prompts of a file, and the means of their tokens and bills."""
    found = needed = prompts = tokens = 0
    bill = 0.0
    for run in chosen(path):
        needles = needles_of(run)
        last = max(needles, default=0)
        with HierarchicalMemory(
            store="exact", max_tokens=budget or BUDGETS[0], cache=1 if way == "anew" else CACHED
        ) as memory:
            before: Messages = []
            given = [as_message(unit) for unit in run.units[:last]]
            for count, message in enumerate(given, 1):
                if way in ("goes on", "anew"):
                    memory.add_messages([message], session="s")
                is_next = count < len(given) and given[count]["role"] == "assistant" and count > last - BUILT
                if count not in needles and not is_next:
                    continue
                try:
                    now = _prompt(memory, given[:count], way, budget)
                except BudgetError:  # a system prompt that does not fit
                    now = []
                found += sum(needle in json.dumps(now, ensure_ascii=False) for needle in needles.get(count, ()))
                prompts, bill = prompts + 1, bill + cost(before, now)
                tokens += sum(tokens_of(json.dumps(message)) for message in now)
                before = now
        needed += sum(map(len, needles.values()))
    means = {"tokens": round(tokens / prompts), "bill": round(bill / prompts)}
    return {"way": way, "budget": budget, "found": found, "needed": needed, "prompts": prompts, **means}


def _prompt(memory: HierarchicalMemory, messages: Messages, way: str, budget: int) -> Messages:
    if way == "newest messages":
        return newest(messages, budget)
    if way in WHOLE:
        return messages if way == WHOLE[0] else masked(messages)
    context = memory.fit(messages, session="s") if way == "fit" else memory.context(session="s")
    return context.messages


def table(record: dict[str, Any]) -> str:
    """Return the figures as Markdown: for each set the share of needles that are there, and the bill of a prompt."""
    sets = record["sets"]
    heads = [f"{set_name(one['data'])} ({one['figures'][0]['needed']})" for one in sets]
    lines = [f"| way | budget | {' | '.join(heads)} | all |", f"| --- | ---: |{' ---: |' * (len(heads) + 1)}"]
    for way, budget in (*product(WAYS, record["budgets"]), *product(WHOLE, [0])):
        cells = [one for each in sets for one in each["figures"] if (one["way"], one["budget"]) == (way, budget)]
        shown = [f"{one['found'] / one['needed']:.2f} at {one['bill']:,}" for one in cells]
        share, bill = mean(cells)
        tokens = f"{budget:,}" if budget else "none"
        lines.append(f"| {way} | {tokens} | {' | '.join(shown)} | {share:.2f} at {bill:,.0f} |")
    return "\n".join(lines)


def mean(figures: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Return the share of all needles that were there, and the mean of the sets' bills."""
    needed = sum(one["needed"] for one in figures)
    return sum(one["found"] for one in figures) / needed, sum(one["bill"] for one in figures) / len(figures)


def draw(record: dict[str, Any]) -> None:
    """Draw the share of needles that are there against the bill of a prompt, a line for each way."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    every = [one for each in record["sets"] for one in each["figures"]]
    for way, form in zip((*WAYS, *WHOLE), "so^Dvp", strict=True):
        budgets = record["budgets"] if way in WAYS else [0]
        cells = [[one for one in every if (one["way"], one["budget"]) == (way, budget)] for budget in budgets]
        points = [mean(figures) for figures in cells]
        axes.plot([bill for _, bill in points], [share for share, _ in points], f"{form}-", label=way)
    axes.set_xlabel("bill of a prompt, in fresh tokens")
    axes.set_ylabel("needed and there")
    axes.legend()
    figure.savefig(PLOT)


def measured(paths: Sequence[Path], budgets: Sequence[int]) -> list[dict[str, Any]]:
    """Return the figures of each file, in a process for each core."""
    ways, tokens = zip(*product(WAYS, budgets), *product(WHOLE, [0]), strict=True)
    with ProcessPoolExecutor() as pool:
        return [
            {"data": path.name, "sha256": sha256(path), "figures": [*pool.map(partial(measure, path), ways, tokens)]}
            for path in paths
        ]


main = Benchmark(PROGRAM, __doc__, "needed 1", BUDGETS, RESULTS, PAGE, MARKS, measured, table, draw).run

if __name__ == "__main__":
    main()

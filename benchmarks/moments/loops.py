"""An agent's own loop: does what is needed from far back stand in the agent's next prompt?

    python -m benchmarks.moments.loops [--steps 240] [--budgets 4000,8000] [--seeds 1,2] [--out LOOPS.summary.json]
    python -m benchmarks.moments.loops --write | --check      # the table in tables/moments.md

A scripted agent works through a run that is made up: at every step it calls a tool, whose result has some 400 tokens.
From the 60th step on, at every 30th one, somebody says what is needed now: a line of one result at least 40 steps back,
which no budget here reaches, and which alone has its name. In `builds` the agent says so, each time in the same words;
in `orders` a person asks behind a tool's result. Then the next prompt is looked through for the line.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from benchmarks.harness.methods import loaded
from benchmarks.moments.command import Benchmark
from benchmarks.recall.run import budgets, progress
from tinymem import HierarchicalMemory

__all__ = ["WAYS", "WORLDS", "Need", "main", "measure"]

FIRST, EVERY, BACK = 60, 30, 40  # steps: the first need, between two, and back to what is needed
LINES = 16  # of a result
RUN = "run"  # the session

WAYS = ("context()", "context(session)", "fit", "context(words)", "context(words, session)")

Messages: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Need:
    """The words in which something is needed, and the line that has it."""

    said: str
    line: str


@dataclass(frozen=True)
class World:
    """A kind of run.

    Attributes:
        task: The task of the agent.
        command: The command of a step, with its {number}.
        line: A line of a result, with a {name} and two numbers.
        wanted: The line that may be needed.
        said: The words in which it is.
        by_user: A person says so, and not the agent.
    """

    task: str
    command: str
    line: str
    wanted: str
    said: str
    by_user: bool


WORLDS = {
    "builds": World(
        task="Build all batches of targets, and note what fails.",
        command="make batch-{number}",
        line="[{a}] CC src/{name}/part_{b}.c ({b} warnings)",
        wanted="FAILED target {name}, filed as bug {a}-{b}",
        said="I need the bug number of the failed target {name}.",
        by_user=False,
    ),
    "orders": World(
        task="Go through the orders of the week, page by page.",
        command="orders --page {number}",
        line='{{"customer": "{name}", "item": {a}, "count": {b}}}',
        wanted='{{"customer": "{name}", "parcel": "P{a}X{b}", "state": "sent"}}',
        said="By the way, what is the parcel number of {name}?",
        by_user=True,
    ),
}


def run_of(world: World, steps: int, random: Random) -> Iterator[tuple[Messages, Need | None]]:
    """Yield the messages of each step, and what is needed once they are said."""
    wanted = dict[str, str]()  # the line, by name
    for step in range(steps):
        names = [_invented(random) for _ in range(LINES)]
        lines = [_numbered(world.line, name, random) for name in names[1:]]
        wanted[names[0]] = _numbered(world.wanted, names[0], random)
        lines.insert(random.randrange(LINES), wanted[names[0]])
        need = _need(world, wanted, random) if step >= FIRST and step % EVERY == 0 else None
        said = need.said if need and not world.by_user else f"Number {step} is next."
        messages = _called(said, world.command.format(number=step), "\n".join(lines), step)
        asked = [{"role": "user", "content": need.said}] if need and world.by_user else []
        yield messages + asked, need


def _need(world: World, wanted: Mapping[str, str], random: Random) -> Need:
    name = random.choice([*wanted][:-BACK])
    return Need(world.said.format(name=name), wanted[name])


def _invented(random: Random) -> str:
    return "".join(random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(4)).title()


def _numbered(text: str, name: str, random: Random) -> str:
    return text.format(name=name, a=random.randrange(1_000, 10_000), b=random.randrange(100))


def _called(said: str, command: str, output: str, step: int) -> Messages:
    function = {"name": "Bash", "arguments": json.dumps({"command": command})}
    call = {"id": f"call_{step}", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": call["id"], "content": output}
    return [{"role": "assistant", "content": said, "tool_calls": [call]}, result]


# -- prompts ----------------------------------------------------------------------------------------------------------


class Loop:
    """A run that goes on in a memory, and the prompts that are built of it one after the other.

    Args:
        memory: An empty memory.
        task: The task of the run.
        way: One of WAYS.
        budget: The tokens of a prompt.
    """

    def __init__(self, memory: HierarchicalMemory, task: str, way: str, budget: int) -> None:
        self._memory, self._way, self._budget = memory, way, budget
        self._history: Messages = [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": task},
        ]
        self._added = 0

    def prompt(self, messages: Messages, words: str | None) -> str:
        """Return the text of the prompt once these messages were said, the last of them in `words`."""
        self._history += messages
        if self._way == "fit":
            built = self._memory.fit(self._history, session=RUN, max_tokens=self._budget)
        else:
            session = RUN if "session" in self._way else None
            self._memory.add_messages(self._history[self._added :], session=session)
            self._added = len(self._history)
            query = words if "words" in self._way else None
            built = self._memory.context(query, session=session, max_tokens=self._budget)
        return "\n".join(str(message.get("content")) for message in built.messages)


def measure(world: World, steps: int, budget: int, seeds: Sequence[int]) -> dict[str, int]:
    """Return by way how many of the needed lines stood in the next prompt."""
    return {way: sum(_found(world, way, steps, budget, seed) for seed in seeds) for way in WAYS}


def _found(world: World, way: str, steps: int, budget: int, seed: int) -> int:
    progress(f"{way}, {budget} tokens, seed {seed}")
    with HierarchicalMemory(namespace=RUN, embedder=loaded("static"), max_tokens=budget) as memory:
        loop, found = Loop(memory, world.task, way, budget), 0
        for messages, need in run_of(world, steps, Random(seed)):
            prompt = loop.prompt(messages, need.said if need else None)
            found += need is not None and need.line in prompt
    return found


# -- table ------------------------------------------------------------------------------------------------------------


def measured(args: Namespace) -> dict[str, Any]:
    """Return how many lines were needed, and how many stood in the next prompt, by world, budget and way."""
    found = {
        name: {str(budget): measure(world, args.steps, budget, args.seeds) for budget in args.budgets}
        for name, world in WORLDS.items()
    }
    needs = len(args.seeds) * len(range(FIRST, args.steps, EVERY))
    return {"steps": args.steps, "needs": needs, "found": found}


def rows(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table: one for each way, a column for each world and budget."""
    found, needs = record["found"], record["needs"]
    places = [(world, budget) for world, by_budget in found.items() for budget in by_budget]
    heads = [f"{world}, {int(budget):,} tokens" for world, budget in places]
    yield f"| prompt | {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * len(heads)}"
    for way in WAYS:
        cells = [f"{found[world][budget][way]} of {needs}" for world, budget in places]
        yield f"| `{way}` | {' | '.join(cells)} |"


OPTIONS: dict[str, dict[str, Any]] = {
    "steps": {"type": int, "default": 240, "metavar": "N", "help": "steps of a run (default: %(default)s)"},
    "budgets": {
        "type": budgets, "default": (4_000, 8_000), "metavar": "N,N", "help": "tokens of a prompt (default: 4000,8000)",
    },
    "seeds": {"type": budgets, "default": (1, 2), "metavar": "N,N", "help": "a run each (default: 1,2)"},
}  # fmt: skip
main = Benchmark("loops", __doc__, measured, rows, OPTIONS).main

if __name__ == "__main__":
    main()

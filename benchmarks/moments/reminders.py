"""Reminders where a command fails: is the failure known that passed later, and is nothing said otherwise?

    python -m benchmarks.moments.reminders --recorded RUNS... [--out REMINDERS.summary.json] [--shown SHOWN.txt]
    python -m benchmarks.moments.reminders --write | --check      # the table in tables/moments.md

Failures are taken from recorded runs of coding agents by their exit codes alone: `known` ones of which the same
program ran later in the run without one. A memory holds the run, thirty pieces of other repositories' runs around it.
Each failure is asked again in a new session, with other line numbers, times and folders, as the hook of Claude Code
does (`tinymem-hook post-tool-use-failure`). A reminder is right where it names a step between that failure, or a same
one, and what passed. What nobody needs a reminder for are runs that passed, of the same run and of others, and
failures of other repositories. `--shown` writes all reminders, to be read.
"""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.harness.data import Haystack
from benchmarks.harness.methods import as_message, loaded
from benchmarks.harness.moments import recorded, repository_of
from benchmarks.moments.command import RECORDED, Benchmark, runs_of
from benchmarks.recall.run import progress
from tinymem import HierarchicalMemory
from tinymem.runs.hooks.answers import Answers, Asked
from tinymem.steps.actions import ActionStep

__all__ = ["Use", "main", "measure", "uses_of"]

RUN = "run"  # the session that the memory holds
FILLERS = 30
KINDS = {  # how many of each are drawn, and what they are
    "known": (50, "failures that passed later in the run"),
    "passed": (150, "runs of the same session that passed"),
    "elsewhere": (150, "runs of other repositories that passed"),
    "unrelated": (200, "failures of other repositories"),
}
CODE = re.compile(
    r"\A\s*(?:Error: )?(?:Exit code:? |<returncode>)(\d+)|exited with (?:exit )?code (\d+)|exit code: (\d+)", re.I
)
ERROR = re.compile(r"error|\bfail|Traceback|exception|not found|no such|denied", re.IGNORECASE)
SHOWS = re.compile(r"^(?:ls|cat|grep|find|cd|which)\b| -[ce]$")  # and programs that stand in the line itself
NUMBER = re.compile(r"(?<![\w.-])(?<!code )(?<!code: )(?<!returncode>)\d{2,}")
FOLDER = re.compile(r"/(?:home|Users|workspace|testbed|c)/[\w.-]+|/testbed\b")


class Use(NamedTuple):
    """The run of a command: its call's id, its words, its result, and its exit code; None where none is said."""

    id: str
    line: str
    result: str
    code: int | None

    @property
    def program(self) -> str:
        """What is run, in its first two words, without where and with what around it."""
        line = re.sub(r"^(?:cd \S+ && |source \S+ && |\w+=\S+ )+", "", self.line.strip())
        return " ".join(re.split(r"\s+", re.sub(r"^python3? -m ", "", line))[:2])

    @property
    def has_passed(self) -> bool:
        """Whether nothing says that it failed."""
        return not self.code and not ERROR.search(self.result)


def uses_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[Use]:
    """Yield the commands in chat messages, in order."""
    lines: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            given = call["function"]["arguments"]
            line = json.loads(given).get("command") if given[:1] == "{" else None
            if isinstance(line, str):
                lines[call["id"]] = line
        if (name := message.get("tool_call_id")) in lines:
            found = CODE.search(message["content"])
            code = int(next(filter(None, found.groups()))) if found else None
            yield Use(name, lines[name], message["content"], code)


def errors_of(use: Use) -> set[str]:
    """Return the lines that say what went wrong, without numbers and folders."""
    lines = filter(ERROR.search, use.result.splitlines() if use.code else [])
    plain = {re.sub(r"\S*/|\d+|[^\w.' ]", "", line).strip() for line in lines}
    return plain - {"", "Traceback most recent call last"}


def is_among(use: Use, errors: Collection[str]) -> bool:
    """Return whether most of what went wrong stands among some lines."""
    return 2 * len(errors_of(use).intersection(errors)) > len(errors_of(use))


def known_in(uses: Sequence[Use]) -> Iterator[tuple[Use, Use]]:
    """Yield the failures that say why, each with the first later run of the same program that passed."""
    for place, use in enumerate(uses):
        if use.code and errors_of(use) and not SHOWS.search(use.program):
            passed = (later for later in uses[place + 1 :] if later.program == use.program and later.has_passed)
            yield from ((use, later) for later in [next(passed, None)] if later is not None)


def again(use: Use, random: Random) -> dict[str, Any]:
    """Return the event of a command that ends so again, elsewhere and with other numbers."""

    def other(text: str) -> str:
        text = FOLDER.sub("/srv/elsewhere", text)
        return NUMBER.sub(lambda found: str(random.randrange(10 ** (len(found[0]) - 1), 10 ** len(found[0]))), text)

    asked = {"session_id": f"asks-{use.id}", "tool_name": "Bash", "tool_input": {"command": other(use.line)}}
    ended = {"error": other(use.result)} if use.code else {"tool_response": {"stdout": use.result}}
    return {**asked, **ended, "tool_use_id": use.id}


def measure(runs: Sequence[Haystack], seed: str) -> Iterator[tuple[str, Use, str, bool]]:
    """Yield of each kind of uses what was asked, the reminder, and whether it was right."""
    random = Random(seed)
    messages = {run.id: [as_message(unit) for unit in run.units] for run in runs}
    uses = {name: [*uses_of(said)] for name, said in messages.items()}
    known = [(run, *pair) for run in runs for pair in known_in(uses[run.id])]
    drawn = random.sample(known, min(KINDS["known"][0], len(known)))
    asked_of = [run for run in runs if any(run is other for other, _, _ in drawn)]
    for number, run in enumerate(asked_of):
        progress(run.id)
        others = [other for other in runs if repository_of(other) != repository_of(run)]
        strange = [*chain.from_iterable(uses[other.id] for other in others)]
        pools = {"passed": [use for use in uses[run.id] if use.has_passed]}
        pools["elsewhere"] = [use for use in strange if use.has_passed]
        with HierarchicalMemory(namespace=RUN, embedder=loaded("hashing:64")) as memory:
            fillers = recorded(runs, FILLERS, run.id, repository_of(run))
            sessions = [*fillers[::2], messages[run.id], *fillers[1::2]]
            for place, said in enumerate(sessions):
                memory.archive_messages(said, session=RUN if place == len(fillers[::2]) else f"other-{place}")
            hook = Answers(lambda namespace, create, memory=memory: memory)
            places = {call.id: step.step_number or 0 for step in memory.history(RUN) if isinstance(step, ActionStep)
                      for call in step.tool_calls}  # fmt: skip
            for _, use, _ in (case for case in drawn if case[0] is run):
                text = hook.answer(Asked(event_of(use), again(use, random), RUN))
                numbers = {*map(int, re.findall(r"#(\d+)", text.partition("\n")[2]))}
                same = [(a, b) for other, a, b in known if other is run and is_among(use, errors_of(a))]
                spans = chain.from_iterable(range(places[a.id], places[b.id] + 1) for a, b in same)
                yield "known", use, text, bool(numbers) and {*spans} >= numbers
            kept = {*chain.from_iterable(map(errors_of, chain.from_iterable(map(uses_of, sessions))))}
            failed = [use for use in strange if use.code and errors_of(use)]
            pools["unrelated"] = [use for use in failed if not is_among(use, kept)]
            for kind, pool in pools.items():
                share = KINDS[kind][0] * (number + 1) // len(asked_of) - KINDS[kind][0] * number // len(asked_of)
                for use in random.sample(pool, min(share, len(pool))):
                    text = hook.answer(Asked(event_of(use), again(use, random), RUN))
                    yield kind, use, text, not text


def event_of(use: Use) -> str:
    """Return the event of a use: Claude Code tells failures from the others."""
    return "post-tool-use-failure" if use.code else "post-tool-use"


def measured(args: Namespace) -> dict[str, Any]:
    """Return the counts of each kind of uses; write what was shown where that is asked for."""
    counts = {kind: Counter(asked=0, reminded=0, right=0) for kind in KINDS}
    shown = []
    for kind, use, text, is_right in measure([*runs_of(args.recorded)], args.seed):
        counts[kind].update(asked=1, reminded=bool(text), right=is_right)
        if text or kind == "known":
            shown.append(
                f"{kind} {'right' if is_right else 'WRONG'}\n$ {use.line[:200]}\n{use.result[-400:]}\n-> {text}\n"
            )
    if args.shown:
        args.shown.write_text("\n".join(shown), "utf-8")
    return {"data": [file.name for file in args.recorded], "found": {kind: dict(one) for kind, one in counts.items()}}


def rows(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table: one for each kind of uses."""
    yield "| commands | asked | got a reminder | the right one |"
    yield "| --- | ---: | ---: | ---: |"
    for kind, (_, name) in KINDS.items():
        row = record["found"][kind]
        right = row["right"] if kind == "known" else ""
        yield f"| {name} | {row['asked']} | {row['reminded']} | {right} |"


OPTIONS: dict[str, dict[str, Any]] = {
    "recorded": RECORDED,
    "seed": {"default": "1", "help": "what is drawn (default: %(default)s)"},
    "shown": {"type": Path, "metavar": "TEXT", "help": "the file to write the reminders to"},
}
main = Benchmark("reminders", __doc__, measured, rows, OPTIONS).main

if __name__ == "__main__":
    main()

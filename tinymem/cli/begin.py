"""The commands on recorded runs: `tinymem demo`, `ingest`, `watch`, `replay` and `bench`."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.options import JsonOption
from tinymem.cli.shared import Target, on_memory, print_json, say, warn
from tinymem.errors import InputError, TinymemError
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.archive.stats import Stats
    from tinymem.runs.ingest import Ingested

__all__ = ["bench", "demo", "ingest", "replay", "watch"]

STDIN = Path("-")
PAUSE = 2.0  # seconds from one look at a folder to the next
MOST_NAMED = 20  # kinds of what was left out of a file
INTERRUPTED = 130  # exit status after Ctrl-C


def check_readable(files: list[Path] | None) -> list[Path]:
    """Check that all files are there before anything is added; a missing one is a usage error."""
    for file in files or ():
        if file != STDIN and not os.access(file, os.R_OK):
            raise typer.BadParameter(f"{file} {'cannot be read' if file.exists() else 'does not exist'}")
    return list(files or ())


@on_memory(without="path namespace")
def demo(target: Target) -> None:
    """Watch an agent recall what its window has lost.

    The demo replays a recorded agent run through a memory with a small window, then asks about what left it. Exit
    status 1 if an answer does not come back. `tinymem ingest --sample` adds the same run to a memory that stays.

    Example: tinymem demo
    """
    from tinymem.cli.demo import run_demo

    report = run_demo(target.embedder)
    target.answer(dataclasses.asdict(report), report.text())
    raise typer.Exit(0 if report.answered == len(report.asked) else 1)


@on_memory(without="")
def ingest(
    target: Target,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", callback=check_readable, help="The files to add; - is standard input."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Add the recorded run of the demo.")] = False,
) -> None:
    """Add recorded runs to a memory; of a file that grew, only what is new.

    Files hold OpenAI messages (a JSON list, JSON lines, or a list a line), sessions of Claude Code, Codex or Gemini
    CLI, tau-bench results, mini-swe-agent trajectories, gzip'd or not.
    Exports are read as they come: ChatGPT and Claude.ai (the zip, or conversations.json), Slack (the zip, or its
    folder). Notes (.md, .txt) are read by sections. Of another folder, all files of JSON in it and below are read. A
    damaged line is left out and named, and so is what nobody said and what stands in <private> tags. After Ctrl-C (exit
    status 130), the same command goes on where it stopped.

    Example: tinymem ingest run.jsonl trajectories/*.json.gz --path ./memory
    """
    named = list(files or ())
    if sample:
        from tinymem.cli.demo import RECORDING

        named.append(RECORDING)
    if not named:
        raise InputError("say what to ingest: one file or more, - for standard input, or --sample")
    try:
        _ingest(target, named)
    except KeyboardInterrupt:
        warn("stopped; what was added so far is kept: run it again to go on")
        raise typer.Exit(INTERRUPTED) from None


def _ingest(target: Target, files: Sequence[Path]) -> None:
    from tinymem.runs.hooks.privacy import without_private
    from tinymem.runs.ingest import ingest_files
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.forgetting import cleanup_on_failure

    begin = time.perf_counter()
    with cleanup_on_failure(target.place, target.namespace):  # files that are refused leave no empty memory behind
        with target.open(create=True, redact=without_private) as memory:
            with show_progress(sys.stderr, "ingesting", "steps") as progress:
                done = ingest_files(memory, files, progress)
            with show_progress(sys.stderr, "indexing", "passages") as progress, suppress(TinymemError):
                memory.flush(progress)  # where that fails, it waits for the next time
            stats = memory.stats()
        seconds = time.perf_counter() - begin
        result = {"files": [*map(vars, done)], "seconds": round(seconds, 3)}
        failed = any(outcome.error is not None for outcome in done)
        where = f"in {seconds:.1f} s to {target.display_path} (namespace {target.namespace})"
        if stats.steps or not failed:
            target.answer(result | {"memory": dataclasses.asdict(stats)}, _summary(done, stats, where))
        for outcome in done:
            _report(outcome)
        if failed:
            raise typer.Exit(1)


def _report(done: Ingested) -> None:
    """Name on standard error what was left out of a file, and the error that ended it."""
    from tinymem.runs.lines import DAMAGED
    from tinymem.runs.readers import APART

    kinds = Counter(done.left_out)
    apart = kinds.pop(APART, 0)
    if kinds:
        most = kinds.most_common(MOST_NAMED)
        named = [kind if kind.startswith(DAMAGED) else f"{count:,} {kind}" for kind, count in most]
        more = f" and {len(kinds) - MOST_NAMED:,} more" if len(kinds) > MOST_NAMED else ""
        warn(f"{done.file}: left out: {', '.join(named)}{more}")
    if apart:
        warn(f"{done.file}: {pluralize(apart, 'result')} whose call is not in it: kept as such")
    if done.error is not None:
        warn(f"{done.error} (added before it: {pluralize(done.steps, 'step')})" if done.steps else done.error)


@on_memory(without="as_json")
def watch(
    target: Target,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Where agents write their sessions.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
) -> None:
    """Add the session files in a folder to a memory, and go on adding what agents write to them.

    Files are *.jsonl, also in folders below, of the kinds that ingest reads. Each message is added once, also after a
    restart. Ctrl-C ends it (exit status 130).

    Example: tinymem watch ~/.claude/projects --path ~/memory
    """
    from tinymem.runs.growing import WatchedFolder
    from tinymem.runs.hooks.privacy import without_private

    watched = WatchedFolder(folder)
    try:
        with target.open(create=True, redact=without_private) as memory:
            while True:
                for done in watched.changes(memory):
                    if done.steps:
                        say(f"{done.file}: {pluralize(done.steps, 'step')}")
                        sys.stdout.flush()
                    _report(done)
                if once:
                    return
                time.sleep(PAUSE)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _summary(done: Sequence[Ingested], stats: Stats, where: str) -> str:
    steps, runs, known = (sum(map(attrgetter(name), done)) for name in ("steps", "runs", "known"))
    again = f" ({known:,} {'was' if known == 1 else 'were'} added before)" if known else ""
    return (
        f"Added {pluralize(steps, 'step')} of {pluralize(runs, 'run')}{again} {where}, "
        f"which now holds {pluralize(stats.steps, 'step')}, {pluralize(stats.tokens, 'token')}."
    )


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", callback=check_readable, help="The runs to replay.")],
    budgets: Annotated[
        list[int] | None,
        typer.Option("--budget", min=1, help="Tokens of a prompt, once or more. Default: 1/4 of each run."),
    ] = None,
    policies: Annotated[
        list[str] | None, typer.Option("--policy", metavar="NAME", help="A policy, once or more. Default: all but fit.")
    ] = None,
    prices: Annotated[
        str,
        typer.Option(help='anthropic, openai, or ratios "1:0.1:1.25": fresh, cached, written tokens.'),
    ] = "anthropic",
    embedder: Annotated[str, typer.Option(help="The embedder of the policies that have one.")] = "static",
    as_json: JsonOption = False,
) -> None:
    """Say what each way to prune would have cost on recorded runs, and whether what the agent needed was in sight.

    It reads the files that ingest reads, calls no model and needs no network. For each call of the model it makes the
    prompt that a policy would have sent: tokens, the share that the provider's prefix cache serves, the bill, and the
    share of what the call copied from far back that stood in the prompt. See docs/replay.md.

    Example: tinymem replay session.jsonl --budget 16000 --prices openai
    """
    from tinymem.runs.replays.replaying import replay as run
    from tinymem.steps.progress import show_progress

    with show_progress(sys.stderr, "replaying", "replays") as progress:
        found = run(
            files,
            budgets=budgets or (),
            policies=policies or (),
            prices=prices,
            embedder=embedder,
            progress=progress,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        say(found.text())
    for line in found.unfit:
        warn(line)


def bench(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", callback=check_readable, help="The recorded runs.")],
    budgets: Annotated[
        list[int] | None,
        typer.Option("--budget", min=1, help="Tokens of what comes back, once or more. Default: 500 to 4,000."),
    ] = None,
    embedder: Annotated[str, typer.Option(help="The embedder of tinymem and of plain vectors.")] = "static",
    as_json: JsonOption = False,
) -> None:
    """Say how much of what your agent needed again comes back, from tinymem and from plain methods.

    It reads the files that ingest reads, calls no model and needs no network. What counts are the identifiers and lines
    that the agent copied into a call from far back, as replay finds them. See docs/benchmark.md.

    Example: tinymem bench session.jsonl
    """
    from tinymem.runs.replays.benching import BUDGETS
    from tinymem.runs.replays.benching import bench as measure
    from tinymem.steps.progress import show_progress

    with show_progress(sys.stderr, "asking", "questions") as progress:
        found = measure(files, budgets=budgets or BUDGETS, embedder=embedder, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(found))
    else:
        say(found.text())

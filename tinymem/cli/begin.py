"""The commands to begin with: `tinymem demo`, `tinymem ingest` and `tinymem watch`."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.options import EmbedderOption, JsonOption
from tinymem.cli.shared import Target, on_memory, print_json, say
from tinymem.errors import InputError, TinymemError
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.archive.stats import Stats
    from tinymem.runs.ingest import Ingested

__all__ = ["check_readable", "demo", "ingest", "watch"]

STDIN = Path("-")
INTERRUPTED = 130  # exit status after Ctrl-C


def check_readable(files: list[Path] | None) -> list[Path]:
    """Check that all files are there before anything is added; a missing one is a usage error."""
    for file in files or ():
        if file != STDIN and not os.access(file, os.R_OK):
            raise typer.BadParameter(f"{file} {'cannot be read' if file.exists() else 'does not exist'}")
    return list(files or ())


def demo(
    path: Annotated[Path | None, typer.Option("--path", help="Keep the memory of the demo in this new folder.")] = None,
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch an agent recall what its window has lost.

    The demo replays a recorded agent run through a memory with a small window, then asks about what left it. Exit
    status 1 if an answer does not come back.

    Example: tinymem demo
    """
    from tinymem.cli.demo import run_demo, show

    report = run_demo(path, embedder)
    if as_json:
        print_json(dataclasses.asdict(report) | {"answered": report.answered})
    else:
        from rich.console import Console

        show(report, Console(), path)
    raise typer.Exit(0 if report.passed else 1)


@on_memory()
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
    CLI, dumps of LangChain or smolagents, tau-bench results, mini-swe-agent or ATIF trajectories, gzip'd or not.
    Exports are read as they come: ChatGPT and Claude.ai (the zip, or conversations.json), Slack (the zip, or its
    folder), Cursor (state.vscdb). Notes (.md, .txt) are read by sections. Of another folder,
    all files of JSON in it and below are read. A damaged line is left
    out and named, and so is what nobody said and what stands in <private> tags. After Ctrl-C (exit status 130), the
    same command goes on where it stopped.

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
        say("tinymem: stopped; what was added so far is kept: run it again to go on", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _ingest(target: Target, files: Sequence[Path]) -> None:
    from tinymem.runs.hooks.privacy import redact_with
    from tinymem.runs.ingest import ingest_files
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.forgetting import cleanup_on_failure

    begin = time.perf_counter()
    with cleanup_on_failure(target.place, target.namespace):  # files that are refused leave no empty memory behind
        with target.open(create=True, redact=redact_with(())) as memory:
            with show_progress(sys.stderr, "ingesting", "steps") as progress:
                done = ingest_files(memory, files, progress)
            with show_progress(sys.stderr, "indexing", "passages") as progress, suppress(TinymemError):
                memory.flush(progress)  # where that fails, it waits for the next time
            held = memory.stats()
        seconds = time.perf_counter() - begin
        result = {"files": [dataclasses.asdict(one) for one in done], "seconds": round(seconds, 3)}
        where = f"in {seconds:.1f} s to {target.display_path} (namespace {target.namespace})"
        if held.steps or not any(one.error for one in done):
            target.answer(result | {"memory": dataclasses.asdict(held)}, _summary(done, held, where))
        for one in done:
            _report(one)
        if any(one.error is not None for one in done):
            raise typer.Exit(1)


def _report(done: Ingested) -> None:
    """Name on standard error what was left out of a file, and the error that ended it."""
    from tinymem.runs.readers import MALFORMED
    from tinymem.runs.transcripts import APART, DAMAGED

    kinds = Counter(done.skipped)
    apart, damaged = kinds.pop(APART, 0), kinds.pop(DAMAGED, 0) + kinds.pop(MALFORMED, 0)
    left = [f"{count:,} {name}" for name, count in kinds.most_common()]
    if left:
        say(f"tinymem: {done.file}: left out: {', '.join(left)}", err=True)
    if damaged:
        named = f"{', '.join(done.damaged)}{f' and {more:,} more' if (more := damaged - len(done.damaged)) > 0 else ''}"
        say(f"tinymem: {done.file}: damaged, and left out: {named}", err=True)
    if apart:
        say(f"tinymem: {done.file}: {pluralize(apart, 'result')} whose call is not in it: kept as such", err=True)
    if done.error is not None:
        kept = f" (the {pluralize(done.steps, 'step')} before it {'was' if done.steps == 1 else 'were'} added)"
        say(f"tinymem: {done.error}{kept if done.steps else ''}", err=True)


@on_memory(without="as_json")
def watch(
    target: Target,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", exists=True, file_okay=False, help="Where agents write their sessions.")
    ],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from one look to the next.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
) -> None:
    """Add the session files in a folder to a memory, and go on adding what agents write to them.

    Files are *.jsonl, also in folders below, of the kinds that ingest reads. Each message is added once, also after a
    restart. Ctrl-C ends it (exit status 130).

    Example: tinymem watch ~/.claude/projects --path ~/memory
    """
    from tinymem.runs.growing import WatchedFolder
    from tinymem.runs.hooks.privacy import redact_with

    watched = WatchedFolder(folder)
    try:
        with target.open(create=True, redact=redact_with(())) as memory:
            while True:
                for done in watched.changes(memory):
                    if done.steps:
                        say(f"{done.file}: {pluralize(done.steps, 'step')}")
                        sys.stdout.flush()
                    _report(done)
                if once:
                    return
                time.sleep(every)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _summary(done: Sequence[Ingested], held: Stats, where: str) -> str:
    steps, runs, known = (sum(getattr(one, name) for one in done) for name in ("steps", "runs", "known"))
    again = f" ({known:,} {'was' if known == 1 else 'were'} added before)" if known else ""
    return (
        f"Added {pluralize(steps, 'step')} of {pluralize(runs, 'run')}{again} {where}, "
        f"which now holds {pluralize(held.steps, 'step')}, {pluralize(held.tokens, 'token')}."
    )

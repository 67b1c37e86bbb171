"""The commands that one begins with: `tinymem demo` and `tinymem ingest`."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.counting import counted
from tinymem.cli.options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli.shared import opened, print_json
from tinymem.errors import InputError

if TYPE_CHECKING:
    from tinymem.archive.stats import Stats
    from tinymem.cli.ingestion.ingest import Ingested

__all__ = ["demo", "ingest"]

SAMPLE = Path(__file__).parents[1] / "data" / "demo.jsonl"
STDIN = Path("-")
INTERRUPTED = 130  # the exit status of what Ctrl-C ended


def _readable(files: list[Path] | None) -> list[Path]:
    """The files; a usage error where one is not there, so that nothing is added before it is found."""
    for file in files or ():
        if file != STDIN and (file.is_dir() or not os.access(file, os.R_OK)):
            what = "is a folder" if file.is_dir() else "cannot be read" if file.exists() else "does not exist"
            raise typer.BadParameter(f"{file} {what}")
    return list(files or ())


def demo(
    path: Annotated[Path | None, typer.Option("--path", help="Keep the demo's memory in this (new) folder.")] = None,
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch an agent recall what its window has lost.

    Replays a recorded agent run through a memory with a small window, then asks about what scrolled away. Exit status
    1 if an answer does not come back.

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


def ingest(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", callback=_readable, help="What to add; - is standard input."),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="The recorded run of the demo, which comes with it.")
    ] = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add recorded runs to a memory; of a file that grew since, what is new.

    Files hold OpenAI messages (a JSON list, JSON lines, or a list a line), tau-bench results, mini-swe-agent
    trajectories, or haystacks of the benchmarks, gzip'd or not. What stands before a damaged line is kept. After
    Ctrl-C (exit status 130), the same command goes on where it was.

    Example: tinymem ingest run.jsonl trajectories/*.json.gz --path ./memory
    """
    given = [*(files or ()), *([SAMPLE] if sample else [])]
    if not given:
        raise InputError("say what to ingest: one file or more, - for standard input, or --sample")
    try:
        _ingest(given, path, namespace, embedder, as_json)
    except KeyboardInterrupt:
        typer.echo("tinymem: stopped; what was added so far is kept: run it again to go on", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _ingest(files: Sequence[Path], path: Path, namespace: str, embedder: str | None, as_json: bool) -> None:
    from tinymem.cli.ingestion.ingest import ingest_files, progress

    begin = time.perf_counter()
    with opened(path, namespace, embedder, create=True) as memory:
        with progress(files, sys.stderr) as advance:
            done = ingest_files(memory, files, advance)
        held = memory.stats()
    seconds = time.perf_counter() - begin
    if as_json:
        result = {"files": [dataclasses.asdict(one) for one in done], "seconds": round(seconds, 3)}
        print_json(result | {"memory": dataclasses.asdict(held)})
    else:
        typer.echo(_summary(done, held, f"in {seconds:.1f} s to {path} (namespace {namespace})"))
    faults = [one for one in done if one.error is not None]
    for one in faults:
        kept = f" (the {counted(one.steps, 'step')} before it {'was' if one.steps == 1 else 'were'} added)"
        typer.echo(f"tinymem: {one.error}{kept if one.steps else ''}", err=True)
    raise typer.Exit(1 if faults else 0)


def _summary(done: Sequence[Ingested], held: Stats, where: str) -> str:
    steps, runs, known = (sum(getattr(one, name) for one in done) for name in ("steps", "runs", "known"))
    again = f" ({known:,} {'was' if known == 1 else 'were'} added before)" if known else ""
    return (
        f"Added {counted(steps, 'step')} of {counted(runs, 'run')}{again} {where}, "
        f"which now holds {counted(held.steps, 'step')}, {counted(held.tokens, 'token')}."
    )

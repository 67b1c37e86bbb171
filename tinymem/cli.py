"""The command `tinymem`. What is heavy is imported by the commands that need it, so that `--help` is quick.

Exit status: 0 good, 1 the task failed, 2 the user's mistake. With `--json`, standard output holds one JSON value and
nothing else; notes and progress go to standard error.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tinymem import __version__, cli_repair
from tinymem.cli_files import export, import_file
from tinymem.cli_inspect import explain, inspect, show
from tinymem.cli_options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli_shared import excerpt_record, opened, print_json
from tinymem.cli_upkeep import forget, reindex, retain
from tinymem.errors import (
    BudgetError,
    EmbedderMismatchError,
    InputError,
    MissingExtraError,
    NotAMemoryError,
    TinymemError,
)

__all__ = ["app", "main"]

MISTAKES = (InputError, BudgetError, NotAMemoryError, EmbedderMismatchError, MissingExtraError)

EPILOG = """Examples:

tinymem demo

tinymem ingest run.jsonl trajectories/*.json.gz

tinymem recall "which test was flaky?" --max-tokens 500

tinymem context "why did the deploy fail?" --max-tokens 4000 --json

tinymem explain "which test was flaky?"
"""

app = typer.Typer(
    name="tinymem",
    help="Memory for long-running AI agents: what left the context window comes back, inside a token budget.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(cli_repair.doctor)
app.command()(cli_repair.rebuild)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tinymem {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    path: Annotated[Path | None, typer.Option("--path", help="Keep the demo's memory in this (new) folder.")] = None,
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Watch an agent recall what its window has lost.

    Replays a recorded agent run through a memory with a small window, then asks about what scrolled away. Exit status
    1 if an answer does not come back.
    """
    from tinymem.demo import run_demo, show

    report = run_demo(path, embedder)
    if as_json:
        print_json(dataclasses.asdict(report) | {"answered": report.answered})
    else:
        from rich.console import Console

        show(report, Console(), path)
    raise typer.Exit(0 if report.passed else 1)


@app.command()
def ingest(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, readable=True)],
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Add recorded runs to a memory.

    Files hold OpenAI messages (a JSON list, JSON lines, or a list a line), tau-bench results, mini-swe-agent
    trajectories, or haystacks of the benchmarks, gzip'd or not. What stands before a damaged line is kept.

    Example: tinymem ingest run.jsonl trajectories/*.json.gz --path ./memory
    """
    from tinymem.ingestion import ingest_files, progress

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
        steps, runs = sum(one.steps for one in done), sum(one.runs for one in done)
        typer.echo(
            f"Added {steps:,} steps of {runs:,} runs in {seconds:.1f} s to {path} (namespace {namespace}), "
            f"which now holds {held.steps:,} steps, {held.tokens:,} tokens."
        )
    faults = [one for one in done if one.error is not None]
    for one in faults:
        typer.echo(f"tinymem: {one.error} (the {one.steps:,} steps before it were added)", err=True)
    raise typer.Exit(1 if faults else 0)


@app.command()
def recall(
    question: Annotated[str, typer.Argument(help="What to look for, in your own words.")],
    max_tokens: Annotated[int, typer.Option(min=1, help="The budget that the excerpts must fit.")] = 1_000,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Print what bears on a question, as it would stand in a prompt.

    Example: tinymem recall "which test was flaky?" --max-tokens 500
    """
    with opened(path, namespace, embedder) as memory:
        begin = time.perf_counter()
        found = memory.recall(question, max_tokens=max_tokens)
        milliseconds = (time.perf_counter() - begin) * 1000
        if as_json:
            items = [excerpt_record(item) for item in found.items]
            result = {"question": question, "tokens": found.tokens, "budget": max_tokens}
            print_json(result | {"milliseconds": round(milliseconds, 1), "text": found.text, "items": items})
            return
        if found:
            typer.echo(found.text)
        what = f"{len(found.items)} excerpts, {found.tokens} of {max_tokens} tokens" if found else "Nothing found"
        typer.echo(f"{what}, {milliseconds:.0f} ms.", err=True)


@app.command()
def context(
    question: Annotated[str, typer.Argument(help="What the next prompt is about; empty: the current task.")] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="The budget of the whole prompt.")] = 8_000,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Build the next prompt, and print what is in it and why; with --json, its messages.

    Example: tinymem context "why did the deploy fail?" --max-tokens 4000 --json
    """
    with opened(path, namespace, embedder) as memory:
        built = memory.context(question or None, max_tokens=max_tokens)
        if as_json:
            print_json({"tokens": built.tokens, "budget": max_tokens, "messages": built.messages})
        else:
            typer.echo(built.explain())


@app.command()
def stats(
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Print how much a memory holds.

    Example: tinymem stats --path ./memory --json
    """
    with opened(path, namespace, embedder) as memory:
        values = dataclasses.asdict(memory.stats())
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        typer.echo(f"{name.replace('_', ' '):<16}{shown}")


@app.command()
def salvage(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A memory's folder, or a journal.db.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the steps, a line of JSON each.")],
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Read the steps of a damaged memory that can still be read. Nothing in its folder is changed.

    No process may have the memory open. Exit status 1 if no step could be read.

    Example: tinymem salvage ./memory steps.jsonl
    """
    from tinymem.salvaging import salvage_to

    done = salvage_to(file, path, namespace)
    if as_json:
        print_json(done._asdict())
    else:
        gaps = f"; {done.missing:,} before the last are missing: damaged, or forgotten earlier" if done.missing else ""
        typer.echo(f"Wrote {done.steps:,} steps to {file}{gaps}.")
    raise typer.Exit(0 if done.steps else 1)


app.command()(inspect)
app.command()(show)
app.command("visualize", hidden=True)(show)
app.command()(explain)
app.command()(export)
app.command("import")(import_file)
app.command()(forget)
app.command()(retain)
app.command()(reindex)


def main() -> None:
    """The entry point: what goes wrong becomes one line on standard error and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a lone surrogate in somebody's text must not end in a traceback
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except TinymemError as error:
        typer.echo(f"tinymem: {error}", err=True)
        raise SystemExit(2 if isinstance(error, MISTAKES) else 1) from None
    except BrokenPipeError:  # as in `tinymem recall ... | head`; what is buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

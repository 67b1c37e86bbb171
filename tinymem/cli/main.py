"""The command `tinymem`. Each command imports what is heavy itself, so that `--help` is quick.

Exit status: 0 success, 1 the task failed, 2 the user's mistake, 130 interrupted. With `--json`, standard output has one
JSON value and nothing else; notes and progress go to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tinymem import __version__
from tinymem.cli.agents import mcp
from tinymem.cli.ask import context, explain, recall
from tinymem.cli.begin import bench, demo, ingest, replay, watch
from tinymem.cli.inspector.command import inspect
from tinymem.cli.install import install, uninstall
from tinymem.cli.move import export, import_file, migrate, schema, scrub
from tinymem.cli.reports import get, namespaces, show
from tinymem.cli.shared import warn
from tinymem.cli.upkeep import doctor, forget, rebuild, reindex, retain
from tinymem.cli.write import add, correct, mark
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

GROUPS: dict[str, dict[str, Callable[..., None]]] = {  # in the order of the help
    "Begin here": {"demo": demo, "ingest": ingest, "watch": watch, "recall": recall, "context": context, "show": show},
    "Look inside": {"get": get, "explain": explain, "inspect": inspect, "namespaces": namespaces},
    "Write by hand": {"add": add, "mark": mark, "correct": correct},
    "Measure your own runs": {"replay": replay, "bench": bench},
    "Connect agents": {"install": install, "uninstall": uninstall, "mcp": mcp},
    "Move it": {"export": export, "import": import_file},
    "Forget": {"forget": forget, "retain": retain},
    "Repair": {"doctor": doctor, "rebuild": rebuild, "reindex": reindex},
    "Share it between hosts (PostgreSQL)": {"schema": schema, "migrate": migrate, "scrub": scrub},
}
LONGEST = 1_000  # characters of a sentence in the help: all of it

EPILOG = """Examples:

\b
tinymem demo
tinymem ingest --sample
tinymem recall which test was flaky
tinymem context why did the tills fail --max-tokens 4000
tinymem ingest run.jsonl trajectories/*.json.gz --path ./runs
tinymem replay session.jsonl
"""


class Commands(TyperGroup):
    """The commands in groups; plain text, since layout with rich takes longer than all the rest."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups, each command with the first sentence of its text."""
        widest = max(map(len, self.commands))
        for group, names in GROUPS.items():
            with formatter.section(group):
                shown = [(name.ljust(widest), self.commands[name].get_short_help_str(LONGEST)) for name in names]
                formatter.write_dl(shown)


app = typer.Typer(
    name="tinymem",
    cls=Commands,
    help="Memory for long-running AI agents: what left the context window comes back, inside a token budget.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,  # rich takes as long as all the rest
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


for commands in GROUPS.values():
    for name, command in commands.items():
        app.command(name)(command)
app.command("visualize", hidden=True)(show)


def main() -> None:
    """Run the command; an error becomes one line on standard error and an exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a lone surrogate must not end in a traceback
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except TinymemError as error:
        warn(str(error))
        raise SystemExit(2 if isinstance(error, MISTAKES) else 1) from None
    except OSError as error:  # a full disk, or a closed pipe as in `tinymem recall ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # drop what is buffered
        if not isinstance(error, BrokenPipeError):
            warn(error.strerror or str(error))
        raise SystemExit(1) from None

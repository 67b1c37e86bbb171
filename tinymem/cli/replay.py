"""The command that replays recorded runs: `tinymem replay`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli.begin import check_readable
from tinymem.cli.options import JsonOption
from tinymem.cli.shared import print_json, say

__all__ = ["replay"]


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", callback=check_readable, help="The runs to replay.")],
    budgets: Annotated[
        list[int] | None,
        typer.Option("--budget", min=1, help="Tokens of a prompt, once or more. Default: 1/8 and 1/4 of each run."),
    ] = None,
    policies: Annotated[
        list[str] | None, typer.Option("--policy", metavar="NAME", help="A policy, once or more. Default: all.")
    ] = None,
    prices: Annotated[
        str,
        typer.Option(help='The provider, such as openai, or ratios "1:0.1:1.25": fresh, cached, written tokens.'),
    ] = "anthropic",
    embedder: Annotated[str, typer.Option(help="The embedder of the policies that have one.")] = "static",
    plot: Annotated[Path | None, typer.Option(help="Draw bill against what was visible into this SVG or PNG.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each way to prune would have cost on recorded runs, and whether what the agent needed was in sight.

    It reads the files that ingest reads, calls no model and needs no network. For each call of the model it makes the
    prompt that a policy would have sent: tokens, the share that the provider's prefix cache serves, the bill, and the
    share of what the call copied from far back that stood in the prompt. See docs/replay.md.

    Example: tinymem replay session.jsonl --budget 16000 --prices openai
    """
    from tinymem.runs.replaying import replay as run
    from tinymem.steps.progress import show_progress

    with show_progress(sys.stderr, "replaying", "calls") as progress:
        found = run(
            files,
            budgets=budgets or (),
            policies=policies or (),
            prices=prices,
            embedder=embedder,
            workers=os.cpu_count() or 1,
            progress=progress,
        )
    if plot is not None:
        found.plot(plot)
    if as_json:
        print_json(found.to_dict())
    else:
        from rich.console import Console

        width = None if sys.stdout.isatty() else 140
        with (console := Console(width=width)).capture() as printed:
            console.print(found.table())
        say(printed.get(), nl=False)
    for line in found.unfit:
        say(f"tinymem: {line}", err=True)

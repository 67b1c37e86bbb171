"""The command that measures recall on recorded runs: `tinymem bench`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli.begin import check_readable
from tinymem.cli.options import JsonOption
from tinymem.cli.shared import print_json, say
from tinymem.errors import InputError

__all__ = ["bench"]


def bench(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", callback=check_readable, help="The recorded runs.")],
    budgets: Annotated[
        list[int] | None,
        typer.Option("--budget", min=1, help="Tokens of what comes back, once or more. Default: 500 to 4,000."),
    ] = None,
    embedder: Annotated[str, typer.Option(help="The embedder of tinymem and of plain vectors.")] = "static",
    out: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the curve into this file, too.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how much of what your agent needed again comes back, from tinymem and from plain methods.

    It reads the files that ingest reads, calls no model and needs no network. What counts are the identifiers and lines
    that the agent copied into a call from far back, as replay finds them. See docs/benchmark.md.

    Example: tinymem bench session.jsonl --out curve.svg
    """
    from tinymem.runs.benching import BUDGETS
    from tinymem.runs.benching import bench as measure
    from tinymem.steps.progress import show_progress

    if out is not None and out.suffix != ".svg":
        raise InputError(f"the picture is an SVG: give --out a name that ends in .svg, not {out.name!r:.80}")
    with show_progress(sys.stderr, "asking", "questions") as progress:
        found = measure(files, budgets=budgets or BUDGETS, embedder=embedder, progress=progress)
    if out is not None:
        out.write_text(found.svg(), encoding="utf-8")
    if as_json:
        print_json(asdict(found))
    else:
        say(found.text())

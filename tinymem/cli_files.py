"""The commands that write a memory to a file and read one: `tinymem export` and `import`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli_options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli_shared import print_json

__all__ = ["export", "import_file"]


def export(
    file: Annotated[Path, typer.Argument(metavar="[FILE|-]", help="Where to; - is standard output.")] = Path("-"),
    vectors: Annotated[bool, typer.Option("--vectors", help="Vectors too: an import then embeds nothing.")] = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
) -> None:
    """Write a memory as lines of JSON.

    Steps, what the window shows of them, milestones, episodes and the scratchpad: all that was added, and no key.

    Example: tinymem export memory.jsonl
    """
    from tinymem.exporting import export_memory
    from tinymem.progress import bar

    target = sys.stdout if file == Path("-") else file
    with bar(sys.stderr, "exporting", "steps") as progress:
        done = export_memory(path, target, namespace=namespace, vectors=vectors, progress=progress)
    typer.echo(f"Exported {done.steps:,} steps and {done.episodes:,} episodes.", err=True)


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)],
    append: Annotated[bool, typer.Option("--append", help="Behind what is in the namespace.")] = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = "static",
    as_json: JsonOption = False,
) -> None:
    """Make a memory of an exported file: all of it, or nothing.

    Example: tinymem import memory.jsonl --namespace restored
    """
    from tinymem.importing import import_memory
    from tinymem.progress import bar

    with bar(sys.stderr, "importing", "steps read and embedded") as progress:
        came = import_memory(path, file, namespace=namespace, embedder=embedder, append=append, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(came))
        return
    scratchpad = " and the scratchpad" if came.scratchpad else ""
    typer.echo(
        f"Imported {came.steps:,} steps, {came.episodes:,} episodes{scratchpad} into {path} (namespace {namespace}), "
        f"and embedded {came.embedded:,} passages."
    )

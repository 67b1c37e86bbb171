"""The commands that write a memory to a file and read one: `tinymem export` and `import`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli.counting import counted
from tinymem.cli.options import MEMORY, EmbedderOption, JsonOption, NamespaceOption, PathOption
from tinymem.cli.shared import agreed, check_memory, print_json

__all__ = ["export", "import_file"]


def export(
    file: Annotated[Path, typer.Argument(metavar="[FILE|-]", help="Where to; - is standard output.")] = Path("-"),
    vectors: Annotated[bool, typer.Option("--vectors", help="Vectors too: an import then embeds nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file without asking.")] = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
) -> None:
    """Write a memory as lines of JSON.

    Steps, what the window shows of them, milestones, episodes and the scratchpad: all that was added, and no key.

    Example: tinymem export memory.jsonl
    """
    from tinymem.upkeep.exporting import export_memory
    from tinymem.upkeep.progress import bar

    check_memory(path, namespace)
    target = sys.stdout if file == Path("-") else file
    if target is file and file.is_file() and not force and not agreed(f"{file} is there already. Overwrite it?"):
        typer.echo("Nothing was exported; --force overwrites without asking.", err=True)
        raise typer.Exit(1)
    with bar(sys.stderr, "exporting", "steps") as progress:
        done = export_memory(path, target, namespace=namespace, vectors=vectors, progress=progress)
    typer.echo(f"Exported {counted(done.steps, 'step')} and {counted(done.episodes, 'episode')}.", err=True)


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)],
    append: Annotated[bool, typer.Option("--append", help="Behind what is in the namespace.")] = False,
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    embedder: EmbedderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a memory of an exported file: all of it, or nothing.

    Example: tinymem import memory.jsonl --namespace restored
    """
    from tinymem.upkeep.importing import import_memory
    from tinymem.upkeep.progress import bar

    with bar(sys.stderr, "importing", "steps read and embedded") as progress:
        came = import_memory(path, file, namespace=namespace, embedder=embedder, append=append, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(came))
        return
    scratchpad = " and the scratchpad" if came.scratchpad else ""
    typer.echo(
        f"Imported {counted(came.steps, 'step')}, {counted(came.episodes, 'episode')}{scratchpad} into {path} "
        f"(namespace {namespace}), and embedded {counted(came.embedded, 'passage')}."
    )

"""The commands that write a memory to a file and read one: `tinymem export` and `import`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli.shared import Target, agreed, on_memory, say
from tinymem.steps.terminal import many

__all__ = ["export", "import_file"]


@on_memory(without="embedder as_json")
def export(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="[FILE|-]", help="The file to write; - is standard output.")] = Path(
        "-"
    ),
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Write the vectors too, so that an import embeds nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file without asking.")] = False,
) -> None:
    """Write a memory as lines of JSON.

    The file has everything that was added: steps, what the window shows of them, milestones, episodes and the
    scratchpad. It has no key.

    Example: tinymem export memory.jsonl
    """
    from tinymem.steps.progress import bar
    from tinymem.upkeep.exporting import export_memory

    target.check()
    to = sys.stdout if file == Path("-") else file
    if to is file and file.is_file() and not force and not agreed(f"{file} is there already. Overwrite it?"):
        say("Nothing was exported; --force overwrites without asking.", err=True)
        raise typer.Exit(1)
    with bar(sys.stderr, "exporting", "steps") as progress:
        done = export_memory(target.place, to, namespace=target.namespace, vectors=vectors, progress=progress)
    say(f"Exported {many(done.steps, 'step')} and {many(done.episodes, 'episode')}.", err=True)


@on_memory()
def import_file(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)],
) -> None:
    """Make a memory from an exported file: all of it, or nothing.

    Example: tinymem import memory.jsonl --namespace restored
    """
    from tinymem.steps.progress import bar
    from tinymem.upkeep.importing import import_memory

    path, namespace = target.place, target.namespace
    with bar(sys.stderr, "importing", "steps read and embedded") as progress:
        came = import_memory(path, file, namespace=namespace, embedder=target.embedder, progress=progress)
    scratchpad = " and the scratchpad" if came.scratchpad else ""
    target.answer(
        dataclasses.asdict(came),
        f"Imported {many(came.steps, 'step')}, {many(came.episodes, 'episode')}{scratchpad} into {target.shown} "
        f"(namespace {namespace}), and embedded {many(came.embedded, 'passage')}.",
    )

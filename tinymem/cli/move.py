"""The commands that move memories: `tinymem export`, `import`, `schema`, `migrate` and `scrub`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli.options import JsonOption
from tinymem.cli.shared import Target, confirm, on_memory, print_json, say
from tinymem.errors import InputError
from tinymem.steps.terminal import pluralize

__all__ = ["export", "import_file", "migrate", "schema", "scrub"]


@on_memory(without="embedder as_json")
def export(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="[FILE|-]", help="The file to write; - is standard output.")] = Path(
        "-"
    ),
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file without asking.")] = False,
) -> None:
    """Write a memory as lines of JSON.

    The file has everything that was added: steps, what the window shows of them, milestones, episodes and the
    scratchpad. It has no key.

    Example: tinymem export memory.jsonl
    """
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.exporting import export_memory

    to = sys.stdout if file == Path("-") else file
    if to is file and file.is_file() and not force and not confirm(f"{file} is there already. Overwrite it?"):
        say("Nothing was exported; --force overwrites without asking.", err=True)
        raise typer.Exit(1)
    with show_progress(sys.stderr, "exporting", "steps") as progress:
        done = export_memory(target.place, to, namespace=target.namespace, progress=progress)
    sys.stdout.flush()  # a full disk is said first, and nothing else then
    say(f"Exported {pluralize(done.steps, 'step')} and {pluralize(done.episodes, 'episode')}.", err=True)


@on_memory(without="")
def import_file(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)],
) -> None:
    """Make a memory from an exported file: all of it, or nothing.

    Example: tinymem import memory.jsonl --namespace restored
    """
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.importing import import_memory

    path, namespace = target.place, target.namespace
    with show_progress(sys.stderr, "importing", "steps read and embedded") as progress:
        came = import_memory(path, file, namespace=namespace, embedder=target.embedder, progress=progress)
    scratchpad = " and the scratchpad" if came.scratchpad else ""
    target.answer(
        dataclasses.asdict(came),
        f"Imported {pluralize(came.steps, 'step')}, {pluralize(came.episodes, 'episode')}{scratchpad} "
        f"into {target.display_path} (namespace {namespace}), and embedded {pluralize(came.embedded, 'passage')}.",
    )


# -- databases --------------------------------------------------------------------------------------------------------


def schema() -> None:
    """Print the SQL that makes the tables of a database, for psql.

    The first memory that is opened makes them, if its user may.

    Example: tinymem schema | psql "$URL"
    """
    from tinymem.stores.journals import schema as script

    say(script(), nl=False)


def migrate(
    source: Annotated[str, typer.Option("--from", metavar="PLACE", help="Copy from this folder or URL")],
    target: Annotated[str, typer.Option("--to", metavar="PLACE", help="to this folder or URL.")],
    namespace: Annotated[str | None, typer.Option("--namespace", help="Only this namespace. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy memories between folders and databases.

    Each namespace is copied whole or not at all. After an interruption, the same command goes on with those that are
    not there yet. The copy is embedded when it is opened.

    Example: tinymem migrate --from ./memory --to "$URL"
    """
    from tinymem.steps.progress import show_progress
    from tinymem.upkeep.migration import migrate as copy

    with show_progress(sys.stderr, "copying", "steps") as progress:
        done = copy(source, target, namespace=namespace, progress=progress)
    lines = [f"{copied.namespace}: {pluralize(copied.steps, 'step')} in both places." for copied in done]
    lines.append("The copy is embedded when it is opened.")
    if as_json:
        print_json([*map(dataclasses.asdict, done)])
    else:
        say("\n".join(lines))


@on_memory(without="namespace embedder")
def scrub(target: Target) -> None:
    """Write all tables of a database again, so that nothing in its files is left of what was forgotten.

    Nobody can use the memories meanwhile. What the server's log and backups keep, they keep. A folder needs no scrub.

    Example: tinymem scrub --path "$URL"
    """
    from tinymem.stores.journals import scrub_shared

    if not isinstance(place := target.place, str):
        raise InputError(f"{place} is a folder: what is forgotten there is gone from its files at once")
    before, after = scrub_shared(place)
    target.answer({"before": before, "after": after}, f"The tables take {after:,} bytes, after {before:,}.")

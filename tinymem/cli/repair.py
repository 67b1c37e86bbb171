"""The commands that look after a memory's files: `tinymem doctor`, `rebuild` and `salvage`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli.options import MEMORY, JsonOption, NamespaceOption, PathOption, StoreOption
from tinymem.cli.shared import check_memory, print_json
from tinymem.steps.terminal import many

__all__ = ["doctor", "rebuild", "salvage"]


def doctor(
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    store: StoreOption = "chroma",
    as_json: JsonOption = False,
) -> None:
    """Check a memory's files: the journal, its full-text index, and the index of vectors.

    Nothing is changed. Each finding says what to do; exit status 1 if there is one.

    Example: tinymem doctor --path ./memory
    """
    from tinymem.upkeep.diagnosis import doctor as examine

    check_memory(path, namespace)
    found = examine(path, namespace, store=store)
    if as_json:
        print_json({"sound": found.sound, **dataclasses.asdict(found)})
    else:
        for finding in found.findings:
            typer.echo(str(finding))
        looked_at = ", ".join(_amount(name, value) for name, value in found.counts.items())
        typer.echo(f"{'Sound' if found.sound else many(len(found.findings), 'finding')}: {looked_at or 'nothing'}.")
    raise typer.Exit(0 if found.sound else 1)


def rebuild(
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    store: StoreOption = "chroma",
    as_json: JsonOption = False,
) -> None:
    """Make a memory's index again from the vectors in its journal; nothing is embedded.

    Example: tinymem rebuild --path ./memory
    """
    from tinymem.upkeep.diagnosis import rebuild as remake

    check_memory(path, namespace)
    vectors = remake(path, namespace, store=store)
    if as_json:
        print_json({"vectors": vectors})
    elif vectors:
        typer.echo(f"The index was made again, of {many(vectors, 'vector')}.")
    else:
        typer.echo("There is no index to make: a memory of this size is searched exactly.")


def salvage(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the steps, a line of JSON each.")],
    path: Annotated[
        Path, typer.Option("--path", envvar="TINYMEM_PATH", help="The memory's folder, or a journal.db.")
    ] = MEMORY,
    namespace: NamespaceOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Read the steps of a damaged memory that can still be read. Nothing in its folder is changed.

    No process may have the memory open. Exit status 1 if no step could be read.

    Example: tinymem salvage steps.jsonl --path ./memory
    """
    from tinymem.upkeep.rescue import salvage_to

    if not path.exists():
        check_memory(path, namespace)  # says what to type
    done = salvage_to(file, path, namespace)
    if as_json:
        print_json(done._asdict())
    else:
        is_or_are = "is" if done.missing == 1 else "are"
        gaps = f"; {done.missing:,} before the last {is_or_are} missing: damaged, or forgotten earlier"
        typer.echo(f"Wrote {many(done.steps, 'step')} to {file}{gaps if done.missing else ''}.")
    raise typer.Exit(0 if done.steps else 1)


def _amount(name: str, value: int) -> str:
    """An amount in words, as "1 step" or "3 in index"."""
    name = name.replace("_", " ")
    return many(value, name.removesuffix("s")) if name.endswith("s") else f"{value:,} {name}"

"""The commands that look after a memory's files: `tinymem doctor` and `tinymem rebuild`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from tinymem.cli_options import JsonOption, NamespaceOption, PathOption

__all__ = ["doctor", "rebuild"]

MEMORY = Path("memory")
StoreOption = Annotated[
    str,
    typer.Option("--store", envvar="TINYMEM_STORE", help='The store of the index, as in "chroma:http://host:8000".'),
]


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
    from tinymem.diagnosis import doctor as examine

    found = examine(path, namespace, store=store)
    if as_json:
        typer.echo(json.dumps({"sound": found.sound, **dataclasses.asdict(found)}))
    else:
        for finding in found.findings:
            typer.echo(str(finding))
        looked_at = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in found.counts.items())
        typer.echo(f"{'Sound' if found.sound else f'{len(found.findings)} findings'}: {looked_at or 'nothing'}.")
    raise typer.Exit(0 if found.sound else 1)


def rebuild(
    path: PathOption = MEMORY,
    namespace: NamespaceOption = "default",
    store: StoreOption = "chroma",
    as_json: JsonOption = False,
) -> None:
    """Make a memory's index anew from the vectors in its journal; nothing is embedded.

    Example: tinymem rebuild --path ./memory
    """
    from tinymem.diagnosis import rebuild as make_anew

    vectors = make_anew(path, namespace, store=store)
    if as_json:
        typer.echo(json.dumps({"vectors": vectors}))
    elif vectors:
        typer.echo(f"The index was made anew, of {vectors:,} vectors.")
    else:
        typer.echo("There is no index to make: a memory of this size is searched exactly.")

"""The options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tinymem.errors import InputError

__all__ = [
    "HOME", "MEMORY", "EmbedderOption", "FilterOptions", "JsonOption", "NamespaceOption", "PathOption", "StoreOption",
    "parse_where",
]  # fmt: skip

MEMORY = "memory"  # the default folder
HOME = "~/.tinymem"  # the memory that agents are given
TIME = "ISO 8601; UTC where it has no zone."

PathOption = Annotated[
    str,
    typer.Option(
        "--path",
        envvar="TINYMEM_PATH",
        metavar="PATH",
        help="The folder of the memory, or the address of a database.",
    ),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", envvar="TINYMEM_NAMESPACE", help="The namespace in the memory.")
]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="TINYMEM_EMBEDDER",
        help="The embedder, such as openai:NAME. Default: the one that the memory was written with; static for a new "
        "memory.",
    ),
]
StoreOption = Annotated[
    str,
    typer.Option("--store", envvar="TINYMEM_STORE", help='The store of the index, such as "chroma:http://host:8000".'),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to standard output.")]


@dataclass(frozen=True)
class FilterOptions:
    """The options by which commands choose steps."""

    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Only steps from then on. {TIME}")] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only steps up to then; a day is all of it.")] = None
    session: Annotated[str | None, typer.Option(help="Only steps of this session.")] = None
    speaker: Annotated[str | None, typer.Option(help="Only what this person said.")] = None
    tool: Annotated[str | None, typer.Option(help="Only steps that call this tool.")] = None
    type: Annotated[str | None, typer.Option(help='Only steps of this type, such as "action".')] = None
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only steps with this in their metadata; several may be given."),
    ] = None

    def given(self) -> dict[str, Any]:
        """Return the filters as the calls of a memory take them."""
        return {**vars(self), "where": parse_where(self.where)}


def parse_where(given: list[str] | None) -> dict[str, Any] | None:
    """Parse pairs of key and value; a value is JSON (3, true), or else text.

    Raises:
        InputError: One has no key, or no sign between.
    """
    parsed: dict[str, Any] = {}
    for pair in given or ():
        key, sign, text = pair.partition("=")
        if not key or not sign:
            raise InputError(f"it must be KEY=VALUE, such as user=ann, not {pair!r:.80}")
        try:
            parsed[key] = json.loads(text)
        except (ValueError, RecursionError):
            parsed[key] = text
    return parsed or None

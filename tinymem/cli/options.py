"""The options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tinymem.errors import InputError

__all__ = [
    "HOME", "MEMORY", "BudgetOption", "EmbedderOption", "JsonOption", "NamespaceOption", "PathOption",
    "QuestionArgument", "SessionOption", "SinceOption", "SpeakerOption", "StoreOption", "ToolOption", "TypeOption",
    "UntilOption", "WhereOption", "parse_where",
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
BudgetOption = Annotated[int, typer.Option("--max-tokens", min=1, help="The token budget of the excerpts.")]
QuestionArgument = Annotated[
    list[str], typer.Argument(metavar="QUESTION", help="What to look for, in your own words, quoted or not.")
]

SessionOption = Annotated[str | None, typer.Option("--session", help="Only steps of this session.")]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="TIME", help=f"Only steps from then on. {TIME}")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only steps up to then.")]
SpeakerOption = Annotated[str | None, typer.Option("--speaker", help="Only what this person said.")]
ToolOption = Annotated[str | None, typer.Option("--tool", help="Only steps that call this tool.")]
TypeOption = Annotated[str | None, typer.Option("--type", help='Only steps of this type, such as "action".')]
WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="Only steps with this in their metadata; several may be given."),
]


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

"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["MEMORY", "EmbedderOption", "JsonOption", "NamespaceOption", "PathOption"]

MEMORY = Path("memory")  # where a memory is, unless said otherwise

PathOption = Annotated[Path, typer.Option("--path", envvar="TINYMEM_PATH", help="The memory's folder.")]
NamespaceOption = Annotated[str, typer.Option("--namespace", envvar="TINYMEM_NAMESPACE", help="Whose memory it is.")]
EmbedderOption = Annotated[
    str,
    typer.Option(
        "--embedder",
        envvar="TINYMEM_EMBEDDER",
        help="static, sentence-transformers:NAME, openai:NAME: the one that the memory is written with.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to standard output.")]

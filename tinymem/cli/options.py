"""The options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tinymem.errors import InputError

__all__ = ["HOME", "JsonOption", "StoreOption", "parse_where"]

HOME = "~/.tinymem"  # the memory that agents are given

StoreOption = Annotated[
    str,
    typer.Option("--store", envvar="TINYMEM_STORE", help='The store of the index, such as "chroma:http://host:8000".'),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, to standard output.")]


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

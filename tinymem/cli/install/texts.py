"""Settings files as text: plain JSON is read and written with its indent, TOML keeps its layout and comments."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

__all__ = ["read_json", "read_toml", "write_json", "write_toml"]

_INDENT = re.compile(r"\{\s*?\n([ \t]+)\S")
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


def read_json(text: str) -> dict[str, Any]:
    """Return the object in a text; an empty one for no text.

    Raises:
        InputError: It is not one plain JSON object: comments are none.
    """
    try:
        settings = json.loads(text if text.strip() else "{}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not plain JSON ({error})") from error
    if not isinstance(settings, dict):
        raise InputError("it should be one JSON object")
    return settings


def write_json(settings: dict[str, Any], before: str) -> str:
    """Return settings as text, with the indent, the escapes and the line ends that were there before."""
    indent = _INDENT.search(before)
    try:
        text = json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=before.isascii(), allow_nan=False)
    except ValueError as error:
        raise InputError(f"it has a number that JSON cannot write ({error})") from error
    return f"{text}\n".replace("\n", "\r\n" if "\r\n" in before else "\n")


def read_toml(text: str) -> TOMLDocument:
    """Parse settings in TOML.

    Raises:
        InputError: They are no TOML.
        MissingExtraError: tomlkit is not installed.
    """
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError as error:
        raise MissingExtraError("editing TOML", "mcp") from error
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise InputError(f"it is not plain TOML ({error})") from error


def write_toml(settings: TOMLDocument, before: str) -> str:
    """Return settings as text; comments that stood behind a table that is gone go to the end."""
    text = settings.as_string()
    lost = [comment for comment in _COMMENT.findall(before) if comment not in text]
    text += "".join(f"{comment}\n" for comment in lost)
    if read_toml(text).unwrap() != settings.unwrap():
        raise InputError("editing it would have changed more than what is ours")
    return text

"""The table of our server in Codex's settings: put, changed and taken out, while the rest keeps its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

__all__ = ["HEADER", "OUTER", "put_table", "read_toml", "remove_table", "render_table"]

OUTER, NAME = "mcp_servers", "tinymem"
HEADER = f"[{OUTER}.{NAME}]"
_SECTION = re.compile(rf"^[ \t]*\[{OUTER}\.{NAME}[].].*\n?(?:[ \t]*[^ \t\[\n].*\n?|[ \t]*\n)*", re.MULTILINE)
_TRIVIA = re.compile(r"(?:^[ \t]*(?:#.*)?\r?\n?)+\Z", re.MULTILINE)  # comments and empty lines at the end
_EMPTY_LINE = re.compile(r"(?<=\n)\r?\n\Z")
_LINE_END = re.compile(r"\r?\n\Z")


def read_toml(text: str) -> TOMLDocument:
    """Parse settings in TOML.

    Raises:
        InputError: They are not TOML, or would not come out as they are.
        MissingExtraError: tomlkit is not installed.
    """
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError as error:
        raise MissingExtraError("editing TOML", "mcp") from error
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise InputError(f"it is not plain TOML ({error})") from error
    if tomlkit.dumps(document) != text:
        raise InputError("it has parts that tomlkit would write in another way")
    return document


def put_table(text: str | None, value: dict[str, Any]) -> str:
    """Return the settings with our table behind the rest, or with these values in the table that is there.

    Raises:
        InputError: Something else stands there, or a table that lets nothing stand behind it.
    """
    document = read_toml(text or "")
    import tomlkit
    from tomlkit.items import InlineTable

    tables = document.get(OUTER, {})
    if not isinstance(tables, dict) or not isinstance(tables.get(NAME, {}), dict):
        raise InputError(f"{OUTER} in it should be a table, and {NAME} a table in it")
    if NAME in tables:
        for key, new in value.items():
            if tables[NAME].get(key) != new:
                tables[NAME][key] = new
        return document.as_string()
    if text is None:
        return render_table(value)
    if not isinstance(tables, InlineTable):
        return _append(text, value)
    inner = tomlkit.inline_table()  # no table of its own can follow one that is written on a line
    inner.update(value)
    document[OUTER][NAME] = inner
    after = document.as_string()
    if remove_table(after) != text:
        raise InputError(f"{OUTER} in it is written in a way that cannot be added to")
    return after


def _append(text: str, value: dict[str, Any]) -> str:
    """Put the table behind a text, after an empty line; where the text's last line has no end, the table's has none."""
    newline = "\r\n" if text[: text.rfind("\n") + 1].endswith("\r\n") else "\n"
    block = render_table(value).replace("\n", newline)
    if text.endswith("\n"):
        return f"{text}{newline}{block}"
    block = block.removesuffix(newline)
    return f"{text}{newline}{newline}{block}" if text else block


def render_table(value: dict[str, Any]) -> str:
    """Return our table as TOML."""
    import tomlkit

    lines = [f"{key} = {tomlkit.item(inner).as_string()}" for key, inner in value.items()]
    return "".join(f"{line}\n" for line in (HEADER, *lines))


def remove_table(text: str) -> str | None:
    """Return the settings without our table; None for a file that `put_table` made."""
    cut = text
    while NAME in (document := read_toml(cut)).get(OUTER, {}):
        sections = [*_SECTION.finditer(cut)]
        if not sections:  # it is no table of its own
            del document[OUTER][NAME]
            return document.as_string()
        cut = _cut(cut, sections[-1])
    return None if not cut and text.endswith("\n") else cut


def _cut(text: str, section: re.Match[str]) -> str:
    """Take a section out, and the empty line that `put_table` puts before it; comments behind it stay."""
    end = section.start() + len(_TRIVIA.sub("", section[0]))
    before, after = _EMPTY_LINE.sub("", text[: section.start()]), text[end:]
    if not after and not text.endswith("\n"):
        before = _LINE_END.sub("", before)
    return before + after

"""The table of our server in Codex's settings: put, changed and taken out, while the rest keeps its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

__all__ = ["put_table", "read_toml", "remove_table", "render_table"]

_HEADER = re.compile(
    r"^[ \t]*\[.*(?:\n|\Z)", re.MULTILINE
)  # or a line in a value that looks like one: results are checked
_TRIVIA = re.compile(r"[ \t]*(#.*)?\r?\n?")  # a comment, or an empty line
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


def put_table(text: str | None, path: tuple[str, str], value: dict[str, Any]) -> str:
    """Return the settings with a table behind the rest, or with these values in the table that is there.

    Raises:
        InputError: Something else stands there, or a table that lets nothing stand behind it.
    """
    document = read_toml(text or "")
    from tomlkit.items import InlineTable

    outer, name = path
    tables = document.get(outer, {})
    if not isinstance(tables, dict) or not isinstance(tables.get(name, {}), dict):
        raise InputError(f"{outer} in it should be a table, and {name} a table in it")
    if name in tables:
        for key, new in value.items():
            if tables[name].get(key) != new:
                tables[name][key] = new
        return document.as_string()
    if text is None:
        return render_table(path, value)
    if isinstance(tables, InlineTable):
        return _put_inline(text, path, value)
    return _append(text, render_table(path, value, _newline(text)), _newline(text))


def _put_inline(text: str, path: tuple[str, str], value: dict[str, Any]) -> str:
    """Put a table into one that is written on a line, which no table of its own can follow."""
    import tomlkit

    document, inner = read_toml(text), tomlkit.inline_table()
    inner.update(value)
    document[path[0]][path[1]] = inner
    after = document.as_string()
    if remove_table(after, path) != text:
        raise InputError(f"{path[0]} in it is written in a way that cannot be added to")
    return after


def _append(text: str, block: str, newline: str) -> str:
    """Put a block behind a text, after an empty line; where the text's last line has no end, the block's has none."""
    if text.endswith("\n"):
        return f"{text}{newline}{block}"
    block = block[: -len(newline)]
    return f"{text}{newline}{newline}{block}" if text else block


def _newline(text: str) -> str:
    return "\r\n" if text[: text.rfind("\n") + 1].endswith("\r\n") else "\n"


def render_table(path: tuple[str, str], value: dict[str, Any], newline: str = "\n") -> str:
    """Return a table as TOML."""
    import tomlkit

    lines = [f"{key} = {tomlkit.item(inner).as_string()}" for key, inner in value.items()]
    return "".join(f"{line}{newline}" for line in (f"[{'.'.join(path)}]", *lines))


def remove_table(text: str, path: tuple[str, str]) -> str | None:
    """Return the settings without the table; None for a file that `put_table` made."""
    cut = text
    section = _find(cut, path)
    while section is not None:
        cut = _cut(cut, *section)
        section = _find(cut, path)
    document = read_toml(cut)
    if path[1] in document.get(path[0], {}):  # not as a table of its own
        del document[path[0]][path[1]]
        return document.as_string()
    return None if not cut and text.endswith("\n") else cut


def _find(text: str, path: tuple[str, str]) -> tuple[int, int] | None:
    """Find a table at the path or below it: from the line of its name to its last value."""
    starts = [found.start() for found in _HEADER.finditer(text)]
    for index, start in enumerate(starts):
        if path[1] not in text[start:].partition("\n")[0]:
            continue
        for end in [*starts[index + 1 :], len(text)]:
            section = _without_trivia(text[start:end])
            try:
                inner = read_toml(section).unwrap()
            except InputError:
                continue  # a value goes on behind it
            if list(inner) == [path[0]] and list(inner[path[0]]) == [path[1]]:
                return start, start + len(section)
            break
    return None


def _without_trivia(section: str) -> str:
    """Take comments and empty lines off the end."""
    lines = section.splitlines(keepends=True)
    while _TRIVIA.fullmatch(lines[-1]):
        lines.pop()
    return "".join(lines)


def _cut(text: str, start: int, end: int) -> str:
    """Take a section out, and the empty line that `put_table` puts before it."""
    before, after = _EMPTY_LINE.sub("", text[:start]), text[end:]
    if not after and not text.endswith("\n"):
        before = _LINE_END.sub("", before)
    return before + after

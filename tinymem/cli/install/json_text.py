"""JSON that is edited where it stands: what an edit does not name keeps its bytes, comments and line ends too."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from tinymem.errors import InputError

__all__ = ["MARK", "JsonItem", "JsonText", "Path"]

Path = tuple[str | int, ...]  # keys of objects and places in arrays, from the outermost value

SPACE = " \t\r\n"
MARK = "\ufeff"  # some editors of Windows begin a file with it
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)'
_COMMENT = re.compile(rf"{_STRING}|(//[^\r\n]*|/\*.*?(?:\*/|\Z))", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|(,)(?=[{SPACE}]*[\]}}])", re.DOTALL)
_UNIT = re.compile(r"\{\s*?\n([ \t]+)\S")


class JsonItem(NamedTuple):
    """A member of an object or an element of an array, and where it stands in the text."""

    key: str | int
    value: Any
    start: int
    value_start: int
    end: int


class _Container(NamedTuple):
    """The items of an object or an array, and where its brackets stand."""

    opening: int
    items: list[JsonItem]
    closing: int


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(
    parse_int="number {}".format, parse_float="number {}".format, parse_constant=_refuse_constant
)  # numbers as they are written: 1e400 is not Infinity


class JsonText:
    """The text of a settings file in JSON.

    Args:
        text: The text; None where there is no file.
        has_comments: Whether it may have comments, and commas behind the last items.

    Raises:
        InputError: It is not a JSON object.
    """

    def __init__(self, text: str | None, has_comments: bool = False) -> None:
        self._has_comments = has_comments
        self.changes: list[str] = []  # what was put and taken out, in words
        self.is_removed = False  # True for a file that `put` made, when what it put has been taken out
        self._is_new = not text or not text.strip(SPACE + MARK)
        self._parse(text if text and not self._is_new else "{}\n")

    def _parse(self, text: str) -> None:
        self.text = text
        self._plain = f" {text[1:]}" if text.startswith(MARK) else text
        self._strict = self._plain  # of the same length: its places are those of the text
        if self._has_comments:
            self._plain = _blank(self._plain, _COMMENT)
            self._strict = _blank(self._plain, _LAST_COMMA)
        self._root = self._skip(0)
        try:
            self.value, end = _DECODER.raw_decode(self._strict, self._root)
        except (ValueError, RecursionError) as error:
            raise InputError(f"it is not plain JSON ({error})") from error
        if not isinstance(self.value, dict) or self._strict[end:].strip(SPACE):
            raise InputError("it should be one JSON object")

    # -- reading ------------------------------------------------------------------------------------------------------

    def find(self, *path: str | int) -> JsonItem | None:
        """Return what stands at the path; of members with the same name, the last, which is the one that counts."""
        trail = self._trail(path)
        return trail[-1][1] if len(trail) == len(path) else None

    def _trail(self, path: Path) -> list[tuple[_Container, JsonItem]]:
        """Return the containers on the way along the path and the items in them, as far as they are there."""
        opening = self._root
        trail: list[tuple[_Container, JsonItem]] = []
        for key in path:
            if self._plain[opening] not in "{[":
                break
            container = self._container(opening)
            same = [item for item in container.items if item.key == key and isinstance(item.key, type(key))]
            if not same:
                break
            trail.append((container, same[-1]))
            opening = same[-1].value_start
        return trail

    def _container(self, opening: int) -> _Container:
        items: list[JsonItem] = []
        start = self._skip(opening + 1)
        while self._plain[start] not in "}]":
            key: str | int = len(items)
            value_start = start
            if self._plain[opening] == "{":
                key, end = scanstring(self._plain, start + 1)
                value_start = self._skip(self._skip(end) + 1)
            value, end = _DECODER.raw_decode(self._strict, value_start)
            items.append(JsonItem(key, value, start, value_start, end))
            start = self._skip(end)
            if self._plain[start] == ",":
                start = self._skip(start + 1)
        return _Container(opening, items, start)

    def _skip(self, start: int) -> int:
        """Return the place of the first character from `start` on that is neither space nor comment."""
        rest = self._plain[start:].lstrip(SPACE)
        return len(self._plain) - len(rest)

    def _space_before(self, place: int) -> int:
        """Return where the spaces before a place begin."""
        return len(self.text[:place].rstrip(SPACE))

    # -- editing ------------------------------------------------------------------------------------------------------

    def put(self, path: Path, value: Any) -> None:
        """Put a value at a path where there is none, behind its neighbours; objects on the way are made.

        What is made has a new line after its bracket, what was empty before has none: so `remove` knows which to take
        out with the last item in it.
        """
        self._note("+", path, value)
        trail = self._trail(path)
        key, *rest = path[len(trail) :]
        for name in reversed(rest):
            value = {name: value}
        container = self._container(trail[-1][1].value_start if trail else self._root)
        place, before, gap, after = container.opening + 1, "", "", ""
        if self._is_new and not container.items:
            gap, after = "\n  ", "\n"
        elif container.items:
            last = container.items[-1]
            place, before, gap = last.end, ",", self.text[self._space_before(last.start) : last.start] or " "
        indent = gap.rpartition("\n")[2] if "\n" in gap else self._indent(container.opening)
        name = f"{json.dumps(key, ensure_ascii=False)}: " if self._plain[container.opening] == "{" else ""
        self._edit(place, place, f"{before}{gap}{name}{self._render(value, indent)}{after}")

    def replace(self, path: Path, value: Any) -> None:
        """Put a value in the place of the one at the path."""
        self._note("+", path, value)
        item = self._trail(path)[-1][1]
        self._edit(item.value_start, item.end, self._render(value, self._indent(item.value_start)))

    def remove(self, path: Path) -> None:
        """Take out what stands at the path, and what `put` made around it."""
        self._note("-", path)
        trail = self._trail(path)
        while trail and self._was_made_for_item(*trail[-1]):
            trail.pop()
        if not trail:
            self.is_removed = True
            return
        container, item = trail[-1]
        commas = [self._skip(item.end)]
        if self._plain[commas[0]] != ",":
            place = container.items.index(item)
            commas = [self._skip(before.end) for before in container.items[:place][-1:]]
        text = self.text
        for start, end in sorted([(self._space_before(item.start), item.end), *((c, c + 1) for c in commas)])[::-1]:
            text = text[:start] + text[end:]
        self._parse(text)

    def _was_made_for_item(self, container: _Container, item: JsonItem) -> bool:
        """Return True where `put` made the container: it holds nothing else, and a new line stands before the item."""
        before, after = self.text[container.opening + 1 : item.start], self.text[item.end : container.closing]
        outside = self.text[: container.opening] + self.text[container.closing + 1 :]
        is_file = container.opening == self._root and not outside.strip(SPACE + MARK)
        is_inner = container.opening != self._root
        return "\n" in before and not (before + after).strip(SPACE) and (is_file or is_inner)

    def _note(self, sign: str, path: Path, *values: Any) -> None:
        name = ".".join(map(str, path))
        self.changes.append(": ".join([f"{sign} {name}", *(json.dumps(value, ensure_ascii=False) for value in values)]))

    def _indent(self, place: int) -> str:
        """Return the spaces with which the line of a place begins."""
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place].removeprefix(MARK)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _render(self, value: Any, indent: str) -> str:
        """Return a value with its items on lines of their own, as deep as the outermost ones of the text."""
        found = _UNIT.match(self.text, self._root)
        text = json.dumps(value, indent=found[1] if found else "  ", ensure_ascii=False)
        newline = "\r\n" if "\r\n" in self.text else "\n"
        return text.replace("\n", f"{newline}{indent}")

    def _edit(self, start: int, end: int, new: str) -> None:
        self._parse(self.text[:start] + new + self.text[end:])


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with spaces for what the pattern's group finds, its line ends kept."""
    return pattern.sub(lambda found: re.sub(r"[^\r\n]", " ", found[1]) if found[1] else found[0], text)

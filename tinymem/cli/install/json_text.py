"""JSON that is edited where it stands: what an edit does not name keeps its bytes, comments and line ends too."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable
from json.decoder import scanstring  # type: ignore[attr-defined]
from operator import itemgetter
from typing import Any, NamedTuple

from tinymem.errors import InputError

__all__ = ["MARK", "Item", "JsonText", "Path"]

Path = tuple[str | int, ...]  # keys of objects and places in arrays, from the outermost value

SPACE = " \t\r\n"
MARK = "\ufeff"  # some editors of Windows begin a file with it
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)'
_COMMENT = re.compile(rf"{_STRING}|(//[^\r\n]*|/\*.*?(?:\*/|\Z))", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|(,)(?=[{SPACE}]*[\]}}])", re.DOTALL)


class Item(NamedTuple):
    """A member of an object or an element of an array, and where it stands in the text."""

    key: str | int
    value: Any
    start: int
    value_start: int
    end: int


class _Container(NamedTuple):
    """The items of an object or an array, and where its brackets stand."""

    opening: int
    items: list[Item]
    closing: int


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(
    parse_int="number {}".format, parse_float="number {}".format, parse_constant=_refuse_constant
)  # numbers as they are written: 1e400 is not Infinity


class JsonText:
    """The text of a settings file in JSON.

    Args:
        text: The text; None where there is no file. Where it holds no value yet, the first `put` makes an object.
        has_comments: Whether it may have comments, and commas behind the last items.

    Raises:
        InputError: It is not a JSON object.
    """

    def __init__(self, text: str | None, has_comments: bool = False) -> None:
        self._has_comments = has_comments
        self.changes: list[str] = []  # what was put and taken out, in words
        self.is_removed = False  # True for a file that `put` made, when what it put has been taken out
        self._around_first = ("", "")  # what stands around the first item of an object that was empty
        if text is None:
            text, self._around_first = "{}\n", ("\n  ", "\n")
        elif not text.strip(SPACE + MARK):
            text, self._around_first = f"{text}{{}}", (" ", " ")
        self._parse(text)

    def _parse(self, text: str) -> None:
        self.text = text
        plain = f" {text[1:]}" if text.startswith(MARK) else text
        self._last_commas: list[int] = []
        if self._has_comments:
            plain = _blank(plain, _COMMENT)
            self._last_commas = [found.start(1) for found in _LAST_COMMA.finditer(plain) if found[1]]
            plain = _blank(plain, _LAST_COMMA)
        self._plain = plain  # of the same length: its places are those of the text
        self._root = self._skip(0)
        try:
            self.value, end = _DECODER.raw_decode(self._plain, self._root)
        except (ValueError, RecursionError) as error:
            raise InputError(f"it is not plain JSON ({error})") from error
        if not isinstance(self.value, dict) or self._plain[end:].strip(SPACE):
            raise InputError("it should be one JSON object")

    # -- reading ------------------------------------------------------------------------------------------------------

    def find(self, *path: str | int) -> Item | None:
        """Return what stands at the path; of members with the same name, the last, which is the one that counts."""
        trail = self._trail(path)
        return trail[-1][1] if len(trail) == len(path) else None

    def _trail(self, path: Path) -> list[tuple[_Container, Item]]:
        """Return the containers on the way along the path and the items in them, as far as they are there."""
        opening = self._root
        trail: list[tuple[_Container, Item]] = []
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
        items: list[Item] = []
        start = self._skip(opening + 1)
        while self._plain[start] not in "}]":
            key: str | int = len(items)
            value_start = start
            if self._plain[opening] == "{":
                key, end = scanstring(self._plain, start + 1)
                value_start = self._skip(self._skip(end) + 1)
            value, end = _DECODER.raw_decode(self._plain, value_start)
            items.append(Item(key, value, start, value_start, end))
            start = self._skip(end)
            if self._plain[start] == ",":
                start = self._skip(start + 1)
        return _Container(opening, items, start)

    def _skip(self, start: int) -> int:
        """Return the place of the first character from `start` on that is no space."""
        while self._plain[start : start + 1] and self._plain[start] in SPACE:
            start += 1
        return start

    def _space_before(self, place: int) -> int:
        """Return where the spaces before a place begin."""
        while place and self.text[place - 1] in SPACE:
            place -= 1
        return place

    # -- editing ------------------------------------------------------------------------------------------------------

    def put(self, path: Path, value: Any) -> None:
        """Put a value at a path where there is none, behind its neighbours; objects on the way are made.

        What is made has a space or a new line after its bracket, what was empty before has none: so `remove` knows
        which to take out with the last item in it.
        """
        self._note("+", path, value)
        trail = self._trail(path)
        opening = trail[-1][1].value_start if trail else self._root
        key, *rest = path[len(trail) :]
        for name in reversed(rest):
            value = {name: value}
        container = self._container(opening)
        gap = self._gap(container)
        indent = gap.rpartition("\n")[2] if "\n" in gap else self._indent(opening)
        is_pretty = "\n" in gap if container.items else self._is_pretty
        shown = self._render(value, indent, is_pretty)
        if self._plain[opening] == "{":
            shown = f"{json.dumps(key, ensure_ascii=False)}: {shown}"
        if not container.items:
            after = self._around_first[1] if opening == self._root else ""
            self._edit([(opening + 1, opening + 1, f"{gap}{shown}{after}")])
            return
        last, end = container.items[-1], self._space_before(container.closing)
        if self._last_comma(last.end, container.closing) is not None:
            self._edit([(end, end, f"{gap}{shown},")])
        else:
            self._edit([(end, end, f"{gap}{shown}"), (last.end, last.end, ",")])

    def _note(self, sign: str, path: Path, *values: Any) -> None:
        name = ".".join(map(str, path))
        self.changes.append(": ".join([f"{sign} {name}", *(json.dumps(value, ensure_ascii=False) for value in values)]))

    @property
    def _is_pretty(self) -> bool:
        """True where the text has a line for each item, or has none yet."""
        root = self._container(self._root)
        return not root.items or "\n" in self.text[root.opening : root.closing]

    def _gap(self, container: _Container) -> str:
        """Return what stands before a new item: what stands before the last one."""
        if not container.items:
            return self._around_first[0] if container.opening == self._root else ""
        last = container.items[-1]
        gap = self.text[self._space_before(last.start) : last.start]
        has_comment = "//" in self.text[last.end : container.closing]  # what comes behind it on a line is lost
        has_lines = "\n" in self.text[container.opening : container.closing]
        if "\n" not in gap and (has_comment or (not gap and has_lines)):
            return f"{self._newline}{self._indent(container.opening)}{self._unit}"
        return gap or " "

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    @property
    def _unit(self) -> str:
        """The indentation of the outermost items."""
        found = re.match(r"\{\s*?\n([ \t]+)\S", self.text[self._root :])
        return found[1] if found else "  "

    def _indent(self, place: int) -> str:
        """Return the spaces with which the line of a place begins."""
        begin = self.text.rfind("\n", 0, place) + 1
        line = self.text[begin:place].removeprefix(MARK)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _render(self, value: Any, indent: str, is_pretty: bool) -> str:
        if is_pretty:
            text = json.dumps(value, indent=self._unit, ensure_ascii=False)
            return text.replace("\n", f"{self._newline}{indent}")
        if isinstance(value, dict) and value:
            members = (f"{json.dumps(key)}: {self._render(inner, indent, False)}" for key, inner in value.items())
            return f"{{ {', '.join(members)} }}"
        if isinstance(value, list) and value:
            return f"[ {', '.join(self._render(inner, indent, False) for inner in value)} ]"
        return json.dumps(value, ensure_ascii=False)

    def replace(self, path: Path, value: Any) -> None:
        """Put a value in the place of the one at the path."""
        self._note("+", path, value)
        item = self._trail(path)[-1][1]
        has_lines = "\n" in self.text[item.value_start : item.end]
        shown = self._render(value, self._indent(item.value_start), has_lines)
        self._edit([(item.value_start, item.end, shown)])

    def remove(self, path: Path) -> None:
        """Take out what stands at the path, and what `put` made around it."""
        self._note("-", path)
        trail = self._trail(path)
        while len(trail) > 1 and self._was_made_for_item(*trail[-1]):
            trail.pop()
        container, item = trail[-1]
        cuts = [(self._space_before(item.start), item.end, "")]
        place = container.items.index(item)
        comma = self._last_comma(item.end, container.closing)
        if item is not container.items[-1]:
            comma = self._skip(item.end)
        elif comma is None and place:
            comma = self._skip(container.items[place - 1].end)
        if comma is not None:
            cuts.append((comma, comma + 1, ""))
        gap, is_root_made = self.text[slice(*cuts[0][:2])], len(trail) == 1 and self._was_made_for_item(*trail[-1])
        self._edit(cuts)
        if is_root_made:
            self._drop_root(gap[: len(gap) - len(gap.lstrip(SPACE))])

    def _was_made_for_item(self, container: _Container, item: Item) -> bool:
        """Return True where `put` made the container: it holds nothing else, and spaces stand before the item."""
        around = self.text[container.opening + 1 : item.start], self.text[item.end : container.closing]
        return len(container.items) == 1 and bool(around[0]) and not "".join(around).strip(SPACE)

    def _drop_root(self, gap: str) -> None:
        """Take out an object that is empty now: of a file that was empty before, or of one that was not there."""
        root = self._container(self._root)
        before, after = self.text[: root.opening], self.text[root.closing + 1 :]
        if not (before + after).strip(SPACE + MARK):
            self.text = before + after
            self.is_removed = gap != " "

    def _edit(self, edits: Iterable[tuple[int, int, str]]) -> None:
        """Replace parts of the text; of two at the same place, the later one stands first."""
        text = self.text
        for start, end, new in sorted(edits, key=itemgetter(0), reverse=True):
            text = text[:start] + new + text[end:]
        self._parse(text)

    def _last_comma(self, start: int, end: int) -> int | None:
        """Return the place of a comma that no item follows."""
        index = bisect_left(self._last_commas, start)
        places = self._last_commas[index : index + 1]
        return places[0] if places and places[0] < end else None


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    """Return the text with spaces for what the pattern's group finds, its line ends kept."""
    return pattern.sub(lambda found: re.sub(r"[^\r\n]", " ", found[1]) if found[1] else found[0], text)

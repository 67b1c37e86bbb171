"""Calls of tools in messages, in any of the shapes that providers have, and the matching of results to them.

Some providers give calls no ids, or the same id twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["CallIds", "OpenCall", "answered_by", "name_and_arguments", "plain", "raw_calls"]

LONGEST_ID = 40  # characters of a call's id: OpenAI refuses more
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


def raw_calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the tool calls of a message as they are; the older `function_call` is one of them."""
    calls = message.get("tool_calls")
    if calls:
        return calls  # type: ignore[no-any-return]
    older = message.get("function_call")
    return [{"function": older}] if isinstance(older, Mapping) and isinstance(older.get("name"), str) else []


def name_and_arguments(call: Mapping[str, Any]) -> tuple[Any, Any]:
    """Read the tool's name and the arguments of a call, in any of the shapes that providers have."""
    kind = call.get("function") or call.get("custom") or call
    if not isinstance(kind, Mapping):
        return None, None
    for key in ("arguments", "input", "args"):
        if kind.get(key) is not None:
            return kind.get("name"), kind[key]
    return kind.get("name"), ""


def plain(text: str, longest: int) -> str:
    """Reduce `text` to letters, digits, _ and -, and to `longest` characters.

    >>> plain("functions.read:0", 64)
    'functions_read_0'
    """
    return _NOT_PLAIN.sub("_", text)[:longest]


class CallIds:
    """Ids of calls as they are sent in one request: none of them twice, in characters and a length that all take.

    Those that are given as the `first` are taken first, as they are.

    >>> ids = CallIds()
    >>> [ids.take(given) for given in ("call_0", "call_0", "functions.read:1", "", "")]
    ['call_0', 'call_0_2', 'functions_read_1', 'call', 'call_2']
    """

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._first = iter(first)
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, given: str, number: int | None = None) -> str:
        """Return an id for one more call: `given`, with `number` or a count behind it where it was used before."""
        first = next(self._first, None)
        if first is not None:
            return first
        base = name = plain(given, LONGEST_ID) or "call"
        more = self._next.get(base, 2) if number is None else number
        while name in self._used:
            suffix = f"_{more}"
            name, more = base[: LONGEST_ID - len(suffix)] + suffix, more + 1
        if number is None and name != base:
            self._next[base] = more
        self._used.add(name)
        return name

    def take_again(self, names: Sequence[tuple[str, str]], number: int | None) -> bool:
        """Take ids for calls again, as given and as they were sent; False, and nothing taken, if they would differ."""
        taken = [self.take(given, number) for given, _ in names]
        is_same = taken == [sent for _, sent in names]
        if not is_same:
            self._used.difference_update(taken)
            self._next.clear()
        return is_same


class OpenCall(NamedTuple):
    """A call that waits for its result.

    Attributes:
        id: Its id in the memory.
        name: The name of its tool; "" where that is not known any more.
        given: The id that its provider gave it; "" for none.
    """

    id: str
    name: str = ""
    given: str = ""


def answered_by(result: Mapping[str, Any], waiting: Sequence[OpenCall]) -> int | None:
    """Find the place of the call in `waiting` that the message `result` answers.

    It is the call with the id of the result; where there are no ids, the first call of the tool that the result names
    (`tool_name` or `name`), or the first of all where it names none. None where no call fits.

    >>> answered_by({"role": "tool", "tool_name": "read"}, [OpenCall("1", "list"), OpenCall("2", "read")])
    1
    """
    id, name = result.get("tool_call_id"), result.get("tool_name") or result.get("name")
    if result["role"] == "function":  # it answers a call of the time before there were ids
        return _first(waiting, lambda call: not call.given and call.name == name)
    if isinstance(id, str) and id:
        exact = _first(waiting, lambda call: id in (call.id, call.given))
        return _first(waiting, lambda call: not call.given and call.name == id) if exact is None else exact
    if id not in ("", None) or not waiting:
        return None
    if not isinstance(name, str) or not name or (len(waiting) == 1 and not waiting[0].name):
        return 0
    return _first(waiting, lambda call: call.name == name)


def _first(waiting: Sequence[OpenCall], fits: Callable[[OpenCall], bool]) -> int | None:
    return next((place for place, call in enumerate(waiting) if fits(call)), None)

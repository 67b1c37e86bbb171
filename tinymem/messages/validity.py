"""Repair of message sequences, so that OpenAI's API accepts them, and Anthropic's behind an adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from tinymem.errors import MessageError, describe_type
from tinymem.messages.answers import OpenCall, answered_by
from tinymem.messages.sendable import name_and_arguments, plain, raw_calls, sendable
from tinymem.steps.checks import check_iterable, check_strings
from tinymem.steps.content import add_label, is_empty
from tinymem.steps.step import Message

__all__ = ["CallIds", "problems", "repair", "valid"]

NO_RESULT = "[no result was recorded]"
LONGEST_ID = 40  # characters of a call's id: OpenAI refuses more
_PLACE = "\0place"  # a key under which messages carry their place through the repair


class CallIds:
    """Ids of calls as they are sent in one request: none of them twice, in characters and a length that all take.

    >>> ids = CallIds()
    >>> [ids.take(given) for given in ("call_0", "call_0", "functions.read:1", "", "")]
    ['call_0', 'call_0_2', 'functions_read_1', 'call', 'call_2']
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, given: str, number: int | None = None) -> str:
        """Return an id for one more call: `given`, with `number` or a count behind it where it was used before."""
        base = name = plain(given, LONGEST_ID) or "call"
        more = self._next.get(base, 2) if number is None else number
        while name in self._used:
            suffix = f"_{more}"
            name, more = base[: LONGEST_ID - len(suffix)] + suffix, more + 1
        if number is None and name != base:
            self._next[base] = more
        self._used.add(name)
        return name

    def give_back(self, names: Collection[str]) -> None:
        """Let these ids be used again."""
        self._used.difference_update(names)
        self._next.clear()


@dataclass
class _ToolTurn:
    """An assistant's message with calls, and the results found so far."""

    message: Message
    moved: list[Message]
    calls: list[OpenCall]
    results: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def takes(self, result: Mapping[str, Any]) -> bool:
        """Keep `result`, if it answers a call of this turn that has none yet; return True then."""
        waiting = [place for place in range(len(self.calls)) if place not in self.results]
        found = answered_by(result, [self.calls[place] for place in waiting])
        if found is not None:
            self.results[waiting[found]] = result
        return found is not None


def repair(messages: Sequence[Mapping[str, Any]], *, extra_keys: Collection[str] = ()) -> list[Message]:
    """Make `messages` a sequence that OpenAI and Anthropic accept; repairing twice changes nothing more.

    Results move to just behind their calls, in the order of the calls; results without a call and messages without
    content are left out; a call without a result gets one that says so. Each call has an id of its own, and arguments
    that are the text of a JSON object: other text is wrapped as `{"input": "..."}`. Images of results follow them in a
    user's message. Keys that are not OpenAI's are left out.

    Args:
        messages: Chat messages of any provider.
        extra_keys: Keys to keep, for providers that want them back: `"reasoning_content"` (DeepSeek), `"extra_content"`
            (Gemini), `"thinking_blocks"` and `"cache_control"` (LiteLLM).

    Raises:
        MessageError: A message is no mapping with a role.

    >>> call = {"function": {"name": "read", "arguments": {"path": "a.txt"}}}
    >>> result = {"role": "tool", "tool_name": "read", "content": "empty"}
    >>> sent = repair([{"role": "assistant", "tool_calls": [call]}, result])
    >>> sent[0]["tool_calls"][0]["function"]["arguments"], sent[1]["tool_call_id"]
    ('{"path": "a.txt"}', 'call')
    """
    return valid(_mappings(messages), CallIds().take, check_strings("extra_keys", extra_keys))


def _mappings(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Check that each message is a mapping with a role."""
    listed = list(check_iterable("messages", messages))
    for index, message in enumerate(listed):
        if not isinstance(message, Mapping) or "role" not in message:
            raise MessageError(f"must be a mapping with role and content, not {describe_type(message)}", index)
    return listed


def valid(
    messages: Sequence[Mapping[str, Any]], take: Callable[[str], str], extra_keys: Collection[str] = ()
) -> list[Message]:
    """Repair `messages`, with ids of calls from `take`."""
    entries: list[_ToolTurn | list[Message]] = []
    latest: dict[str, _ToolTurn] = {}  # by the id of a call
    turns: list[_ToolTurn] = []
    for message in messages:
        if message["role"] in ("tool", "function"):
            id = message.get("tool_call_id")
            asked = [latest[id]] if isinstance(id, str) and id in latest else reversed(turns)
            if any(turn.takes(message) for turn in asked) or message["role"] == "tool":
                continue
            message = {"role": "user", "content": add_label("Observation", message.get("content"))}
        formed, moved = sendable(message, extra_keys)
        calls = raw_calls(message)
        if calls and (message["role"] == "assistant" or not is_empty(formed.get("content"))):
            turn = _ToolTurn(formed, moved, [_open(call) for call in calls])
            turns.append(turn)
            latest |= {call.given: turn for call in turn.calls if call.given}
            entries.append(turn)
        else:
            shown = [] if is_empty(formed.get("content")) else [formed]
            if moved:  # only a user's message may have these
                where = {"type": "text", "text": f"In the message of the {message['role']}:"}
                shown.append({"role": "user", "content": [where, *moved]})
            entries.append(shown)
    return [*chain.from_iterable(_flat(entry, take, extra_keys) for entry in entries)]


def _open(call: Mapping[str, Any]) -> OpenCall:
    name, _ = name_and_arguments(call)
    id = call.get("id") or ""
    return OpenCall(id, name, id)


def _flat(entry: _ToolTurn | list[Message], take: Callable[[str], str], extra_keys: Collection[str]) -> list[Message]:
    """Return the messages of an entry; of a turn its calls, the results in their order, and their images."""
    if isinstance(entry, list):
        return entry
    pairs = zip(entry.message["tool_calls"], entry.calls, strict=True)
    sent = [{**call, "id": take(opened.given)} for call, opened in pairs]
    results, shown = [], entry.moved and [{"type": "text", "text": "In the message of the assistant:"}, *entry.moved]
    for place, call in enumerate(sent):
        result, moved = _result(entry.results.get(place), call["id"], extra_keys)
        results.append(result)
        if moved:
            what = f"What call {call['id']} returned:"
            shown = [*shown, {"type": "text", "text": what}, *moved]
    more: list[Message] = [{"role": "user", "content": shown}] if shown else []
    return [{**entry.message, "tool_calls": sent}, *results, *more]


def _result(result: Mapping[str, Any] | None, id: str, extra_keys: Collection[str]) -> tuple[Message, list[Message]]:
    if result is None:
        return {"role": "tool", "tool_call_id": id, "content": NO_RESULT}, []
    formed, moved = sendable({"content": None, **result, "role": "tool", "tool_call_id": id}, extra_keys)
    return formed, moved


def problems(messages: Sequence[Mapping[str, Any]], *, extra_keys: Collection[str] = ()) -> list[str]:
    """List the faults for which the chat APIs would refuse this sequence, as `repair` mends them; empty when valid."""
    given = _mappings(messages)
    numbered = [{**message, _PLACE: place} for place, message in enumerate(given)]
    sent = valid(numbered, CallIds().take, (*check_strings("extra_keys", extra_keys), _PLACE))
    found: list[str] = []
    last, left = -1, {*range(len(given))}
    for message in sent:
        place = message.pop(_PLACE, None)
        if place is None:
            what = "a call without a result" if message["role"] == "tool" else "files that only a user may send"
            found.append(f"message {last}: {what}")
            continue
        if place < last:
            found.append(f"message {place}: it stands between a call and its result")
        if wrong := _changed(given[place], message):
            found.append(f"message {place}: {', '.join(wrong)} in a form that the API refuses")
        left.discard(place)
        last = max(last, place)
    for place in sorted(left):
        what = "nothing in it" if given[place]["role"] != "tool" else "a tool result that answers no open call"
        found.append(f"message {place}: {what}")
    return found


def _changed(given: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
    """Return the keys that are not the same."""
    return [key for key in {**given, **sent} if given.get(key, _PLACE) != sent.get(key, _PLACE)]

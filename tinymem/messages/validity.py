"""Messages that the chat APIs accept: sequences are repaired, and each message gets the form that OpenAI's API takes.

Anthropic's accepts them behind an adapter. Providers agree on the outline of a message and differ in its details:
Ollama has tool arguments as a mapping, MCP servers return images, SDKs dump fields that only ever come out of a model.
A memory keeps all of that as it came, and sends the form that every provider accepts. Agents that need more of it name
the keys as `extra_keys`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

from tinymem.errors import MessageError, describe_type
from tinymem.messages.calls import CallIds, OpenCall, answered_by, name_and_arguments, plain, raw_calls
from tinymem.steps.checks import check_iterable, check_strings
from tinymem.steps.content import add_label, as_parts, as_text, encodable, is_empty, to_json
from tinymem.steps.step import Message

__all__ = ["file_of", "image_of", "kind_of_image", "problems", "repair", "valid"]

Placed: TypeAlias = tuple[Message, int | None]  # a message as it is sent, and the place of the one that it was

NO_RESULT = "[no result was recorded]"
LONGEST_NAME = 64  # characters of a tool's name, and of a speaker's
PLACED = "(see the message after this)"  # the text of a result that was nothing but images

_MISSING = object()
_DETAILS = ("auto", "low", "high", "original")
_REASONING = ("thinking", "redacted_thinking", "reasoning")  # parts that only ever come out of a model
_BASE64_IMAGES = {"iVBOR": "png", "/9j/": "jpeg", "R0lG": "gif", "UklG": "webp"}  # how the formats begin


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
    sent = valid(_mappings(messages), CallIds(), check_strings("extra_keys", extra_keys))
    return [message for message, _ in sent]


def _mappings(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Check that each message is a mapping with a role."""
    listed = list(check_iterable("messages", messages))
    for index, message in enumerate(listed):
        if not isinstance(message, Mapping) or "role" not in message:
            raise MessageError(f"must be a mapping with role and content, not {describe_type(message)}", index)
    return listed


def problems(messages: Sequence[Mapping[str, Any]], *, extra_keys: Collection[str] = ()) -> list[str]:
    """List the faults for which the chat APIs would refuse this sequence, as `repair` mends them; empty when valid."""
    given = _mappings(messages)
    found: list[tuple[int, str]] = []
    last, left = -1, {*range(len(given))}
    for message, place in valid(given, CallIds(), check_strings("extra_keys", extra_keys)):
        if place is None:
            is_result = message["role"] == "tool"
            found.append((last, "a call without a result" if is_result else "files that only a user may send"))
            continue
        if place < last:
            found.append((place, "it stands between a call and its result"))
        if wrong := _changed(given[place], message):
            found.append((place, f"{', '.join(wrong)} in a form that the API refuses"))
        left.discard(place)
        last = max(last, place)
    for place in sorted(left):
        is_result = given[place]["role"] == "tool"
        found.append((place, "a tool result that answers no open call" if is_result else "nothing in it"))
    return [f"message {place}: {what}" for place, what in found]


def _changed(given: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
    """Return the keys that are not the same."""
    return [key for key in {**given, **sent} if given.get(key, _MISSING) != sent.get(key, _MISSING)]


# -- sequences --------------------------------------------------------------------------------------------------------


@dataclass
class _ToolTurn:
    """An assistant's message with calls, and the results found so far with their places, by the places of the calls."""

    message: Message
    moved: list[Message]
    place: int
    calls: list[OpenCall]
    results: dict[int, tuple[Mapping[str, Any], int]] = field(default_factory=dict)

    def takes(self, result: Mapping[str, Any], place: int) -> bool:
        """Keep `result`, if it answers a call of this turn that has none yet; return True then."""
        waiting = [number for number in range(len(self.calls)) if number not in self.results]
        found = answered_by(result, [self.calls[number] for number in waiting])
        if found is not None:
            self.results[waiting[found]] = result, place
        return found is not None

    def sent(self, ids: CallIds, number: int | None, extra_keys: Collection[str]) -> list[Placed]:
        """Return the calls, their results in their order, and the files of all."""
        pairs = zip(self.message["tool_calls"], self.calls, strict=True)
        calls = [{**call, "id": ids.take(opened.given, number)} for call, opened in pairs]
        found: list[Placed] = [({**self.message, "tool_calls": calls}, self.place)]
        shown = _introduced("In the message of the assistant:", self.moved)
        for index, call in enumerate(calls):
            answer = {"role": "tool", "tool_call_id": call["id"]}
            if index not in self.results:
                found.append(({**answer, "content": NO_RESULT}, None))
                continue
            result, place = self.results[index]
            formed, moved = _sendable({"content": None, **result, **answer}, (), extra_keys)
            found.append((formed, place))
            shown += _introduced(f"What call {call['id']} returned:", moved)
        return [*found, *_of_user(shown)]


def valid(
    messages: Sequence[Mapping[str, Any]], ids: CallIds, extra_keys: Collection[str] = (), number: int | None = None
) -> list[Placed]:
    """Repair `messages`, with `ids` for their calls, told apart by `number` if there is one."""
    entries: list[_ToolTurn | list[Placed]] = []
    latest: dict[str, _ToolTurn] = {}  # by the id of a call
    for place, message in enumerate(messages):
        if message["role"] not in ("tool", "function"):
            entry = _entry(message, place, extra_keys)
            entries.append(entry)
            if isinstance(entry, _ToolTurn):
                latest |= {call.given: entry for call in entry.calls if call.given}
            continue
        id = message.get("tool_call_id")
        asked = latest.get(id) if isinstance(id, str) else None
        turns = [asked] if asked else [entry for entry in reversed(entries) if isinstance(entry, _ToolTurn)]
        if not any(turn.takes(message, place) for turn in turns) and message["role"] == "function":
            said = {"role": "user", "content": add_label("Observation", message.get("content"))}
            entries.append([(_sendable(said, (), extra_keys)[0], None)])
    sent: list[Placed] = []
    for entry in entries:
        sent += entry.sent(ids, number, extra_keys) if isinstance(entry, _ToolTurn) else entry
    return sent


def _entry(message: Mapping[str, Any], place: int, extra_keys: Collection[str]) -> _ToolTurn | list[Placed]:
    """Return a message with calls as a turn; any other one as it is sent, and what only a user may send of it."""
    calls = raw_calls(message)
    formed, moved = _sendable(message, calls, extra_keys)
    is_said = not is_empty(formed.get("content"))
    if calls and (message["role"] == "assistant" or is_said):
        return _ToolTurn(formed, moved, place, [*map(_open, calls)])
    shown = _of_user(_introduced(f"In the message of the {message['role']}:", moved))
    return [(formed, place), *shown] if is_said else shown


def _open(call: Mapping[str, Any]) -> OpenCall:
    id = call.get("id") or ""
    return OpenCall(id, name_and_arguments(call)[0], id)


def _introduced(words: str, moved: Sequence[Message]) -> list[Message]:
    """Return parts that were moved out of their message behind `words` that say where they stood."""
    return [{"type": "text", "text": words}, *moved] if moved else []


def _of_user(parts: list[Message]) -> list[Placed]:
    """Return the message in which only a user may send these parts, if there are any."""
    return [({"role": "user", "content": parts}, None)] if parts else []


# -- single messages --------------------------------------------------------------------------------------------------


def _sendable(
    message: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], extra_keys: Collection[str]
) -> tuple[Message, list[Message]]:
    """Return a message as the API takes it, and the parts of its content that only a user's message may have.

    Calls keep the ids that they have, if any. A message that has nothing to say comes out with empty content.
    """
    role = message["role"]
    is_result = role in ("tool", "function")
    formed: Message = {}
    moved: list[Message] = []
    for key, value in message.items():
        if key == "content":
            formed[key], moved = _content(role, value, None if calls else "", extra_keys)
        elif key == "role" or (key == "tool_call_id" and role == "tool"):
            formed[key] = value
        elif key == "name" and not is_result:
            formed |= _speaker(value)
        elif key in extra_keys and value is not None:
            formed[key] = value
    if calls:
        formed["tool_calls"] = [_call(call, extra_keys) for call in calls]
    elif role == "assistant" and not formed.get("content"):
        formed["content"] = _said_elsewhere(message)
    images = _images(message.get("images") or ())
    if images and role == "user":
        formed["content"] = [*as_parts(formed.get("content") or []), *images]
        return formed, moved
    return formed, [*moved, *images]


def _speaker(name: Any) -> Message:
    """Return the speaker's name without characters that the API refuses; nothing where no letter is left."""
    name = plain(name, LONGEST_NAME) if isinstance(name, str) else ""
    return {"name": name} if name.strip("_") else {}


def _call(call: Mapping[str, Any], extra_keys: Collection[str]) -> Message:
    """Return a tool call as the API takes it."""
    name, arguments = name_and_arguments(call)
    name = plain(name if isinstance(name, str) else "", LONGEST_NAME) or "unknown"
    text = encodable(arguments if isinstance(arguments, str) else to_json(arguments))
    kind, inner = "function", {"name": name, "arguments": _arguments(text)}
    if isinstance(call.get("custom"), Mapping) and not isinstance(call.get("function"), Mapping):  # its input is text
        kind, inner = "custom", {"name": name, "input": text}
    return {"id": call.get("id"), "type": kind, kind: inner, **_more(call, extra_keys)}


def _more(given: Mapping[str, Any], extra_keys: Collection[str]) -> Message:
    return {key: given[key] for key in extra_keys if given.get(key) is not None}


def _arguments(text: str) -> str:
    """Return arguments as the text of a JSON object; other text is wrapped in one."""
    if not text.strip() or text.strip() == "null":
        return "{}"
    try:
        if isinstance(json.loads(text, parse_constant=_refuse), dict):
            return text
    except (ValueError, RecursionError):
        pass
    return to_json({"input": text})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# -- content ----------------------------------------------------------------------------------------------------------


def _content(role: str, content: Any, nothing: str | None, extra_keys: Collection[str]) -> tuple[Any, list[Message]]:
    """Split content into the form that a message of this role may have, and the parts that it may not have."""
    if content is None:
        return nothing, []
    if not isinstance(content, Sequence):
        content = to_json(content)
    if isinstance(content, str):
        return (encodable(content) if content.strip() or nothing is not None else None), []
    parts = [*filter(None, (_part(given, role, extra_keys) for given in content))]
    if role == "user":
        return parts or "", []
    said = [part for part in parts if part["type"] in ("text", "refusal")]
    moved = [part for part in parts if part not in said]
    return said or (PLACED if moved and role == "tool" else nothing), moved


def _part(part: Any, role: str, extra_keys: Collection[str]) -> Message | None:
    """Return a part of content as the API has it; None where it cannot be sent."""
    if not isinstance(part, Mapping):
        part = {"type": "text", "text": part if isinstance(part, str) else to_json(part)}
    if part.get("type") in _REASONING:
        return None
    refusal = part.get("refusal") if role == "assistant" and part.get("type") == "refusal" else None
    formed = image_of(part) or file_of(part) or _audio(part) or _text(as_text([part]))
    if isinstance(refusal, str) and refusal.strip():
        formed = {"type": "refusal", "refusal": encodable(refusal)}
    return formed and {**formed, **_more(part, extra_keys)}


def _text(text: str) -> Message | None:
    return {"type": "text", "text": encodable(text)} if text.strip() else None


def image_of(part: Mapping[str, Any]) -> Message | None:
    """Return an image as OpenAI has it, from the form of OpenAI, Anthropic, MCP or the Responses API."""
    image, source = part.get("image_url"), part.get("source")
    given = image if isinstance(image, Mapping) else {"url": image, "detail": part.get("detail")}
    url = given.get("url")
    if image is None and part.get("type") == "image":
        inner: Mapping[str, Any] = source if isinstance(source, Mapping) else part
        kind = inner.get("media_type") or inner.get("mimeType") or inner.get("mime_type")
        url = inner.get("url") or f"data:{kind};base64,{inner.get('data')}"
    if not _is_ascii(url) or not url.startswith(("https://", "http://", "data:image/")):
        return None
    detail = {"detail": given["detail"]} if given.get("detail") in _DETAILS else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def file_of(part: Mapping[str, Any]) -> Message | None:
    """Return a file as OpenAI has it, from the form of its chat, its Responses API or Anthropic; a text as text."""
    kind, source = part.get("type"), part.get("source")
    file = part if kind == "input_file" else part.get("file")
    if kind == "document" and isinstance(source, Mapping):
        data = source.get("data")
        if source.get("type") == "text" and isinstance(data, str):
            return _text(data)
        data = data and f"data:{source.get('media_type')};base64,{data}"
        file = {"file_data": data, "filename": part.get("title") or "document.pdf"}
    elif kind not in ("file", "input_file") or not isinstance(file, Mapping):
        return None
    kept = {k: encodable(file[k]) for k in ("file_id", "file_data", "filename") if isinstance(file.get(k), str)}
    return {"type": "file", "file": kept} if kept.keys() & {"file_id", "file_data"} else None


def _audio(part: Mapping[str, Any]) -> Message | None:
    audio = part.get("input_audio")
    if not isinstance(audio, Mapping) or audio.get("format") not in ("wav", "mp3"):
        return None
    sound = {"data": audio.get("data"), "format": audio["format"]}
    return {"type": "input_audio", "input_audio": sound} if _is_ascii(sound["data"]) else None


def _is_ascii(text: Any) -> TypeGuard[str]:
    return isinstance(text, str) and text.isascii()


def kind_of_image(data: str) -> str | None:
    """Return the kind of image that base64 begins as: `"png"`."""
    return next((name for start, name in _BASE64_IMAGES.items() if data.startswith(start)), None)


def _images(given: Iterable[Any]) -> list[Message]:
    """Return Ollama's `images`, which are base64; without paths on somebody's disk."""
    found: list[Message] = []
    for data in given:
        kind = kind_of_image(data) if _is_ascii(data) else None
        if kind:
            found.append({"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}})
    return found


def _said_elsewhere(message: Mapping[str, Any]) -> str:
    """Return the assistant's words that are not in its content: a refusal, or the transcript of its speech."""
    audio = message.get("audio")
    said = message.get("refusal") or (audio.get("transcript") if isinstance(audio, Mapping) else None)
    return encodable(said) if isinstance(said, str) else ""

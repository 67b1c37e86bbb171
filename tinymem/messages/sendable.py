"""Conversion of one message, of any provider, to the form that OpenAI's chat completions API takes.

Providers agree on the outline of a message and differ in its details: Ollama has tool arguments as a mapping, MCP
servers return images, SDKs dump fields that only ever come out of a model. A memory keeps all of that as it came, and
sends the form that every provider accepts. Agents that need more of it name the keys as `extra_keys`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from tinymem.steps.content import as_text, encodable, to_json
from tinymem.steps.step import Message

__all__ = ["file_of", "image_of", "kind_of_image", "name_and_arguments", "plain", "raw_calls", "sendable"]

LONGEST_NAME = 64  # characters of a tool's name, and of a speaker's
PLACED = "(see the message after this)"  # the text of a result that was nothing but images

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_DETAILS = ("auto", "low", "high", "original")
_REASONING = ("thinking", "redacted_thinking", "reasoning")  # parts that only ever come out of a model
_BASE64_IMAGES = {"iVBOR": "png", "/9j/": "jpeg", "R0lG": "gif", "UklG": "webp"}  # how the formats begin


def sendable(message: Mapping[str, Any], extra_keys: Collection[str] = ()) -> tuple[Message, list[Message]]:
    """Return `message` as the API takes it, and the parts of its content that only a user's message may have.

    Calls keep the ids that they have, if any. A message that has nothing to say comes out with empty content.

    >>> sendable({"role": "assistant", "content": "Done.", "refusal": None, "reasoning_content": "Hm."})
    ({'role': 'assistant', 'content': 'Done.'}, [])
    """
    role, calls = message["role"], raw_calls(message)
    formed: Message = {}
    moved: list[Message] = []
    for key, value in message.items():
        if key == "content":
            formed[key], moved = _content(role, value, bool(calls), extra_keys)
        elif key == "role" or (key == "tool_call_id" and role == "tool"):
            formed[key] = value
        elif key == "name" and role not in ("tool", "function"):
            formed |= _speaker(value)
        elif key in extra_keys and value is not None:
            formed[key] = value
    if calls:
        formed["tool_calls"] = [_call(call, extra_keys) for call in calls]
    elif role == "assistant" and not formed.get("content"):
        formed["content"] = _said_elsewhere(message)
    images = [part for part in map(_ollama_image, message.get("images") or ()) if part]
    if images and role == "user":
        text = formed.get("content") or []
        formed["content"] = [*([{"type": "text", "text": text}] if isinstance(text, str) else text), *images]
    return formed, moved if role == "user" else [*moved, *images]


def _speaker(name: Any) -> Message:
    """Return the speaker's name without characters that the API refuses; nothing where no letter is left."""
    name = plain(name, LONGEST_NAME) if isinstance(name, str) else ""
    return {"name": name} if name.strip("_") else {}


def plain(text: str, longest: int) -> str:
    """Reduce `text` to letters, digits, _ and -, and to `longest` characters.

    >>> plain("functions.read:0", 64)
    'functions_read_0'
    """
    return _NOT_PLAIN.sub("_", text)[:longest]


# -- calls ------------------------------------------------------------------------------------------------------------


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
    found = (kind[key] for key in ("arguments", "input", "args") if kind.get(key) is not None)
    return kind.get("name"), next(found, "")


def _call(call: Mapping[str, Any], extra_keys: Collection[str]) -> Message:
    """Return a tool call as the API takes it."""
    name, arguments = name_and_arguments(call)
    name = plain(name if isinstance(name, str) else "", LONGEST_NAME) or "unknown"
    id, more = call.get("id"), {key: call[key] for key in extra_keys if call.get(key) is not None}
    if isinstance(call.get("custom"), Mapping) and not isinstance(call.get("function"), Mapping):  # its input is text
        text = arguments if isinstance(arguments, str) else to_json(arguments)
        return {"id": id, "type": "custom", "custom": {"name": name, "input": encodable(text)}, **more}
    return {"id": id, "type": "function", "function": {"name": name, "arguments": _arguments(arguments)}, **more}


def _arguments(value: Any) -> str:
    """Return arguments as the text of a JSON object; other text is wrapped in one."""
    text = encodable(value if isinstance(value, str) else to_json(value))
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


def _content(role: str, content: Any, has_calls: bool, extra_keys: Collection[str]) -> tuple[Any, list[Message]]:
    """Split content into the form that a message of this role may have, and the parts that it may not have."""
    if isinstance(content, str):
        return (None if has_calls and not content.strip() else encodable(content)), []
    if content is None or not isinstance(content, Sequence):
        return (None if has_calls else "") if content is None else encodable(to_json(content)), []
    parts = [*chain.from_iterable(_part(given, role, extra_keys) for given in content)]
    if role != "user":
        moved = [part for part in parts if part["type"] not in ("text", "refusal")]
        parts = [part for part in parts if part["type"] in ("text", "refusal")]
        if parts or not moved or role != "tool":
            return parts or (None if has_calls else ""), moved
        return PLACED, moved
    return parts or "", []


def _part(part: Any, role: str, extra_keys: Collection[str]) -> Iterable[Message]:
    """Yield a part of content as the API has it; nothing where it cannot be sent."""
    if not isinstance(part, Mapping):
        part = {"type": "text", "text": part if isinstance(part, str) else to_json(part)}
    if part.get("type") in _REASONING:
        return
    refusal = part.get("refusal") if role == "assistant" and part.get("type") == "refusal" else None
    formed: Message | None = None
    if isinstance(refusal, str) and refusal.strip():
        formed = {"type": "refusal", "refusal": encodable(refusal)}
    formed = formed or image_of(part) or file_of(part) or _audio(part)
    text = "" if formed else as_text([part])
    if text.strip():
        formed = {"type": "text", "text": encodable(text)}
    if formed:
        yield {**formed, **{key: part[key] for key in extra_keys if part.get(key) is not None}}


def image_of(part: Mapping[str, Any]) -> Message | None:
    """Return an image as OpenAI has it, from the form of OpenAI, Anthropic, MCP or the Responses API."""
    image, source = part.get("image_url"), part.get("source")
    given = image if isinstance(image, Mapping) else {"url": image, "detail": part.get("detail")}
    url = given.get("url")
    if image is None and part.get("type") == "image":
        inner: Mapping[str, Any] = source if isinstance(source, Mapping) else part
        kind = inner.get("media_type") or inner.get("mimeType") or inner.get("mime_type")
        url = inner.get("url") or f"data:{kind};base64,{inner.get('data')}"
    if not isinstance(url, str) or not url.isascii() or not url.startswith(("https://", "http://", "data:image/")):
        return None
    detail = {"detail": given["detail"]} if given.get("detail") in _DETAILS else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def file_of(part: Mapping[str, Any]) -> Message | None:
    """Return a file as OpenAI has it, from the form of its chat, its Responses API or Anthropic; a text as text."""
    file = part if part.get("type") == "input_file" else part.get("file")
    source = part.get("source")
    if part.get("type") == "document" and isinstance(source, Mapping):
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            return {"type": "text", "text": encodable(source["data"])} if source["data"].strip() else None
        data = f"data:{source.get('media_type')};base64,{source.get('data')}" if source.get("data") else None
        file = {"file_data": data, "filename": part.get("title") or "document.pdf"}
    elif part.get("type") not in ("file", "input_file") or not isinstance(file, Mapping):
        return None
    kept = {k: encodable(file[k]) for k in ("file_id", "file_data", "filename") if isinstance(file.get(k), str)}
    return {"type": "file", "file": kept} if kept.keys() & {"file_id", "file_data"} else None


def _audio(part: Mapping[str, Any]) -> Message | None:
    audio = part.get("input_audio")
    if not isinstance(audio, Mapping) or audio.get("format") not in ("wav", "mp3"):
        return None
    data = audio.get("data")
    sound = {"data": data, "format": audio["format"]}
    return {"type": "input_audio", "input_audio": sound} if isinstance(data, str) and data.isascii() else None


def kind_of_image(data: str) -> str | None:
    """Return the kind of image that base64 begins as: `"png"`."""
    return next((name for start, name in _BASE64_IMAGES.items() if data.startswith(start)), None)


def _ollama_image(data: Any) -> Message | None:
    """Return an image of Ollama's `images`, which are base64; None for a path on somebody's disk."""
    if not isinstance(data, str) or not data.isascii():
        return None
    kind = kind_of_image(data)
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}} if kind else None


def _said_elsewhere(message: Mapping[str, Any]) -> str:
    """Return the assistant's words that are not in its content: a refusal, or the transcript of its speech."""
    audio = message.get("audio")
    said = message.get("refusal") or (audio.get("transcript") if isinstance(audio, Mapping) else None)
    return encodable(said) if isinstance(said, str) else ""

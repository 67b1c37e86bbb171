"""Parts of content that all formats share: texts and their replacement, data addresses, marks for what has no form.

Objects of the SDKs become plain values here: dicts and lists that can be sent again.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from math import ceil
from typing import Any, NamedTuple, TypeVar

from tinymem.errors import MessageError, describe_type
from tinymem.messages.media import note_of
from tinymem.messages.sendable import kind_of_image
from tinymem.steps.content import as_text, encodable, to_json
from tinymem.steps.step import Message

__all__ = [
    "Data", "answer_of", "blocks_of", "data_of", "decoded_text", "encodable_value", "is_moved", "items_of", "listed",
    "mark", "native_tokens", "plain_value", "rewritten", "said", "strings", "text_part", "texts_of",
]  # fmt: skip

T = TypeVar("T")
_MOVED = re.compile(r"What call .* returned:|In the message of the \w+:", re.DOTALL)  # what `repair` puts before them
_UNSAID = {"type", "id", "tool_use_id", "call_id", "cache_control", "signature", "data", "status", "file_id"}


class Data(NamedTuple):
    """Content of a data address: its type, and its bytes in base64."""

    kind: str
    base64: str


def data_of(url: Any) -> Data | None:
    """Split a data address; base64 without one is a PDF if it begins as one.

    Padding that is missing is added, and an image has the type that its data begin as, since Anthropic checks both.

    >>> data_of("data:image/png;base64,iVBORw0KGgo=")
    Data(kind='image/png', base64='iVBORw0KGgo=')
    """
    if not isinstance(url, str):
        return None
    head, found, data = url.partition(";base64,")
    if found and head.startswith("data:"):
        kind = head.removeprefix("data:").partition(";")[0]
        begin = kind_of_image(data) if kind.startswith("image/") else None
        return Data(f"image/{begin}" if begin else kind, data + "=" * (-len(data) % 4))
    return Data("application/pdf", url) if url.startswith("JVBERi") else None


def decoded_text(data: Data) -> str | None:
    """Return the text of data that is one, else None."""
    if not (data.kind.startswith("text/") or data.kind in ("application/json", "application/xml")):
        return None
    try:
        return base64.b64decode(data.base64, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def text_part(text: str) -> Message:
    """Return a part of text."""
    return {"type": "text", "text": text}


def blocks_of(content: Any, index: int | None) -> list[dict[str, Any]]:
    """Return content as a list of its parts, or blocks."""
    if isinstance(content, str):
        return [text_part(content)]
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise MessageError(f"content must be a text or a list of parts, not {describe_type(content)}", index)
    return content


def mark(what: str, *names: Any) -> Message:
    """Return the text that stands for what a format has no form for, as in `[image https://example.com/a.png]`."""
    return text_part(f"[{' '.join([what, *(name for name in names if isinstance(name, str) and name)])}]")


def said(parts: Sequence[Message]) -> str | list[Message]:
    """Return content of these parts: one text as a string, however its format wrote it."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return list(parts)


def answer_of(content: str | list[Message], calls: Sequence[Message]) -> Message:
    """Return an answer with its calls; one that has calls may be without content."""
    answer = {"role": "assistant", "content": content}
    return {**answer, "content": content or None, "tool_calls": calls} if calls else answer


def texts_of(content: Any) -> list[str]:
    """Return the texts of content that are not blank, part by part."""
    if isinstance(content, str):
        content = [text_part(content)]
    found = (part["text"] for part in content or () if isinstance(part, Mapping) and isinstance(part.get("text"), str))
    return [text for text in found if text.strip()]


def rewritten(
    natives: Iterable[T], parts_of: Callable[[T], Sequence[Message]], texts: Sequence[str], made: Callable[[str], T]
) -> list[T]:
    """Return natives of a message that was shortened: what says the same stays, and other texts are made anew.

    Args:
        natives: The items, or parts of content, that the message was read of.
        parts_of: Returns the parts of the message that a native is.
        texts: The texts of the message now, each in its place; among them notes that stand for files.
        made: Makes a native of a text.
    """
    left = iter(texts)
    found: list[T] = []
    for native in natives:
        parts = parts_of(native)
        before = texts_of(parts)
        notes = [note for note in map(note_of, parts) if note in texts]
        now = [*islice(left, len(before) + len(notes))]
        found += [native] if now == before else map(made, now)
    return [*found, *map(made, left)]


def strings(value: Any) -> Iterable[str]:
    """Yield the texts inside of a value, without ids, types and what is encrypted."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _UNSAID and not str(key).startswith("encrypted"):
                yield from strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from strings(inner)
    elif value is not None and not isinstance(value, bool):
        yield to_json(value)


def is_moved(message: Mapping[str, Any]) -> bool:
    """Return True if this is the message in which `repair` sends images of the results, or answer, before it."""
    content = message.get("content")
    if message["role"] != "user" or not isinstance(content, list) or not content:
        return False
    return _MOVED.fullmatch(as_text([content[0]])) is not None


def native_tokens(native: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """Count the tokens of the thinking or reasoning in an item or a block of any format."""
    seen = [native.get("thinking"), native.get("reasoning_content")]
    if native.get("type") == "reasoning":
        seen += [native.get("summary"), native.get("content")]
    hidden = native.get("encrypted_content") or (native.get("type") == "redacted_thinking" and native.get("data"))
    return sum(map(count, strings(seen))) + (ceil(len(hidden) * 3 / 16) if isinstance(hidden, str) else 0)


_ATOMS = frozenset({str, int, float, bool, type(None)})
MOST_LEVELS = 200  # of lists and mappings inside each other


def plain_value(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Copy `value`, with each object of an SDK in it as a dict of the fields that were set.

    Raises:
        MessageError: It is over `levels` levels deep, or inside itself.

    >>> plain_value(({"type": "text", "text": "Hello."},))
    [{'type': 'text', 'text': 'Hello.'}]
    """
    if type(value) in _ATOMS:
        return value
    if not levels:
        raise MessageError(f"a message with a value of over {MOST_LEVELS} levels of lists and mappings cannot be held")
    if isinstance(value, Mapping):
        return {key: plain_value(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(inner, levels - 1) for inner in value]
    if hasattr(value, "model_dump"):
        left_out = getattr(value, "__api_exclude__", None)  # what the SDK parsed out of it
        return value.model_dump(exclude_unset=True, mode="json", by_alias=True, exclude=left_out)
    return value


def encodable_value(value: Any) -> Any:
    r"""Copy `value` with texts that UTF-8 can hold, in dicts and lists.

    >>> encodable_value([{"text": "broken \ud83d"}])
    [{'text': 'broken �'}]
    """
    if isinstance(value, str):
        return encodable(value)
    if type(value) is dict:
        return {encodable_value(key): encodable_value(inner) for key, inner in value.items()}
    return [*map(encodable_value, value)] if type(value) is list else value


def listed(items: Any) -> list[Any]:
    """Return the items of a history as a list; MessageError if they are none."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise MessageError(f"a conversation must be a list of messages, not {describe_type(items)}")
    return list(items)


def items_of(
    items: Any, plain: Callable[[Any], Any] = plain_value, known: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return the items of a history as dicts, each as `plain` gives it, or as it is `known` in its place.

    Raises:
        MessageError: It is no list, or one of them is no mapping.
    """
    pairs = zip(listed(items), chain(known, repeat(None)), strict=False)
    found: list[Any] = [old if item == old else plain(item) for item, old in pairs]
    for index, item in enumerate(found):
        if not isinstance(item, dict):
            raise MessageError(f"must be a mapping, or an object of an SDK, not {describe_type(item)}", index)
    return found

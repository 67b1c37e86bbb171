"""Parts of content that all formats share: texts and their replacement, data addresses, marks for what has no form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from tinymem.errors import MessageError, describe_type
from tinymem.messages.media import note_of
from tinymem.messages.validity import kind_of_image
from tinymem.steps.content import as_parts, to_json
from tinymem.steps.step import Message

__all__ = [
    "Data", "answer_of", "blocks_of", "data_of", "decoded_text", "joined", "mark", "rewritten", "said", "strings",
    "text_part", "texts_of",
]  # fmt: skip

T = TypeVar("T")
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
    texts = (part.get("text") for part in as_parts(content or []) if isinstance(part, Mapping))
    return [text for text in texts if isinstance(text, str) and text.strip()]


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
        yield from chain.from_iterable(map(strings, value))
    elif value is not None and not isinstance(value, bool):
        yield to_json(value)


def joined(value: Any) -> str:
    """Return the texts inside of a value as lines."""
    return "\n".join(strings(value))

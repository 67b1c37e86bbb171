"""Message content: a string, or a list of parts (text, images, files) as the chat APIs have it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tinymem.errors import StepError

__all__ = [
    "Content",
    "as_parts",
    "as_text",
    "checked",
    "clean",
    "frozen",
    "is_empty",
    "left_out",
    "map_text",
    "shorten",
    "to_json",
]

Content: TypeAlias = str | Sequence[Mapping[str, Any]]

_ELLIPSIS = "\n… [{} characters left out] …\n"
MOST_DEPTH = 100  # containers inside each other: whatever can be held can be written, and read again
# Control characters that are no white space; deleting or escaping would move offsets, so each becomes U+FFFD.
_CONTROLS = dict.fromkeys([*range(0x00, 0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)], "\ufffd")
_UNSAFE = str.maketrans({**_CONTROLS, **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")})


def frozen(value: Any) -> Any:
    """A private deep copy of a JSON-like value, so that a step cannot be changed from outside."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    level = {id(value): value}
    for _ in range(MOST_DEPTH):
        level = {id(inner): inner for outer in level.values() for inner in _inside(outer)}
        if not level:
            return copy.deepcopy(value)
    raise StepError(f"a value with over {MOST_DEPTH} levels of lists and mappings, or inside itself, cannot be held")


def _inside(value: Any) -> Iterable[Any]:
    """The containers that a container holds."""
    held = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return (one for one in held if isinstance(one, (Mapping, list, tuple)))


def checked(value: Content | None, where: str) -> Content | None:
    """`value` as a private copy, if it is content at all."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(part, Mapping) for part in value):
        return [frozen(part) for part in value]
    raise StepError(f"{where} must be a string or a list of content parts, not {type(value).__name__}")


def as_text(content: Content | None) -> str:
    """The text of `content`; a part without text is named in brackets, as in `[image_url]`."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_part_text(part) for part in content)


def _part_text(part: Mapping[str, Any]) -> str:
    for key in ("text", "refusal", "content"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return f"[{part.get('type', 'part')}]"


def as_parts(content: Content) -> list[Mapping[str, Any]]:
    """`content` as a list of parts."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def is_empty(content: Content | None) -> bool:
    """Whether there is nothing in it that a model could read."""
    return not content or (isinstance(content, str) and not content.strip())


def map_text(content: Content | None, change: Callable[[str], str]) -> Content | None:
    """`content` with `change` applied to its texts, other parts as they are."""
    if content is None or isinstance(content, str):
        return None if content is None else change(content)
    return [{**part, "text": change(part["text"])} if isinstance(part.get("text"), str) else part for part in content]


def left_out(characters: int) -> str:
    """The mark that stands where so many characters were left out."""
    return _ELLIPSIS.format(characters)


def shorten(text: str, max_length: int) -> str:
    """At most `max_length` characters of `text`: its head and tail, and between them how much was left out.

    >>> len(shorten("a" * 500, 100))
    100
    """
    if len(text) <= max_length:
        return text
    mark, longer = "", left_out(len(text) - max_length)
    while len(longer) != len(mark):  # the mark makes room for itself, and so may need one digit more
        mark, longer = longer, left_out(len(text) - max_length + len(longer))
    room, mark = max_length - len(longer), longer
    if room < 3:
        return text[:max_length]
    head = room - room // 3
    return text[:head] + mark + text[len(text) - (room - head) :]


def clean(text: str) -> str:
    """`text` with lone surrogates, NUL and other control characters as U+FFFD: safe to encode, same length."""
    return text if text.isascii() and text.isprintable() else text.translate(_UNSAFE)


def to_json(value: Any) -> str:
    """Compact JSON for `value`, in the order it came."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)

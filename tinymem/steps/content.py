"""Message content: a string, or a list of parts (text, images, files) as the chat APIs have it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from tinymem.errors import StepError

__all__ = [
    "ATOMS",
    "NOTHING",
    "Content",
    "add_label",
    "as_parts",
    "as_text",
    "check_content",
    "clean",
    "encodable",
    "freeze",
    "is_empty",
    "join_contents",
    "left_out",
    "map_strings",
    "map_text",
    "shorten",
    "to_json",
    "to_mutable",
]  # fmt: skip

Content: TypeAlias = str | Sequence[Mapping[str, Any]]

_ELLIPSIS = "\n… [{} characters left out] …\n"
MOST_DEPTH = 100  # containers inside each other: whatever can be held can be written, and read again
MOST_CONTAINERS = 1_000_000  # in one value: what holds itself twice would grow without end
# Control characters that are no white space; deleting or escaping would move offsets, so each becomes U+FFFD.
_CONTROLS = dict.fromkeys([*range(0x00, 0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)], "\ufffd")
_UNSAFE = str.maketrans({**_CONTROLS, **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")})
_IS_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class _Frozen:
    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("a step cannot be changed: step.evolve(...) makes a changed copy")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


class FrozenDict(_Frozen, dict[str, Any]):
    """A mapping inside a step: equal to the dict it was made of, the same as JSON, hashable, and never changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _Frozen._refuse
    clear = pop = popitem = setdefault = update = _Frozen._refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return FrozenDict, (dict(self),)


class FrozenList(_Frozen, list[Any]):
    """A list inside a step: equal to the list it was made of, the same as JSON, hashable, and never changed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _Frozen._refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _Frozen._refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return FrozenList, (list(self),)


NOTHING = FrozenDict()
ATOMS = frozenset({str, int, float, bool, type(None)})


def freeze(value: Any) -> Any:
    """Copy a JSON-like value into an immutable one, all the way down; a frozen value comes back as it is.

    Raises:
        StepError: The value has over MOST_DEPTH levels, MOST_CONTAINERS lists and mappings, or is inside itself.
    """
    kind = type(value)
    if kind is FrozenDict or kind is FrozenList:
        return value
    return _freeze(value, MOST_DEPTH, iter(range(MOST_CONTAINERS)))


def _freeze(value: Any, levels: int, containers_left: Iterator[int]) -> Any:
    if type(value) in ATOMS:
        return value
    if not isinstance(value, (list, tuple, Mapping)):
        return copy.deepcopy(value)
    if not levels or next(containers_left, None) is None:
        raise StepError(f"a value of over {MOST_DEPTH} levels of lists and mappings, or inside itself, cannot be held")
    if isinstance(value, Mapping):
        return FrozenDict((key, _freeze(item, levels - 1, containers_left)) for key, item in value.items())
    items = [_freeze(item, levels - 1, containers_left) for item in value]
    return tuple(items) if isinstance(value, tuple) else FrozenList(items)


def to_mutable(value: Any) -> Any:
    """Copy a frozen value into plain dicts and lists that may be changed.

    >>> part = freeze({"type": "text"})
    >>> to_mutable(part) == part, type(to_mutable(part)).__name__
    (True, 'dict')
    """
    if type(value) in ATOMS:
        return value
    if isinstance(value, Mapping):
        return {key: to_mutable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_mutable(item) for item in value]
    return copy.deepcopy(value)


def check_content(value: Content | None, where: str) -> Content | None:
    """Return a private copy of `value`; StepError if it is no content."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(part, Mapping) for part in value):
        return cast(Content, freeze(value))
    raise StepError(f"{where} must be a string or a list of content parts, not {type(value).__name__}")


def as_text(content: Content | None) -> str:
    """Return the text of `content`; a part without text is named in brackets, as in `[image_url]`."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_part_text(part) for part in content)


def _part_text(part: Mapping[str, Any]) -> str:
    for key in ("text", "refusal", "content"):
        if isinstance(part.get(key), str):
            return str(part[key])
    text = _document_text(part) if part.get("type") == "document" else ""
    return text or f"[{part.get('type', 'part')}]"


def _document_text(part: Mapping[str, Any]) -> str:
    """Return title, context and text of a document as Anthropic has it: a text, or a list of parts with texts."""
    source = part.get("source")
    texts = [part.get("title"), part.get("context")]
    if isinstance(source, Mapping):
        texts.append(source.get("data") if source.get("type") == "text" else None)
        inner = source.get("content") if source.get("type") == "content" else None
        if isinstance(inner, str):
            texts.append(inner)
        elif isinstance(inner, (list, tuple)):
            texts += [block.get("text") for block in inner if isinstance(block, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def as_parts(content: Content) -> list[Mapping[str, Any]]:
    """Return `content` as a list of parts."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def is_empty(content: Content | None) -> bool:
    """Return True if nothing in `content` could be read by a model."""
    return not content or (isinstance(content, str) and not content.strip())


def join_contents(first: Content | None, *more: Content) -> Content | None:
    """Put contents one below the other: strings as lines, or as a list of parts once one of them is that."""
    for second in more:
        if first is None or is_empty(first):
            first = second
        elif isinstance(first, str) and isinstance(second, str):
            first = f"{first}\n{second}"
        else:
            first = [*as_parts(first), *as_parts(second)]
    return first


def add_label(label: str, content: Content | None) -> Content:
    """Put `label` and a colon before `content`."""
    if content is None or isinstance(content, str):
        return f"{label}: {content or ''}"
    return [*as_parts(f"{label}:"), *content]


def map_text(content: Content | None, change: Callable[[str], str]) -> Content | None:
    """Apply `change` to the texts of `content`; other parts stay as they are."""
    if content is None or isinstance(content, str):
        return None if content is None else change(content)
    return [{**part, "text": change(part["text"])} if isinstance(part.get("text"), str) else part for part in content]


def left_out(characters: int) -> str:
    """Return the mark that stands where so many characters were left out."""
    return _ELLIPSIS.format(characters)


def shorten(text: str, max_length: int, ends: bool = False) -> str:
    """Cut `text` to `max_length` characters: its head, a mark that says how much was left out, and its tail.

    One that says at its end what it is about, `ends`, has no head then.

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
        return text[len(text) - max_length :] if ends else text[:max_length]
    head = 0 if ends else room - room // 3
    return text[:head] + mark + text[len(text) - (room - head) :]


def clean(text: str) -> str:
    """Replace lone surrogates, NUL and other control characters by U+FFFD: safe to encode, same length."""
    return text.translate(_UNSAFE) if _IS_UNSAFE.search(text) else text


def encodable(text: str) -> str:
    """Make `text` fit for UTF-8: join surrogate pairs, and replace lone surrogates by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json(value: Any) -> str:
    """Write `value` as compact JSON, keys in the order they came."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to the texts in a JSON value, wherever they are, and to its keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {map_strings(key, change): map_strings(inside, change) for key, inside in value.items()}
    return [map_strings(inside, change) for inside in value] if isinstance(value, list) else value

"""Objects of the SDKs as plain values: dicts and lists that can be sent again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from tinymem.errors import MessageError, kind_of
from tinymem.steps.content import encodable

__all__ = ["encodable_value", "items_of", "listed", "plain_value"]

_ATOMS = frozenset({str, int, float, bool, type(None)})


def plain_value(value: Any) -> Any:
    """Return `value` with each object of an SDK in it as a dict of the fields that were set.

    What holds no such object comes back as it is, not as a copy.

    >>> part = {"type": "text", "text": "Hello."}
    >>> plain_value([part])[0] is part
    True
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict or kind is list:
        inside = value.values() if kind is dict else value
        if all(type(one) in _ATOMS or plain_value(one) is one for one in inside):
            return value
    if hasattr(value, "model_dump"):
        left_out = getattr(value, "__api_exclude__", None)  # what the SDK parsed out of it
        return value.model_dump(exclude_unset=True, mode="json", by_alias=True, exclude=left_out)
    if isinstance(value, Mapping):
        return {key: plain_value(one) for key, one in value.items()}
    return [plain_value(one) for one in value] if isinstance(value, (list, tuple)) else value


def encodable_value(value: Any) -> Any:
    r"""Return `value` with texts that UTF-8 can hold, in dicts and lists; itself where it has them already.

    >>> encodable_value([{"text": "broken \ud83d"}])
    [{'text': 'broken �'}]
    """
    if isinstance(value, str):
        return encodable(value)
    if type(value) is dict:
        keys, inside = [*map(encodable_value, value)], [*map(encodable_value, value.values())]
        is_same = all(map(is_, keys, value)) and all(map(is_, inside, value.values()))
        return value if is_same else dict(zip(keys, inside, strict=True))
    if type(value) is list:
        inside = [*map(encodable_value, value)]
        return value if all(map(is_, inside, value)) else inside
    return value


def listed(items: Any) -> list[Any]:
    """Return the items of a history as a list; MessageError if they are none."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise MessageError(f"a conversation must be a list of messages, not {kind_of(items)}")
    return list(items)


def items_of(items: Any) -> list[dict[str, Any]]:
    """Return the items of a history as dicts.

    Raises:
        MessageError: It is no list, or one of them is no mapping.
    """
    found = [plain_value(item) for item in listed(items)]
    for index, item in enumerate(found):
        if not isinstance(item, dict):
            raise MessageError(f"must be a mapping, or an object of an SDK, not {kind_of(item)}", index)
    return found

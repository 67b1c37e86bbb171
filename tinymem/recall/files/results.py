"""Results of tools: the text in them, out of the JSON that shells and servers put around it."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["READER", "text_of_result"]

READER = json.JSONDecoder(strict=False)
DEPTH = 4  # of JSON in JSON
_TEXTS = ("error", "output", "content", "contents", "text", "result", "stdout", "structuredContent", "data")


def text_of_result(result: str) -> str:
    r"""Return the text in a result of JSON on one line, also where it is JSON in a string; another result as it is.

    >>> text_of_result('{"content": [{"type": "text", "text": "a\\nb"}]}')
    'a\nb'
    """
    text = result
    for _ in range(DEPTH):
        if text[:1] not in ("{", "[", '"') or text[-1:] not in ("}", "]", '"') or "\n" in text:
            break
        try:
            found = _text_in(READER.decode(text), DEPTH)
        except (ValueError, RecursionError):
            break
        if found is None:
            break
        text = found
    return text


def _text_in(value: Any, depth: int) -> str | None:
    """Return the text in a value of JSON; None where it has none that is known as such."""
    if isinstance(value, str):
        return value
    if not depth:
        return None
    if isinstance(value, dict):
        name = next((name for name in _TEXTS if value.get(name)), "")
        found = _text_in(value.get(name), depth - 1)
        return f"error: {found}" if name == "error" and found is not None else found
    if isinstance(value, list):
        found_in_blocks = [_text_in(block, depth - 1) for block in value if isinstance(block, dict)]
        texts = [text for text in found_in_blocks if text is not None]
        return "\n".join(texts) if texts and len(texts) == len(value) else None
    return None

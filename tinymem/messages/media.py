"""Tokens of images, files and audio: what providers count for them, or an estimate; never their base64.

- An image costs what OpenAI's GPT-4o counts (https://platform.openai.com/docs/guides/images-vision#calculating-costs):
  85 at low detail; else 170 for each tile of 512 x 512 pixels, after scaling into 2,048 x 2,048 and to a shortest side
  of 768, and 85. One that goes to Anthropic costs a token for each 750 pixels, after scaling to a longest side of 1,568
  (https://platform.claude.com/docs/en/build-with-claude/vision#calculate-image-costs). Of unknown size: 1,024 x 1,024.
- A text file costs its text. Any other file is taken for one page per BYTES_A_PAGE, and one of which only an id or an
  address is known for one page.
- A page costs PER_PAGE: providers send its text and its image, and Anthropic puts the text alone at 1,500 to 3,000
  tokens (https://platform.claude.com/docs/en/build-with-claude/pdf-support#estimate-your-costs).
- Audio costs ten tokens a second (https://platform.openai.com/docs/guides/realtime-costs: one for 100 ms) of compressed
  speech, at 64 kbit/s; what is not compressed is shorter than that, and costs more than it is.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import ceil
from typing import Any, NamedTuple

from tinymem.steps.content import Content

__all__ = ["PER_PAGE", "media_tokens", "note_of", "with_notes"]

PER_PAGE = 2_250
BYTES_A_PAGE = 60_000
AUDIO_BYTES = 800  # for a token
UNKNOWN_SIZE = (1_024, 1_024)
_HEAD = 1 << 17  # characters of base64 in which an image says its size
_LONGEST_NAME = 100  # characters of a name or an address in a note
_SORTS = {"file": "file", "input_file": "file", "document": "file", "resource": "file", "audio": "audio",
          "input_audio": "audio", "computer_screenshot": "image"}  # fmt: skip
_HOLDERS = ("file", "image_url", "input_audio", "source", "resource")  # keys of what a part holds
_DATA = ("file_data", "url", "image_url", "data", "blob")


class _Media(NamedTuple):
    """An image, a file or audio: its sort, its media type, its keys in one mapping, and its base64 or address."""

    sort: str
    kind: str
    keys: Mapping[str, Any]
    body: str


def _media_of(part: Mapping[str, Any]) -> _Media | None:
    name = str(part.get("type"))
    inner: Mapping[str, Any] = next((part[key] for key in _HOLDERS if isinstance(part.get(key), Mapping)), {})
    sort = "image" if "image" in name else _SORTS.get(name)
    if sort is None or (name == "resource" and "blob" not in inner):
        return None
    keys = {**part, **inner}
    head, _, body = next((keys[key] for key in _DATA if isinstance(keys.get(key), str)), "").rpartition("base64,")
    kind = head.removeprefix("data:").partition(";")[0] or keys.get("media_type") or keys.get("mimeType")
    return _Media(sort, str(kind or ""), keys, body)


def media_tokens(part: Mapping[str, Any], count: Callable[[str], int], format: str | None = None) -> int | None:
    """Count the tokens of a part of content that is an image, a file or audio; None for text, in a document too.

    >>> image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}}
    >>> media_tokens(image, len), media_tokens({"type": "text", "text": "Hi."}, len)
    (765, None)

    Args:
        part: A part in the form of OpenAI's chat, its Responses API, Anthropic or MCP.
        count: Counts the tokens of a text.
        format: The format that it is sent in; `"anthropic"` counts images of any form as Anthropic does.
    """
    media = _media_of(part)
    if media is None:
        return None
    sort, kind, keys, body = media
    sort = sort if sort != "file" else kind.partition("/")[0]
    if sort == "image":
        return _image_tokens(body, keys.get("detail"), format == "anthropic" or isinstance(part.get("source"), Mapping))
    if sort == "audio":
        return ceil(len(body) * 3 / 4 / AUDIO_BYTES)
    if keys["type"] in ("text", "content"):
        return None  # what it says stands in it
    if sort == "text" or kind in ("application/json", "application/xml"):
        return count(_bytes(body).decode("utf-8", "replace"))
    return PER_PAGE * max(1, round(len(body) * 3 / 4 / BYTES_A_PAGE))


def _image_tokens(body: str, detail: Any, is_anthropics: bool) -> int:
    width, height = size = _size(body)
    if is_anthropics:
        factor = min(1, 1_568 / max(size))
        return min(1_600, ceil(ceil(width * factor) * ceil(height * factor) / 750))
    if detail == "low":
        return 85
    factor = min(1, 2_048 / max(size), 768 / min(size))
    return 85 + 170 * ceil(width * factor / 512) * ceil(height * factor / 512)


def _size(body: str) -> tuple[int, int]:
    """Return width and height of an image, as its head says them."""
    head = _bytes(body[:_HEAD])
    size = UNKNOWN_SIZE
    with suppress(struct.error):
        if head.startswith(b"\x89PNG"):
            size = struct.unpack_from(">II", head, 16)
        elif head.startswith(b"GIF8"):
            size = struct.unpack_from("<HH", head, 6)
        elif head.startswith(b"\xff\xd8"):
            size = _jpeg_size(head)
        elif head[8:16] == b"WEBPVP8X":
            size = 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
        elif head[8:16] == b"WEBPVP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            size = width & 0x3FFF, height & 0x3FFF
    return size if min(size) > 0 else UNKNOWN_SIZE


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """Find the frame of a JPEG, segment by segment."""
    start = 2
    while start + 9 < len(head) and head[start] == 0xFF:
        kind, length, height, width = struct.unpack_from(">xBHxHH", head, start)
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return width, height
        start += 2 + length
    return UNKNOWN_SIZE


def _bytes(body: str) -> bytes:
    """Decode base64; nothing where it is none."""
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4))
    except ValueError:
        return b""


# -- what is left out -------------------------------------------------------------------------------------------------


def note_of(part: Mapping[str, Any]) -> str | None:
    """Return the note that stands for an image, a file or audio where it is left out; None for other parts.

    >>> data = "data:application/pdf;base64," + "JVBERi0x" * 10_000
    >>> note_of({"type": "file", "file": {"filename": "a.pdf", "file_data": data}})
    '[file left out, too long: a.pdf, application/pdf, 60 kB]'
    """
    media = _media_of(part)
    if media is None:
        return None
    sort, kind, keys, body = media
    name = keys.get("filename") or keys.get("title") or keys.get("file_id")
    kind = kind or (f"audio/{keys['format']}" if sort == "audio" and "format" in keys else "")
    size = body[:_LONGEST_NAME] if "://" in body[:10] else body and f"{max(1, round(len(body) * 3 / 4_000)):,} kB"
    details = ", ".join(str(detail)[:_LONGEST_NAME] for detail in (name, kind, size) if detail)
    return f"[{sort} left out, too long: {details or 'of unknown size'}]"


def with_notes(content: Content | None) -> Content | None:
    """Put notes in the place of the images, files and audio in content."""
    if content is None or isinstance(content, str):
        return content
    return [part if (note := note_of(part)) is None else {"type": "text", "text": note} for part in content]

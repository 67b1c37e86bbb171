"""Tokens of images, files and audio: what providers count for them, or an estimate; never their base64.

- An image costs what OpenAI's GPT-4o counts (https://platform.openai.com/docs/guides/images-vision#calculating-costs):
  85 at low detail; else 170 for each tile of 512 x 512 pixels, after scaling into 2,048 x 2,048 and to a shortest side
  of 768, and 85. One that goes to Anthropic costs a token for each 750 pixels, after scaling to a longest side of 1,568
  (https://platform.claude.com/docs/en/build-with-claude/vision#calculate-image-costs). Of unknown size: 1,024 x 1,024.
- A PDF costs PER_PAGE for each page: both send a page's text and its image, and Anthropic puts the text alone at 1,500
  to 3,000 tokens (https://platform.claude.com/docs/en/build-with-claude/pdf-support#estimate-your-costs).
- A text file costs its text. Any other file is taken for one page per BYTES_A_PAGE, and a file of which only an id or
  an address is known for one page.
- Audio costs ten tokens a second (https://platform.openai.com/docs/guides/realtime-costs: one for 100 ms).
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import struct
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil
from typing import Any

__all__ = ["PER_PAGE", "audio_tokens", "file_tokens", "image_tokens", "is_media", "media_tokens", "notes_of",
           "with_notes"]  # fmt: skip

PER_PAGE = 2_250
BYTES_A_PAGE = 60_000
AUDIO_BYTES = 8_000  # a second of compressed speech, at 64 kbit/s
UNKNOWN_SIZE = (1_024, 1_024)
_HEAD = 1 << 17  # characters of base64 in which an image says its size
_MOST = 1 << 22  # bytes of a PDF's streams that are unpacked
_LONGEST_NAME = 100  # characters of a name or an address in a note
_HOLDERS = ("file", "image_url", "input_audio", "source", "resource")  # keys of what a part holds
_DATA = ("file_data", "url", "image_url", "data", "blob")
_REMEMBERED = 256  # PDFs whose pages are remembered
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PACKED = re.compile(rb"/ObjStm\b.{0,500}?stream\r?\n", re.DOTALL)

_pages: dict[tuple[int, int], int] = {}  # by length and hash of the base64

Size = tuple[int, int]


def is_media(part: Mapping[str, Any]) -> bool:
    """Return True for an image, a file or audio."""
    return media_tokens(part, lambda text: 0) is not None


def media_tokens(part: Mapping[str, Any], count: Callable[[str], int], format: str | None = None) -> int | None:
    """Count the tokens of a part of content that is an image, a file or audio; None if it is none of them.

    >>> image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "high"}}
    >>> media_tokens(image, len), media_tokens({"type": "text", "text": "Hi."}, len)
    (765, None)

    Args:
        part: A part in the form of OpenAI's chat, its Responses API, Anthropic or MCP.
        count: Counts the tokens of a text.
        format: The format that it is sent in; `"anthropic"` counts images of any form as Anthropic does.
    """
    kind = str(part.get("type", ""))
    if "image" in kind or kind == "computer_screenshot":
        return _image(part, format)
    if kind in ("file", "input_file"):
        file = part.get("file") if kind == "file" else part
        data = file.get("file_data") if isinstance(file, Mapping) else None
        return file_tokens(data, count)
    if kind == "document":
        return _document(part, count)
    if kind in ("input_audio", "audio"):
        audio = part.get("input_audio", part)
        return audio_tokens(audio.get("data") if isinstance(audio, Mapping) else None)
    resource = part.get("resource")
    if kind == "resource" and isinstance(resource, Mapping) and "blob" in resource:
        return file_tokens(f"data:{resource.get('mimeType')};base64,{resource['blob']}", count)
    return None


# -- images -----------------------------------------------------------------------------------------------------------


def _image(part: Mapping[str, Any], format: str | None) -> int:
    image, source = part.get("image_url"), part.get("source")
    if isinstance(source, Mapping):
        return _anthropic_tokens(_size(source.get("data")))
    given = image if isinstance(image, Mapping) else {"url": image, "detail": part.get("detail")}
    data = given.get("url") or part.get("data")
    return _anthropic_tokens(_size(data)) if format == "anthropic" else image_tokens(data, given.get("detail"))


def image_tokens(data: Any, detail: Any = None) -> int:
    """Count the tokens of an image as OpenAI does; `data` is its base64, or an address with or without it."""
    if detail == "low":
        return 85
    width, height = _scaled(_size(data), 2_048)
    if min(width, height) > 768:
        width, height = (ceil(768 * side / min(width, height)) for side in (width, height))
    return 85 + 170 * ceil(width / 512) * ceil(height / 512)


def _anthropic_tokens(size: Size) -> int:
    width, height = _scaled(size, 1_568)
    return min(1_600, ceil(width * height / 750))


def _scaled(size: Size, longest: int) -> Size:
    """Return a size that is at most `longest`."""
    factor = min(1, longest / max(*size, 1))
    return max(1, int(size[0] * factor)), max(1, int(size[1] * factor))


def _size(data: Any) -> Size:
    """Return width and height of an image, as the head of its base64 says them."""
    head = _bytes(data, _HEAD)
    try:
        found = _size_in(head)
    except struct.error:
        found = None
    return found if found and min(found) > 0 else UNKNOWN_SIZE


def _size_in(head: bytes) -> Size | None:
    if head.startswith(b"\x89PNG"):
        width, height = struct.unpack_from(">II", head, 16)
    elif head.startswith(b"GIF8"):
        width, height = struct.unpack_from("<HH", head, 6)
    elif head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    elif head[8:16] == b"WEBPVP8X":
        width, height = (1 + int.from_bytes(side, "little") for side in (head[24:27], head[27:30]))
    elif head[8:16] == b"WEBPVP8 ":
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", head, 26))
    else:
        return None
    return width, height


def _jpeg_size(head: bytes) -> Size | None:
    """Find the frame of a JPEG, segment by segment."""
    start = 2
    while start + 9 < len(head) and head[start] == 0xFF:
        kind, length = struct.unpack_from(">xBH", head, start)
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", head, start + 5)
            return width, height
        start += 2 + length
    return None


# -- files and audio --------------------------------------------------------------------------------------------------


def _document(part: Mapping[str, Any], count: Callable[[str], int]) -> int:
    source = part.get("source")
    source = source if isinstance(source, Mapping) else {}
    names = sum(count(part[key]) for key in ("title", "context") if isinstance(part.get(key), str))
    data, content = source.get("data"), source.get("content")
    if source.get("type") == "text" and isinstance(data, str):
        return names + count(data)
    if isinstance(content, str):
        return names + count(content)
    if isinstance(content, Sequence):
        blocks = [block for block in content if isinstance(block, Mapping)]
        found = ((media_tokens(block, count), str(block.get("text", ""))) for block in blocks)
        return names + sum(count(text) if tokens is None else tokens for tokens, text in found)
    whole = data if data is None else f"data:{source.get('media_type')};base64,{data}"
    return names + file_tokens(whole, count)


def file_tokens(data: Any, count: Callable[[str], int]) -> int:
    """Count the tokens of a file; `data` is its base64, with or without an address, or None if it is not at hand."""
    if not isinstance(data, str):
        return PER_PAGE
    head, _, body = data.rpartition("base64,")
    kind = head.removeprefix("data:").partition(";")[0]
    if kind.startswith("text/") or kind in ("application/json", "application/xml"):
        return count(_bytes(body).decode("utf-8", "replace"))
    if kind.startswith("image/"):
        return image_tokens(body)
    if kind.startswith("audio/"):
        return audio_tokens(body)
    key = len(body), hash(body)
    pages = _pages.get(key)
    if pages is None:
        pages = _page_count(body)
        if len(_pages) >= _REMEMBERED:
            _pages.clear()
        _pages[key] = pages
    return PER_PAGE * pages


def _page_count(body: str) -> int:
    """Count the pages of a PDF, also where they are packed; guess those of any other file by its size."""
    content = _bytes(body) if body.startswith("JVBERi") else b""
    found = len(_PAGE.findall(content))
    for packed in _PACKED.finditer(content) if not found else ():
        try:
            unpacked = zlib.decompressobj().decompress(content[packed.end() : packed.end() + _MOST], _MOST)
        except zlib.error:
            continue
        found += len(_PAGE.findall(unpacked))
    return found or max(1, round(len(body) * 3 / 4 / BYTES_A_PAGE))


def audio_tokens(data: Any) -> int:
    """Count the tokens of audio: ten a second, by the byte rate of a WAV, or of compressed speech."""
    if not isinstance(data, str):
        return 0
    body = data.rpartition("base64,")[2]
    head = _bytes(body, 64)
    rate = int.from_bytes(head[28:32], "little") if head.startswith(b"RIFF") else 0
    return ceil(10 * (len(body) * 3 / 4) / (rate or AUDIO_BYTES))


def _bytes(data: Any, most: int | None = None) -> bytes:
    """Decode base64, or the first `most` characters of it; nothing where it is none."""
    if not isinstance(data, str) or data.startswith(("http://", "https://")):
        return b""
    start = data.find("base64,") + len("base64,") if data.startswith("data:") else 0
    body = data[start : None if most is None else start + most]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return b""


# -- what is left out -------------------------------------------------------------------------------------------------


def notes_of(parts: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Return, for each part, the note that stands for it where it is left out; None for a text.

    >>> data = "data:application/pdf;base64," + "JVBERi0x" * 10_000
    >>> notes_of([{"type": "text", "text": "Hi."}, {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}])
    [None, '[file left out, too long: a.pdf, application/pdf, 60 kB]']
    """
    places = [place for place, part in enumerate(parts) if is_media(part)]
    found: list[str | None] = [None] * len(parts)
    for number, place in enumerate(places, 1):
        which = f" {number} of {len(places)}" if len(places) > 1 else ""
        kind, *details = _about(parts[place])
        found[place] = f"[{kind}{which} left out, too long: {', '.join(details) or 'of unknown size'}]"
    return found


def with_notes(parts: Sequence[Mapping[str, Any]], numbers: Collection[int]) -> list[Mapping[str, Any]]:
    """Put notes in the place of some of the images, files and audio among parts, by their numbers among them."""
    following, found = itertools.count(), list[Mapping[str, Any]]()
    for part, note in zip(parts, notes_of(parts), strict=True):
        is_left_out = note is not None and next(following) in numbers
        found.append({"type": "text", "text": note} if is_left_out else part)
    return found


def _about(part: Mapping[str, Any]) -> list[str]:
    """Return what is known of an image, a file or audio: its sort, its name, its type and its size."""
    inner = next((part[key] for key in _HOLDERS if isinstance(part.get(key), Mapping)), part)
    sort = next((sort for sort in ("image", "audio") if sort in str(part.get("type"))), "file")
    name = inner.get("filename") or part.get("filename") or part.get("title") or inner.get("file_id")
    values = [inner.get(key, part.get(key)) for key in _DATA]
    data = next((value for value in values if isinstance(value, str)), "")
    head, _, body = data.rpartition("base64,")
    kind = head.removeprefix("data:").partition(";")[0] or inner.get("media_type") or inner.get("mimeType")
    kind = kind or (f"audio/{inner['format']}" if isinstance(inner.get("format"), str) else None)
    size = f"{max(1, round(len(body) * 3 / 4 / 1_000)):,} kB" if body and "://" not in body[:10] else None
    where = body[:_LONGEST_NAME] if body and size is None else None
    details = (str(detail)[:_LONGEST_NAME] for detail in (name, kind, size, where) if detail)
    return [sort, *details]

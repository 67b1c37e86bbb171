"""Images, files and audio count what providers count, wherever they are, and never their base64."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem.messages import count_message
from tinymem.messages.media import PER_PAGE, media_tokens

WORDS = "What is in this invoice?"


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\2\0\0\0" + b"\0" * 40_000


def jpeg(width: int, height: int) -> bytes:
    comment = b"\xff\xfe" + struct.pack(">H", 302) + b"c" * 300
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8" + comment + frame + b"\0" * 40_000


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 40_000


def webp(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + size + b"\0" * 40_000


def pdf(pages: int = 1) -> bytes:
    """A PDF with the bytes of so many pages."""
    return b"%PDF-1.7\n1 0 obj\nendstream".ljust(60_000 * pages, b"%")


def wav(seconds: float) -> bytes:
    rate = 32_000
    head = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate // 2, rate, 2, 16) + b"data\0\0\0\0"
    return head + b"\0" * int(seconds * rate)


def url(data: bytes, kind: str = "application/pdf") -> str:
    return f"data:{kind};base64,{coded(data)}"


@pytest.mark.parametrize(
    ("size", "detail", "tokens"),
    [
        ((1_024, 1_024), "high", 765),  # the examples of OpenAI's guide
        ((2_048, 4_096), "high", 1_105),
        ((4_096, 8_192), "low", 85),
        ((512, 512), "auto", 255),
        ((1, 1), None, 255),
        ((100_000, 1), "high", 765),
    ],
)
@pytest.mark.parametrize("made", [png, jpeg, gif, webp])
def test_an_image_costs_its_tiles(made: Any, size: tuple[int, int], detail: str | None, tokens: int) -> None:
    if made in (gif, jpeg) and max(size) > 65_535:
        pytest.skip("these are smaller")
    address = url(made(*size), f"image/{made.__name__}")
    chat = {"type": "image_url", "image_url": {"url": address, **({"detail": detail} if detail else {})}}
    item = {"type": "input_image", "image_url": address, "detail": detail}
    assert media_tokens(chat, len) == media_tokens(item, len) == tokens


@pytest.mark.parametrize(("size", "tokens"), [((200, 200), 54), ((1_000, 1_000), 1_334), ((3_136, 1_568), 1_600)])
def test_a_block_of_anthropics_costs_its_pixels(size: tuple[int, int], tokens: int) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": coded(png(*size))}
    assert media_tokens({"type": "image", "source": source}, len) == tokens


def forms(data: bytes) -> list[dict[str, Any]]:
    """A PDF in the forms of all providers."""
    source = {"type": "base64", "media_type": "application/pdf", "data": coded(data)}
    return [
        {"type": "file", "file": {"file_data": url(data), "filename": "a.pdf"}},
        {"type": "input_file", "file_data": url(data), "filename": "a.pdf"},
        {"type": "document", "source": source},
        {"type": "resource", "resource": {"uri": "a", "mimeType": "application/pdf", "blob": coded(data)}},
    ]


@pytest.mark.parametrize("pages", [1, 3])
def test_a_pdf_costs_a_page_for_its_bytes(pages: int) -> None:
    assert [media_tokens(part, len) for part in forms(pdf(pages))] == [pages * PER_PAGE] * 4


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "file", "file": {"file_id": "file-1"}}, PER_PAGE),
        ({"type": "input_file", "file_url": "https://example.com/a.pdf"}, PER_PAGE),
        ({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}, PER_PAGE),
        ({"type": "document", "title": "ab", "source": {"type": "text", "data": "four"}}, None),
        ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "four"}]}}, None),
        ({"type": "file", "file": {"file_data": url(b"four", "text/csv")}}, 4),
        ({"type": "file", "file": {"file_data": url(b"\x01" * 240_000, "application/zip")}}, 4 * PER_PAGE),
        ({"type": "input_audio", "input_audio": {"data": coded(wav(6)), "format": "wav"}}, 241),
        ({"type": "input_audio", "input_audio": {"data": coded(b"\xff\xfb" * 40_000), "format": "mp3"}}, 101),
        ({"type": "audio", "data": coded(wav(2)), "mimeType": "audio/wav"}, 81),
        ({"type": "image", "data": coded(png(512, 512)), "mimeType": "image/png"}, 255),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, 1_399),
        ({"type": "image_url", "image_url": "https://example.com/a.png"}, 765),
        ({"type": "text", "text": "Hi."}, None),
    ],
)
def test_files_and_audio_cost_what_is_in_them(part: dict[str, Any], tokens: int | None) -> None:
    assert media_tokens(part, len) == (None if tokens is None else pytest.approx(tokens, abs=1))


@pytest.mark.parametrize("form", range(4))
def test_inside_a_result_they_cost_the_same(form: int) -> None:
    part = forms(pdf())[form]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [part]}
    for message in (
        {"role": "tool", "tool_call_id": "call_1", "content": [part]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": WORDS, "images": [coded(png(2_048, 2_048))] * 2},
        {"role": "assistant", "content": None, "audio": {"id": "audio_1", "data": coded(wav(3)), "transcript": WORDS}},
    ):
        assert count_message(message) < PER_PAGE + 100


@MODERATE
@given(st.binary(max_size=200), st.sampled_from(["image/png", "application/pdf", "audio/wav", "text/plain", ""]))
def test_whatever_the_data_are_they_are_counted(data: bytes, kind: str) -> None:
    for begin in (b"", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"%PDF-", b"RIFF\0\0\0\0WEBPVP8X", b"RIFF"):
        address = url(begin + data, kind)
        parts = [{"type": "image_url", "image_url": {"url": address}}, {"type": "file", "file": {"file_data": address}}]
        assert all((media_tokens(part, len) or 0) >= 0 for part in parts)
    assert media_tokens({"type": "file", "file": {"file_data": "data:;base64,!"}}, len) == PER_PAGE

"""Files, images and audio in a history: sent as they came where they fit, else named in a note; the words stay."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from judges import JUDGES

from tinymem import HierarchicalMemory
from tinymem.messages.media import PER_PAGE

FORMATS = ["openai", "responses", "anthropic"]
WORDS = "What is in this invoice?"


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


PDF = coded(b"%PDF-1.7\n/Type /Page".ljust(60_000))
PNG = coded(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1_500, 1_000) + b"\x08\2\0\0\0" + b"\0" * 9_000)
WAV = coded(b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8_000, 16_000, 2, 16) + b"\0" * 900_000)
FILES: dict[str, dict[str, dict[str, Any]]] = {
    "openai": {
        "pdf": {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        "png": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        "wav": {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
    },
    "responses": {
        "pdf": {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        "png": {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
    },
    "anthropic": {
        "pdf": {
            "type": "document",
            "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        },
        "png": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    },
}
EVERY = [(format, kind) for format, files in FILES.items() for kind in files]
SAID = {"pdf": "a.pdf, application/pdf, 60 kB", "png": "image/png, 9 kB", "wav": "audio/wav, 900 kB"}


def text(format: str, said: str = WORDS) -> dict[str, Any]:
    return {"type": "input_text" if format == "responses" else "text", "text": said}


def asking(format: str, *files: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [text(format), *files]}]


def returned(format: str, *files: dict[str, Any]) -> list[dict[str, Any]]:
    """A call whose result has words and files, which OpenAI's chat itself does not take there."""
    content, function = [text(format), *files], {"name": "read", "arguments": "{}"}
    if format == "anthropic":
        use = {"type": "tool_use", "id": "call_1", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": content}
        return [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
    if format == "responses":
        output = {"type": "function_call_output", "call_id": "call_1", "output": content}
        return [
            {"role": "user", "content": "Read it."},
            {"type": "function_call", "call_id": "call_1", **function},
            output,
        ]
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": content},
    ]


@pytest.mark.parametrize(("format", "kind"), EVERY)
@pytest.mark.parametrize("where", [asking, returned])
@pytest.mark.parametrize("budget", [300, 9_000])
def test_a_file_is_sent_as_it_came_or_gives_way_to_a_note_and_the_words_stay(
    memory: HierarchicalMemory, where: Any, format: str, kind: str, budget: int
) -> None:
    history = where(format, FILES[format][kind])
    context = memory.fit(history, session="s", max_tokens=budget, format=format)
    (entry,) = (entry for entry in context.entries if entry.input == len(history) - 1)
    sent, fits = context.to(), budget == 9_000
    assert context.tokens <= budget and entry.shortened is not fits
    if fits:
        assert (sent["messages"] if format == "anthropic" else sent)[: len(history)] == history
    else:
        assert WORDS in json.dumps(sent) and SAID[kind] in json.dumps(sent) and "base64" not in json.dumps(sent)
    if (where, format, fits) != (returned, "openai", True):  # it was never one of OpenAI's chat
        assert JUDGES[format](context.to(format)) == JUDGES["openai"](context.to("openai")) == []


@pytest.mark.parametrize("format", FORMATS)
def test_of_several_files_that_are_too_long_together_all_give_way_to_notes(
    memory: HierarchicalMemory, format: str
) -> None:
    pdf, png = FILES[format]["pdf"], FILES[format]["png"]
    context = memory.fit(asking(format, png, pdf), session="s", max_tokens=2_200, format=format)
    sent = context.to()
    content = (sent["messages"] if format == "anthropic" else sent)[-1]["content"][-3:]
    notes = [f"[image left out, too long: {SAID['png']}]", f"[file left out, too long: {SAID['pdf']}]"]
    assert content == [text(format), *(text(format, note) for note in notes)]
    assert JUDGES[format](sent) == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_request_with_a_file_stays_while_its_work_goes_on(memory: HierarchicalMemory, format: str) -> None:
    history = asking(format, FILES[format]["pdf"])
    for at in range(8):
        done = returned(format)
        history += json.loads(json.dumps(done[1:]).replace("call_1", f"call_{at}"))
        for budget in (400, 3_200, 6_000):
            context = memory.fit(history, session="s", max_tokens=budget, format=format)
            assert context.tokens <= budget and JUDGES[format](context.to()) == []
            sent = json.dumps(context.to())
            assert WORDS in sent and (PDF in sent) == (budget > PER_PAGE / 0.75)

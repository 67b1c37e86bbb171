"""Answers of providers as they stream them: the events, as server-sent events (SSE)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Events = Iterator[tuple[str, dict[str, Any]]]  # name and data


def streamed(format: str, answer: dict[str, Any]) -> bytes:
    """The body of a stream that makes `answer`."""
    events = {"responses": _response, "anthropic": _message}[format](answer)
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events).encode()


def _halves(text: str) -> list[str]:
    return [half for half in (text[: len(text) // 2], text[len(text) // 2 :]) if half]


def _response(answer: dict[str, Any]) -> Events:
    begun = {**answer, "output": [], "status": "in_progress"}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(answer["output"]):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": answer})
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


def _message(answer: dict[str, Any]) -> Events:
    yield "message_start", {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
    for at, block in enumerate(answer["content"]):
        kind, deltas = block["type"], []
        empty = {**block, "text": ""} if kind == "text" else {**block, "thinking": "", "signature": ""}
        if kind == "text":
            deltas = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
        elif kind == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            empty = {**block, "input": {}}
            halves = _halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        yield "content_block_start", {"type": "content_block_start", "index": at, "content_block": empty}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": at}
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": answer["usage"]}
    yield "message_stop", {"type": "message_stop"}

"""The APIs of Anthropic, OpenAI (Responses) and Gemini on the loopback interface, for clients that are programs."""

from __future__ import annotations

import json
from http.server import ThreadingHTTPServer
from typing import Any

from servers import STREAM, JsonHandler

USAGE = {"input_tokens": 10, "output_tokens": 5}


class FakeModels(ThreadingHTTPServer):
    """`prompts` are the requests that came with tools, as a conversation's are; `answer` is what is said to them."""

    daemon_threads = True

    def __init__(self, answer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.prompts: list[dict[str, Any]] = []


class _Handler(JsonHandler):
    server: FakeModels

    def do_POST(self) -> None:
        body = self.body()
        if "count" in self.path.lower():
            self.send(200, {"input_tokens": 10, "totalTokens": 10})
            return
        if body.get("tools"):
            self.server.prompts.append(body)
        is_streamed = "stream" in self.path or body.get("stream")
        answer = self._answer(body)
        if not is_streamed:
            self.send(200, answer)
        elif "candidates" in answer:
            self.send(200, f"data: {json.dumps(answer)}\r\n\r\n".encode(), STREAM)
        else:
            events = streamed_response(answer) if "output" in answer else streamed_message(answer)
            lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            self.send(200, "".join(lines).encode(), STREAM)

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        said, number = self.server.answer, len(self.server.prompts)
        if self.path.endswith("/responses"):
            content = [{"type": "output_text", "text": said, "annotations": []}]
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
            frame = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"]}
            return {**frame, "status": "completed", "output": [{**item, "content": content}],
                    "usage": {**USAGE, "total_tokens": 15}}  # fmt: skip
        if "generatecontent" in self.path.lower():
            parts = {"role": "model", "parts": [{"text": said}]}
            return {"candidates": [{"content": parts, "finishReason": "STOP", "index": 0}]}
        frame = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
        end = {"stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE}
        return {**frame, "content": [{"type": "text", "text": said}], **end}

    def do_GET(self) -> None:
        self.send(200, {})

    do_HEAD = do_GET


def streamed_response(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of the Responses API that make `answer`."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**answer, "output": [], "status": "in_progress"}}
    ]
    for at, item in enumerate(answer["output"]):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": answer})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def streamed_message(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of Anthropic's API that make `answer`, which is one text."""
    (block,) = answer["content"]
    delta = {"type": "text_delta", "text": block["text"]}
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": answer["usage"]},
        {"type": "message_stop"},
    ]

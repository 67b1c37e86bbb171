"""The APIs of Anthropic, OpenAI (both) and Gemini on the loopback interface, for clients that are programs."""

from __future__ import annotations

import json
from http.server import ThreadingHTTPServer
from typing import Any, NamedTuple

from servers import STREAM, JsonHandler

USAGE = {"input_tokens": 10, "output_tokens": 5}
TOTALS = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Use(NamedTuple):
    """The use of a tool that a model asks for."""

    name: str
    given: dict[str, Any]


class FakeModels(ThreadingHTTPServer):
    """`prompts` are the requests that came with tools, as a conversation's are.

    They are answered by what stands in `script`, each once, and then by `answer`.
    """

    daemon_threads = True

    def __init__(self, answer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.script: list[Use] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.prompts: list[dict[str, Any]] = []


class _Handler(JsonHandler):
    server: FakeModels

    def do_POST(self) -> None:
        body = self.body()
        if "count" in self.path.lower():
            self.send(200, {"input_tokens": 10, "totalTokens": 10})
            return
        said: str | Use = self.server.answer
        if body.get("tools"):
            self.server.prompts.append(body)
            said = self.server.script.pop(0) if self.server.script else said
        is_streamed = "stream" in self.path or body.get("stream")
        answer = self._answer(body, said, f"{len(self.server.prompts)}")
        if not is_streamed:
            self.send(200, answer)
        elif "candidates" in answer or "choices" in answer:
            self.send(200, f"data: {json.dumps(answer)}\r\n\r\n".encode(), STREAM)
        else:
            events = streamed_response(answer) if "output" in answer else streamed_message(answer)
            lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            self.send(200, "".join(lines).encode(), STREAM)

    def _answer(self, body: dict[str, Any], said: str | Use, number: str) -> dict[str, Any]:
        if self.path.endswith("/responses"):
            frame = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"]}
            item = response_item(said, number)
            return {**frame, "status": "completed", "output": [item], "usage": {**USAGE, "total_tokens": 15}}
        if self.path.endswith("/chat/completions"):
            return completion(body, said, number)
        is_text = isinstance(said, str)
        if "generatecontent" in self.path.lower():
            part = {"text": said} if is_text else {"functionCall": dict(zip(("name", "args"), said, strict=True))}
            content = {"role": "model", "parts": [part]}
            return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
        frame = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": said[0], "input": said[1]}
        end = {"stop_reason": "end_turn" if is_text else "tool_use", "stop_sequence": None}
        return {**frame, "content": [{"type": "text", "text": said} if is_text else use], **end, "usage": USAGE}

    def do_GET(self) -> None:
        self.send(200, {})

    do_HEAD = do_GET


def response_item(said: str | Use, number: str) -> dict[str, Any]:
    """An item of the Responses API."""
    if isinstance(said, Use):
        call = {"call_id": f"call_{number}", "name": said.name, "arguments": json.dumps(said.given)}
        return {"type": "function_call", "id": f"fc_{number}", "status": "completed", **call}
    content = [{"type": "output_text", "text": said, "annotations": []}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def completion(body: dict[str, Any], said: str | Use, number: str) -> dict[str, Any]:
    """The answer of the chat API, or the one chunk of it."""
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if isinstance(said, Use):
        function = {"name": said.name, "arguments": json.dumps(said.given)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    end = "stop" if isinstance(said, str) else "tool_calls"
    kind, key = ("chat.completion.chunk", "delta") if body.get("stream") else ("chat.completion", "message")
    frame = {"id": f"chat_{number}", "object": kind, "created": 1, "model": body["model"], "usage": TOTALS}
    return {**frame, "choices": [{"index": 0, key: message, "finish_reason": end}]}


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
    """The events of Anthropic's API that make `answer`, which is one block."""
    (block,) = answer["content"]
    if block["type"] == "text":
        begin, delta = block, {"type": "text_delta", "text": block["text"]}
    else:
        begin, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begin},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": answer["usage"]},
        {"type": "message_stop"},
    ]

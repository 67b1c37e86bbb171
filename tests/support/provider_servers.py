"""A strict server of all providers on the loopback interface: it refuses what they refuse, and plays the model.

It knows what it gave: thinking must come back unchanged, a reasoning item with the call that followed it, and a call
with the reasoning that came before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from itertools import count
from typing import Any

import anthropic_rules
import openai_rules
import responses_rules
from scripted_model import Move
from servers import JsonHandler, chat_answer_with, running

from tinymem.messages.formats import conversation_from

Model = Callable[[list[dict[str, Any]]], Move]  # the next move, by the messages as a chat has them
PATHS = {"/v1/chat/completions": "openai", "/v1/responses": "responses", "/v1/messages": "anthropic"}


class StrictServer(ThreadingHTTPServer):
    """`requests` are the bodies that came, `refused` the rules that they broke."""

    daemon_threads = True

    def __init__(self, model: Model) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.thoughts: set[str] = set()
        self.items: dict[str, dict[str, Any]] = {}  # given by the Responses API, by id
        self.reasoning: dict[str, str] = {}  # the id of a call's item: that of its reasoning
        self._numbers = count()

    def answer(self, format: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The answer to a request: an error with the rules that it breaks, or the model's next move."""
        self.requests.append(body)
        if found := self.broken(format, body):
            self.refused += found
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "; ".join(found)}}
        items = body if format == "anthropic" else body["messages" if format == "openai" else "input"]
        move, number = self.model(conversation_from(items, format).messages), next(self._numbers)
        made = {"openai": self._chat, "responses": self._response, "anthropic": self._message}[format]
        return 200, made(move, number)

    def broken(self, format: str, body: dict[str, Any]) -> list[str]:
        """The rules that a request breaks, those about what this server gave among them."""
        if format == "openai":
            return openai_rules.broken_rules(body["messages"])
        if format == "anthropic":
            return anthropic_rules.broken_rules(body, self.thoughts, alternate=True)
        found = responses_rules.broken_rules(body["input"])
        sent = {item["id"]: item for item in body["input"] if item.get("id")}
        changed = [id for id, item in sent.items() if item["type"] == "reasoning" and item != self.items.get(id)]
        lonely = [id for id in sent if id in self.reasoning and self.reasoning[id] not in sent]
        return [*found, *(f"{id} was changed" for id in changed), *(f"{id} without its reasoning" for id in lonely)]

    def _chat(self, move: Move, number: int) -> dict[str, Any]:
        more: dict[str, Any] = {"refusal": None, "annotations": []}
        if move.path:
            function = {"name": "read_file", "arguments": json.dumps({"path": move.path})}
            more["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        answer: dict[str, Any] = chat_answer_with(move.answer or None, **more)[1]
        return answer

    def _message(self, move: Move, number: int) -> dict[str, Any]:
        sign = hashlib.sha256(str(number).encode()).hexdigest()
        thought = {"type": "thinking", "thinking": f"Thought {number}.", "signature": sign}
        self.thoughts.add(json.dumps(thought, sort_keys=True))
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": {"path": move.path}}
        said = [use] if move.path else [{"type": "text", "text": move.answer, "citations": None}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        frame = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        return {**frame, "content": [thought, *said], "stop_reason": "end_turn", "stop_sequence": None}

    def _response(self, move: Move, number: int) -> dict[str, Any]:
        secret = hashlib.sha256(str(number).encode()).hexdigest()
        thought: dict[str, Any] = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        thought["encrypted_content"] = secret
        function = {"name": "read_file", "arguments": json.dumps({"path": move.path}), "status": "completed"}
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", **function}
        part = {"type": "output_text", "text": move.answer, "annotations": []}
        said: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
        said["status"] = "completed"
        output = [thought, call if move.path else said]
        self.items.update((item["id"], item) for item in output)
        self.reasoning[output[1]["id"]] = thought["id"]
        frame = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}, "instructions": None}
        return {**frame, **more, "output": output, "error": None, "incomplete_details": None}


class _Handler(JsonHandler):
    server: StrictServer

    def do_POST(self) -> None:
        body, format = self.body(), PATHS.get(self.path)
        status, answer = self.server.answer(format, body) if format else (404, {"error": {"message": self.path}})
        self.send(status, answer)


@contextmanager
def strict_server(model: Model) -> Iterator[StrictServer]:
    """A running server, gone at the end."""
    with running(StrictServer(model)) as server:
        yield server

"""An API of Anthropic's on the loopback interface for clients that are programs: it says one sentence to everything."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streams import streamed


class FakeClaude(ThreadingHTTPServer):
    """`prompts` are the requests that came with tools, as a conversation's are; `answer` is what is said to them."""

    daemon_threads = True

    def __init__(self, answer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.prompts: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeClaude

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if "count_tokens" in self.path:
            self._send("application/json", b'{"input_tokens": 10}')
            return
        if body.get("tools"):
            self.server.prompts.append(body)
        usage = {"input_tokens": 10, "output_tokens": 5}
        said = [{"type": "text", "text": self.server.answer}]
        frame = {
            "id": f"msg_{len(self.server.prompts)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
        }
        message = {**frame, "usage": usage, "content": said, "stop_reason": "end_turn", "stop_sequence": None}
        if body.get("stream"):
            self._send("text/event-stream", streamed("anthropic", message))
        else:
            self._send("application/json", json.dumps(message).encode())

    def do_GET(self) -> None:
        self._send("application/json", b"{}")

    do_HEAD = do_GET

    def _send(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Be quiet."""

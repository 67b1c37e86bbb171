"""Servers on the loopback interface: one that speaks OpenAI's APIs (embeddings, chat), and a real Chroma."""

from __future__ import annotations

import base64
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from ports import free_port as free_port
from ports import wait_for

from tinymem.embedders.hashing import HashingEmbedder
from tinymem.messages.tokens import default_counter

KEY = "sk-loopback-0123456789"
MODELS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "local-model": 64}
SUMMARY = "Staging listens on port 8443."
LIMITS = {"inputs": 2_048, "input_tokens": 8_192, "request_tokens": 300_000}

NO_HEADERS: Mapping[str, str] = {}
STREAM = {"Content-Type": "text/event-stream"}
Answer = tuple[int, Any, dict[str, str]]  # status, body, headers
Served = TypeVar("Served", bound=ThreadingHTTPServer)
Fault = Callable[[dict[str, Any]], "Answer | None"]  # of a request's body; None: answer as if nothing were wrong


class OpenAIServer(ThreadingHTTPServer):
    """`POST /v1/embeddings` and `/v1/chat/completions` as OpenAI has them: key, limits, `dimensions`, both encodings.

    A text's vector counts its words (`HashingEmbedder`), three times as long as it should be, and the vectors come in
    reversed order, with their index. A chat is answered by `chat`, which says `SUMMARY` unless another is set.
    `requests` are the bodies that came, `faults` are used up, one a request.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._connections: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.faults: list[Fault] = []
        self.chat: Callable[[dict[str, Any]], Answer] = chat_answer
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, since clients keep theirs."""
        self._connections.append(request)
        super().process_request(request, client_address)

    def server_close(self) -> None:
        """Be gone, for those too who are connected."""
        super().server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def inputs(self) -> list[str]:
        """All texts that came, in order."""
        return [text for request in self.requests for text in request["input"]]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not wait for its answer is no error here."""


class JsonHandler(BaseHTTPRequestHandler):
    """Reads bodies of JSON, and sends answers."""

    protocol_version = "HTTP/1.1"  # connections are kept, as by real servers

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")

    def send(self, status: int, body: Any, headers: Mapping[str, str] = NO_HEADERS) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


class _Handler(JsonHandler):
    server: OpenAIServer

    def do_POST(self) -> None:
        body = self.body()
        self.server.requests.append(body)
        fault = self.server.faults.pop(0) if self.server.faults else None
        self.send(*((fault(body) if fault else None) or self._answer(body)))

    def _answer(self, body: dict[str, Any]) -> Answer:
        answers = {"/v1/embeddings": answer, "/v1/chat/completions": self.server.chat}
        if self.path not in answers:
            return failure(404, f"no such path {self.path}")
        if (given := self.headers.get("Authorization", "")) != f"Bearer {KEY}":
            return failure(401, f"Incorrect API key provided: {given}")
        return answers[self.path](body)


def answer(body: dict[str, Any]) -> Answer:
    """What a good server says to `body`."""
    model, texts = body["model"], body["input"]
    if model not in MODELS:
        return failure(404, f"The model `{model}` does not exist", "model_not_found")
    tokens = [default_counter().count(text) for text in texts]
    if not all(texts) or not 1 <= len(texts) <= LIMITS["inputs"] or max(tokens) > LIMITS["input_tokens"]:
        return failure(400, f"{len(texts)} inputs of up to {max(tokens)} tokens")
    if sum(tokens) > LIMITS["request_tokens"]:
        return failure(400, f"{sum(tokens)} tokens are over the maximum of {LIMITS['request_tokens']} per request")
    vectors = 3 * HashingEmbedder(body.get("dimensions", MODELS[model])).embed_documents(texts)
    return answer_with(body, list(vectors), sum(tokens))


def answer_with(body: dict[str, Any], vectors: list[Any], tokens: int = 1) -> Answer:
    """An answer of these vectors, in the encoding that `body` asks for."""
    coded = body.get("encoding_format") == "base64"
    given: list[Any] = [list(map(float, vector)) for vector in vectors]
    if coded:
        given = [base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(given)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return 200, {"object": "list", "model": body["model"], "data": data[::-1], "usage": usage}, {}


def chat_answer(body: dict[str, Any]) -> Answer:
    """What a good server says to a chat; newer models want the limit of an answer under another name."""
    if body["model"].startswith("o") and "max_tokens" in body:
        return failure(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "unsupported")
    return chat_answer_with(SUMMARY)


def chat_answer_with(content: Any, finish_reason: str = "stop", **more: Any) -> Answer:
    """A chat's answer with this content."""
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    return 200, {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}, {}


def failure(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """An error as OpenAI writes it."""
    return status, {"error": {"message": message, "type": "error", "param": None, "code": code}}, headers


@contextmanager
def openai_server(port: int = 0) -> Iterator[OpenAIServer]:
    """A running server, on this port if one is given; at the end it is gone."""
    with running(OpenAIServer(port)) as server:
        yield server


@contextmanager
def running(server: Served) -> Iterator[Served]:
    """This server, answering in a thread; at the end it is gone."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class ChromaServer:
    """A real `chroma run` in a process of its own, which can be stopped, frozen and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [sys.executable, "-c", "from chromadb.cli.cli import app; app()", "run", "--path", str(self.folder),
                   "--host", "127.0.0.1", "--port", str(self.port)]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port)

    def stop(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections are taken, and nothing ever answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> ChromaServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

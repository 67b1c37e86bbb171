"""A wire to a server on which round trips are counted, and which can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal

Cut = Literal["request", "answer"]


READY = ord("Z")  # the kind of the last message of an answer, ReadyForQuery


class Wire:
    """Listens on `port` and passes on what comes to the server on another port, and what that answers.

    `round_trips` counts the answers that came to their end, however the packets fell. With `cut_at` set, the next
    request that holds `word` is not passed on ("request"), or its answer is not ("answer"): the connection is closed
    instead.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.round_trips = 0
        self.cut_at: Cut | None = None
        self.word = b"COMMIT"
        self.cuts = 0
        self._open: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._server_port))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append((client, server))
                state = _State()
                threading.Thread(target=self._requests, args=(client, server, state), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, state), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, state: _State) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                if self.cut_at and self.word in data:
                    state.cut, self.cut_at = self.cut_at, None
                    self.cuts += 1
                    if state.cut == "request":
                        break
                server.sendall(data)
        self._close(client, server, keep_server=state.cut == "answer")

    def _answers(self, client: socket.socket, server: socket.socket, state: _State) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                if state.cut == "answer":
                    break
                self.round_trips += state.count_ends(data)
                client.sendall(data)
        self._close(client, server)

    @staticmethod
    def _close(client: socket.socket, server: socket.socket, keep_server: bool = False) -> None:
        for end in (client,) if keep_server else (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self) -> None:
        """Close all connections."""
        for client, server in self._open:
            self._close(client, server)
        self._open.clear()

    def refuse(self) -> None:
        """Let nobody connect from now on, as if the server were gone; who is connected stays."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or the thread would take one more
        self._listener.close()

    def close(self) -> None:
        self.refuse()
        self.cut()


class _State:
    """Of one connection: where it is cut, and what is left of the server's messages, each a kind, a length, a body."""

    def __init__(self) -> None:
        self.cut: Cut | None = None
        self._left = b""
        self._begun = False

    def count_ends(self, data: bytes) -> int:
        """Return how many answers come to their end in what the server sent."""
        if not self._begun and data == b"N":  # no TLS: the one answer that is no message
            return 0
        self._begun = True
        left, at, ends = self._left + data, 0, 0
        while len(left) >= at + 5 and len(left) > (end := at + int.from_bytes(left[at + 1 : at + 5], "big")):
            ends += left[at] == READY
            at = end + 1
        self._left = left[at:]
        return ends

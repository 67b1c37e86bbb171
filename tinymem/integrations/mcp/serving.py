"""Serving over standard input and output, or over HTTP with a token."""

from __future__ import annotations

import hmac
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, BinaryIO, TypeAlias, cast

from tinymem.integrations.mcp.server import web_app

__all__ = ["TokenGate", "serve_http", "serve_stdio"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PATH = "/mcp"


class _Stdout:
    """Standard output of which only the bytes are the protocol's: what is printed goes to standard error."""

    def __init__(self, buffer: BinaryIO) -> None:
        self.buffer = buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def serve_stdio(server: Any) -> None:
    """Serve until standard input ends. Nothing but the protocol reaches standard output, whatever a library prints."""
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = cast(Any, _Stdout(wire))
    server.run()


class TokenGate:
    """An ASGI app that lets requests with the right bearer token through to another one."""

    def __init__(self, app: App, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 to a request without the token."""
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        is_known = scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)
        if scope["type"] == "lifespan" or is_known:
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})


def serve_http(server: Any, listener: socket.socket, host: str, token: str) -> None:
    """Serve at /mcp until the process is interrupted.

    Requests need the token, and a Host header that names this machine's loopback or `host`.
    """
    import uvicorn

    names = {*LOOPBACK, f"[{host}]" if ":" in host else host}
    app = web_app(server, [f"{name}:*" for name in names], [f"http://{name}:*" for name in names])
    config = uvicorn.Config(TokenGate(app, token), log_config=None, access_log=False, lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])

"""Serving over standard input and output, or over HTTP with a token."""

from __future__ import annotations

import hmac
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from tinymem.errors import InputError
from tinymem.integrations.mcp.server import web_app
from tinymem.integrations.mcp.tools import SERVED

__all__ = ["TokenGate", "read_tokens", "serve_http", "serve_stdio"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
FAREWELL = 3  # seconds that answers have when the server ends
_TOKEN_LINE = re.compile(r"([!-~]+)[ \t]+(\S+)")


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
    """An ASGI app that lets requests with a bearer token through to another one, for the namespace of the token."""

    def __init__(self, app: App, tokens: Mapping[str, str]) -> None:
        self._app, self._tokens = app, [(token.encode(), namespace) for token, namespace in tokens.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 to a request without a token that is known."""
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        token = token.strip() if scheme.lower() == b"bearer" else b""
        # all are compared, so that the time tells nothing
        found = [namespace for known, namespace in self._tokens if hmac.compare_digest(token, known)]
        if scope["type"] == "lifespan" or found:
            if found:
                SERVED.set(found[0])
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})


def read_tokens(path: Path) -> dict[str, str]:
    """Read a file of tokens: a line each, the token and the namespace that it opens; a line with # first is a comment.

    Raises:
        InputError: The file cannot be read, others may read it, or a line is something else; it says which line.
    """
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InputError(f"others may read {path}, which has tokens: chmod 600 {path}")
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    tokens: dict[str, str] = {}
    for number, line in enumerate((line.removesuffix("\r").strip(" \t") for line in lines), 1):
        if not line or line.startswith("#"):
            continue
        found = _TOKEN_LINE.fullmatch(line)
        if found is None or not found[2].isprintable() or found[1] in tokens:
            raise InputError(
                f"{path}, line {number}: should be a token (ASCII), a space and its namespace, and nothing behind it; "
                "each token once, and comments on lines of their own"
            )
        tokens[found[1]] = found[2]
    if not tokens:
        raise InputError(f"{path} has no tokens")
    return tokens


def serve_http(
    server: Any, listener: socket.socket, host: str, tokens: Mapping[str, str], names: Sequence[str] = ()
) -> None:
    """Serve at /mcp until the process is interrupted.

    Requests need one of the tokens, and a Host header that names this machine's loopback, `host` or one of `names`.
    """
    import uvicorn

    known = {*LOOPBACK, f"[{host}]" if ":" in host else host, *names}
    app = web_app(server, [f"{name}:*" for name in known] + [*names], [f"http://{name}:*" for name in known])
    config = uvicorn.Config(
        TokenGate(app, tokens), ws="none", log_config=None, access_log=False, lifespan="on",
        timeout_graceful_shutdown=FAREWELL,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])

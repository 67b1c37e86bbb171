"""The server of the page: on loopback, for those who have the token, and for no other site that a browser has open.

A call is a POST with the token in a header, which no other site can send: no link, form or picture changes a memory.
"""

from __future__ import annotations

import hmac
import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from tinymem.cli.inspector.page import page, policy, to_json
from tinymem.cli.inspector.view import View
from tinymem.errors import InputError, MissingExtraError, TinymemError

if TYPE_CHECKING:
    import socket

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtraError("tinymem inspect", "inspect") from error

__all__ = ["LOOPBACK", "application", "refusal_at", "serve"]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
CALLS = ("overview", "version", "known", "steps", "segments", "place", "step", "recall", "context", "episodes",
         "episode", "correct", "mark", "forget")  # fmt: skip
LONGEST = 1_000_000  # bytes of a request
PORT = re.compile(r":\d+$")  # of a Host header
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{policy('self')}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def application(view: View, token: str, hosts: Collection[str]) -> Starlette:
    """Return the app that shows a view to those who have the token.

    Args:
        view: The view of an open memory.
        token: The secret that the page's address has, and every call.
        hosts: The names that a request may be sent to. A site whose own name was made to point here is refused.
    """

    async def show(request: Request) -> Response:
        if not _is_same(request.query_params.get("token", ""), token):
            return PlainTextResponse("This address has no valid token: take the one that the terminal shows.\n", 403)
        return Response(page(), media_type="text/html")

    async def call(request: Request) -> Response:
        if not _is_same(request.headers.get("authorization", ""), f"Bearer {token}"):
            return _answer({"error": "the token is missing or wrong"}, 403)
        try:
            values = _read_object(await _read_body(request))
            method = _find_method(view, request.path_params["name"], values)
            return _answer(await run_in_threadpool(method, **values))
        except TinymemError as error:
            return _answer({"error": str(error)}, 400 if isinstance(error, ValueError) else 500)

    async def guard(request: Request, answer_to: Callable[[Request], Awaitable[Response]]) -> Response:
        host = request.headers.get("host", "")
        if PORT.sub("", host) not in hosts:
            answer: Response = PlainTextResponse("This host is not served here.\n", 421)
        elif request.headers.get("origin") not in (None, f"http://{host}"):
            answer = _answer({"error": "another site may not ask"}, 403)
        else:
            answer = await answer_to(request)
        answer.headers.update(HEADERS)
        return answer

    routes = [Route("/", show), Route("/api/{name}", call, methods=["POST"])]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


def refusal_at(listener: socket.socket) -> str:
    """Return why a page that is served there may change nothing; nothing where only this machine reaches it."""
    if ip_address(listener.getsockname()[0]).is_loopback:
        return ""
    return "Other machines reach this page, so it only reads: serve it without --host to change what it shows."


def serve(view: View, listener: socket.socket, hosts: Collection[str], token: str) -> None:
    """Serve the page until the process is interrupted. Nothing is logged: addresses have the token."""
    threading.Thread(target=view.prepare, daemon=True).start()  # while a person opens the address
    app = application(view, token, hosts)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


async def _read_body(request: Request) -> bytes:
    """Read a request, and no more of it than it may have."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise InputError(f"a request has {LONGEST:,} bytes at most")
    return body


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body or b"{}")
    except ValueError:
        raise InputError("a request must be JSON") from None
    if not isinstance(values, dict):
        raise InputError("a request must be a JSON object")
    return values


def _find_method(view: View, name: str, values: Mapping[str, Any]) -> Callable[..., Any]:
    if name not in CALLS:
        raise InputError(f"there is no call {name[:40]!r}")
    method: Callable[..., Any] = getattr(view, name)
    try:
        inspect.signature(method).bind(**values)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None
    return method


def _answer(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")

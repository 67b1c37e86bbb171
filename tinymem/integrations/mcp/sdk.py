"""The parts of the official SDK that a server needs, which have other names in version 1 than in version 2."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tinymem import __version__
from tinymem.errors import MissingExtraError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["ResourceError", "ToolError", "new_server", "prompt_error", "tool_hints", "web_app"]

INTERNAL = -32603  # the protocol's code of an error in the server


def _found(*places: str) -> Any:
    """Return the first of these attributes, given as `module:name`, that the installed version has."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("mcp"):
                raise
    raise MissingExtraError("the MCP server", "mcp")


Server = _found("mcp.server.mcpserver:MCPServer", "mcp.server.fastmcp:FastMCP")
_EXCEPTIONS = "mcp.server.mcpserver.exceptions", "mcp.server.fastmcp.exceptions"
ToolError: type[Exception] = _found(*(f"{place}:ToolError" for place in _EXCEPTIONS))
ResourceError: type[Exception] = _found(*(f"{place}:ResourceError" for place in _EXCEPTIONS))
IS_FIRST = Server.__name__ == "FastMCP"


class _Answering(Server):  # type: ignore[misc, valid-type]
    """A server that says in a line what is wrong with the arguments of a call."""

    async def call_tool(self, name: str, *given: Any, **more: Any) -> Any:
        try:
            return await super().call_tool(name, *given, **more)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise ToolError(f"{name}: {'; '.join(map(_fault, error.__cause__.errors()))}") from None


def _fault(error: ErrorDetails) -> str:
    """Say what is wrong with an argument, without the argument."""
    argument = ".".join(map(str, error["loc"])) or "the arguments"
    said = error["msg"].partition(",")[0].removeprefix("Input ")
    return f"{argument} is missing" if error["type"] == "missing" else f"{argument} {said}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep a server that is being made from configuring the process's logging."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def new_server(instructions: str) -> Any:
    """Make a server without tools, of the name and version of this package."""
    with _quiet():
        if not IS_FIRST:
            return _Answering("tinymem", instructions=instructions, version=__version__, log_level="WARNING")
        server = _Answering("tinymem", instructions=instructions, log_level="WARNING")
    server._mcp_server.version = __version__  # FastMCP takes none, and would say the SDK's
    return server


def tool_hints(**hints: bool) -> Any:
    """Return hints about a tool, as `readOnlyHint`."""
    return import_module("mcp.types").ToolAnnotations.model_validate(hints)


def prompt_error(text: str) -> Exception:
    """Return an error whose text reaches the client that asked for a prompt."""
    if IS_FIRST:
        return ValueError(text)
    error: Exception = import_module("mcp.shared.exceptions").MCPError(INTERNAL, text)
    return error


def web_app(server: Any, hosts: list[str], origins: list[str]) -> Any:
    """Return the ASGI app of a server; it refuses requests with another Host or Origin than these."""
    security = import_module("mcp.server.transport_security").TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )
    options = {"transport_security": security, "stateless_http": True, "json_response": True}
    if not IS_FIRST:
        return server.streamable_http_app(**options)
    for name, value in options.items():
        setattr(server.settings, name, value)
    return server.streamable_http_app()

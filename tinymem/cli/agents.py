"""The commands that connect agents to a memory."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from tinymem.cli.shared import Target, on_memory

__all__ = ["mcp"]


@on_memory(without="as_json")
def mcp(
    target: Target,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, not standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(envvar="TINYMEM_TOKEN", help="The bearer token. Default: a new one, which is printed."),
    ] = None,
) -> None:
    """Serve a memory to agents by the Model Context Protocol (extra: mcp).

    The tools are remember, recall, open, recent and forget. docs/mcp.md has the configuration of common clients.

    Example: tinymem mcp --path ~/memory --namespace work
    """
    from tinymem.integrations.mcp.server import memory_server
    from tinymem.integrations.mcp.serving import listening, serve_http, serve_stdio
    from tinymem.integrations.mcp.tools import LazyMemory

    target = replace(target, path=target.path.expanduser())  # clients start it without a shell
    memory = LazyMemory(partial(target.opened, create=True))
    server = memory_server(memory)
    try:
        if not http:
            serve_stdio(server)
            return
        listener = listening(host, port)
        place = f"[{host}]" if ":" in host else host
        secret = token or secrets.token_urlsafe(24)
        where = f"http://{place}:{listener.getsockname()[1]}/mcp"
        typer.echo(f"{where}  token: {'the one that was given' if token else secret}", err=True)
        serve_http(server, listener, host, secret)
    finally:
        memory.close()

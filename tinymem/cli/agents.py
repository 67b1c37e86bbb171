"""The commands that connect agents to a memory."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from tinymem.cli.shared import Target, listen_at, on_memory, say, web_address
from tinymem.errors import InputError, NotAMemoryError, TinymemError

__all__ = ["hook", "mcp"]

EVENTS = ("session-start", "pre-compact", "stop")
LEAST = 100  # tokens of what a session begins with


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
    from tinymem.integrations.mcp.serving import serve_http, serve_stdio
    from tinymem.integrations.mcp.tools import LazyMemory

    target = replace(target, path=os.path.expanduser(target.path))  # clients start it without a shell
    memory = LazyMemory(partial(target.open, create=True))
    server = memory_server(memory)
    try:
        if not http:
            serve_stdio(server)
            return
        listener = listen_at(host, port)
        secret = token or secrets.token_urlsafe(24)
        say(f"{web_address(host, listener)}/mcp  token: {'the one that was given' if token else secret}", err=True)
        serve_http(server, listener, host, secret)
    finally:
        memory.close()


@on_memory(without="as_json")
def hook(
    target: Target,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="session-start, pre-compact or stop.")],
    max_tokens: Annotated[int, typer.Option(min=LEAST, help="The tokens that a session begins with.")] = 1_000,
) -> None:
    """Answer a hook of a coding agent, which writes a JSON object to standard input.

    session-start prints for the context what was said last, or what a compacted session was asked; pre-compact and
    stop add what is new in the session's transcript. An error is exit status 1, which agents report and go on.

    Example: tinymem hook stop --path ~/memory
    """
    from tinymem.runs.hooks import LONGEST, add_transcript, greeting, read_event

    target = replace(target, path=os.path.expanduser(target.path))
    try:
        if event not in EVENTS:
            raise InputError(f"the event must be one of {', '.join(EVENTS)}, not {event!r:.80}")
        details = read_event(sys.stdin.read(LONGEST + 1))
        if event != "session-start":
            with target.open(create=True) as memory:
                add_transcript(memory, details)
            return
        with suppress(NotAMemoryError):  # the first session of all
            with target.open() as memory:
                text = greeting(memory, details, max_tokens)
            if text:
                say(text)
    except TinymemError as error:  # exit status 2 would keep the agent from going on
        say(f"tinymem: {error}", err=True)
        raise typer.Exit(1) from None

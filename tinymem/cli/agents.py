"""The command that serves a memory to agents: `tinymem mcp`."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.shared import Target, listen_at, on_memory, say, web_address
from tinymem.errors import InputError

if TYPE_CHECKING:
    from tinymem.memory.memories import Memories
    from tinymem.steps.redaction import Redact

__all__ = ["mcp"]

OPEN = 32  # namespaces that a server has open at a time

RedactOption = Annotated[
    list[str] | None,
    typer.Option(
        "--redact", metavar="PATTERN", help="A regular expression of what is never kept; `secrets`: keys and passwords."
    ),
]
LeaveAloneOption = Annotated[
    list[str] | None,
    typer.Option("--leave-alone", metavar="FOLDER", help="Projects to do nothing for, such as ~/clients/*."),
]


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
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="Lines of a token and the namespace that it opens.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Option("--name", help="Another name of this machine that requests may come by.")
    ] = None,
    repository: Annotated[
        bool, typer.Option("--repository", help="The namespace is that of the repository that it is started in.")
    ] = False,
    per_worktree: Annotated[bool, typer.Option("--per-worktree", help="The same, but of the worktree alone.")] = False,
    also: Annotated[
        list[str] | None, typer.Option("--also", metavar="NAMESPACE", help="A namespace to read beside it.")
    ] = None,
    redact: RedactOption = None,
    leave_alone: LeaveAloneOption = None,
) -> None:
    """Serve a memory to agents by the Model Context Protocol (extra: mcp).

    The tools are remember, recall, open, recent and forget. docs/mcp.md has the configuration of common clients.

    Example: tinymem mcp --path ~/memory --namespace work
    """
    from tinymem.integrations.mcp.server import memory_server, new_server
    from tinymem.integrations.mcp.serving import read_tokens, serve_http, serve_stdio
    from tinymem.integrations.mcp.tools import LazyMemory
    from tinymem.runs.hooks.privacy import is_left_alone, redact_with
    from tinymem.runs.hooks.repositories import namespace_of

    target = replace(target, path=os.path.expanduser(target.path))  # clients start it without a shell
    if repository or per_worktree:
        target = replace(target, namespace=namespace_of(os.getcwd(), per_worktree))
    if tokens is not None and not http:
        raise InputError("--tokens is for --http: over standard input there is one client")
    known = read_tokens(Path(os.path.expanduser(tokens))) if tokens else {}

    kept = redact_with(redact or ())
    opener = partial(_all_of, target, kept) if known else partial(target.open, create=True, redact=kept)
    memory = LazyMemory(opener, per_request=bool(known))
    beside = [
        LazyMemory(partial(replace(target, namespace=name).open, writes=True, redact=kept)) for name in also or ()
    ]
    is_alone = is_left_alone([os.getcwd()], leave_alone or ())
    server = new_server("This project is left alone.") if is_alone else memory_server(memory, beside)
    try:
        if http:
            secret = token or secrets.token_urlsafe(24)
            said = "those in the file" if known else "the one that was given" if token else secret
            listener = listen_at(host, port)
            say(f"{web_address(host, listener)}/mcp  token: {said}", err=True)
            serve_http(server, listener, host, known or {secret: target.namespace}, names or ())
        else:
            serve_stdio(server)
    finally:
        for opened_memory in (memory, *beside):
            opened_memory.close()


def _all_of(target: Target, redact: Redact) -> Memories:
    """Open all namespaces of a memory."""
    from tinymem.memory.memories import Memories

    return Memories(target.place, max_open=OPEN, embedder=target.embedder, redact=redact)

"""The command `tinymem inspect`, which serves the page of a memory or writes it to a file."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.shared import Target, listen_at, on_memory, say, web_address
from tinymem.errors import InputError, StorageError
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["inspect"]


@on_memory(without="embedder as_json")
def inspect(
    target: Target,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the page, with the newest steps, to a file.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="With --html: how many of the newest steps.")] = 2_000,
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="QUESTION", help="With --html: a question that the file answers; repeatable."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = 0,
) -> None:
    """Show a memory on a page, and correct, mark and forget what it holds (extra: inspect).

    The page opens in a browser under the address that is printed, which has a secret token. It is served on this
    machine only, and nothing on it comes from anywhere else. A file has the same page without a server, to read only.

    Example: tinymem inspect --path ./memory
    """
    if ask and not html:
        raise InputError("--ask belongs to --html: a page that is served answers every question")
    with target.open_to_search() if html else target.open() as memory:
        if html:
            _write_page(memory, html, steps, ask or ())
        else:
            _serve_page(memory, host, port)


def _serve_page(memory: HierarchicalMemory, host: str, port: int) -> None:
    from tinymem.cli.inspector.server import LOOPBACK, refusal_at, serve
    from tinymem.cli.inspector.view import View

    listener, token = listen_at(host, port), secrets.token_urlsafe(24)
    say(f"{web_address(host, listener)}/?token={token}\nCtrl-C ends it.", err=True)
    serve(View(memory, refusal_at(listener)), listener, {*LOOPBACK, f"[{host}]" if ":" in host else host}, token)


def _write_page(memory: HierarchicalMemory, file: Path, steps: int, questions: Sequence[str]) -> None:
    from tinymem.cli.inspector.page import page
    from tinymem.cli.inspector.snapshot import snapshot
    from tinymem.cli.inspector.view import View
    from tinymem.stores.files import open_private

    data = snapshot(View(memory), steps, questions)
    text = page(data)
    try:
        with open(file, "w", encoding="utf-8", opener=open_private) as out:
            out.write(text)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror or error}") from error
    say(f"Wrote {len(data['steps']):,} of {pluralize(data['overview']['steps'], 'step')} to {file}.")

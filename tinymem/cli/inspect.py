"""The commands that show what is in a memory: `tinymem show`, `inspect`, `get`, `stats` and `namespaces`."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.shared import Target, listen_at, on_memory, say, web_address
from tinymem.errors import InputError, StorageError
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.cli.inspector.view import View
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["get", "inspect", "namespaces", "show", "stats"]

WRITTEN = 2_000  # steps of a page in a file, the newest
LEAST_ID = 10  # characters of an id; a shorter number is a step's number


@on_memory()
def inspect(
    target: Target,
    steps: Annotated[
        int | None,
        typer.Option(min=0, help="How many of the newest steps to list, or to write. Default: 50; for --html 2,000."),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Serve a page that shows the memory (extra: inspect).")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write that page, with the newest steps, to a file.")
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="QUESTION", help="With --html: a question that the file answers; repeatable."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The token budget of a context on the page.")] = 16_000,
    host: Annotated[str, typer.Option(help="With --web: the address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="With --web: the port; 0 takes a free one.")] = 0,
) -> None:
    """Print what a memory holds, or show it on a page: timeline, recall, context, episodes.

    The page opens in a browser under the address that is printed, which has a secret token. It is served on this
    machine only, and nothing on it comes from anywhere else. A file has the same page without a server.

    Example: tinymem inspect --web
    """
    if web and html:
        raise InputError("give --web or --html, not both")
    if ask and not html:
        raise InputError("--ask belongs to --html: a page that is served answers every question")
    with target.open_to_search() if html else target.open() as memory:
        if not web and not html:
            from tinymem.memory.inspection.report import LISTED, report_of

            report = report_of(memory, LISTED if steps is None else steps)
            target.answer(report.record(), report)
            return
        from tinymem.cli.inspector.view import View

        memory.max_tokens = max_tokens
        if html:
            _write_page(target, View(memory), html, WRITTEN if steps is None else steps, ask or ())
        else:
            _serve_page(target, View(memory), host, port)


def _serve_page(target: Target, view: View, host: str, port: int) -> None:
    from tinymem.archive.folders import namespaces as names_in
    from tinymem.cli.inspector.server import LOOPBACK, serve
    from tinymem.cli.inspector.view import Views

    listener, token = listen_at(host, port), secrets.token_urlsafe(24)
    where = web_address(host, listener)
    say(f"{where}/?token={token}\nCtrl-C ends it.", err=True)
    with ExitStack() as opened:

        def open_another(namespace: str) -> HierarchicalMemory:
            memory = opened.enter_context(replace(target, namespace=namespace, embedder=None).open())
            memory.max_tokens = view.memory.max_tokens
            return memory

        views = Views(view, lambda: names_in(target.place), open_another)
        serve(views, listener, {*LOOPBACK, f"[{host}]" if ":" in host else host}, token)


def _write_page(target: Target, view: View, file: Path, steps: int, questions: Sequence[str]) -> None:
    from tinymem.cli.inspector.page import page
    from tinymem.cli.inspector.snapshot import snapshot
    from tinymem.stores.files import open_private

    data = snapshot(view, steps, questions)
    text = page(data)
    try:
        with open(file, "w", encoding="utf-8", opener=open_private) as out:
            out.write(text)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror or error}") from error
    written, every = len(data["steps"]), data["overview"]["steps"]
    record = {"file": str(file), "steps": written, "of": every, "characters": len(text)}
    target.answer(record, f"Wrote {written:,} of {pluralize(every, 'step')} to {file}.")


@on_memory()
def show(
    target: Target,
    steps: Annotated[int, typer.Option(min=0, help="How many of the newest steps to list.")] = 16,
) -> None:
    """Print a memory in short: its tiers, sessions, episodes and newest steps. Also: tinymem visualize.

    Example: tinymem show --steps 5
    """
    from tinymem.memory.inspection.report import report_of

    with target.open() as memory:
        report = report_of(memory, steps)
        target.answer(report.record(), report)


@on_memory()
def get(
    target: Target, id: Annotated[str, typer.Argument(metavar="ID", help="The id or the number of a step.")]
) -> None:
    """Print one step, whole, also what an excerpt of it leaves out.

    Example: tinymem get 42
    """
    with target.open() as memory:
        step = memory.get(int(id) if id.isdecimal() and len(id) < LEAST_ID else id)
    if not target.as_json:
        from tinymem.steps.types import shown_time

        facts = (f"step {step.step_number}", step.type, step.session, step.speaker, shown_time(step), f"id {step.id}")
        say(", ".join(filter(None, facts)), err=True)
    target.answer(step.to_dict(), "\n\n".join(f"[{part.kind}]\n{part.text}" for part in step.parts()))


@on_memory(without="namespace embedder")
def namespaces(target: Target) -> None:
    """List the namespaces of a memory, one a line.

    Example: tinymem namespaces --path ./memory
    """
    from tinymem.archive.folders import namespaces as names_in

    names = names_in(target.place)
    if not names:
        target.check()  # says what to type
    target.answer(names, "\n".join(names))


@on_memory()
def stats(target: Target) -> None:
    """Print how much a memory holds.

    Example: tinymem stats --path ./memory --json
    """
    with target.open() as memory:
        values = dataclasses.asdict(memory.stats())
    shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()}
    width = max(map(len, shown)) + 2
    target.answer(values, "\n".join(f"{name.replace('_', ' '):<{width}}{value}" for name, value in shown.items()))

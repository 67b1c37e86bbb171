"""The memory that a command is about, how to open it, and how to print an answer."""

from __future__ import annotations

import inspect
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinymem.cli.options import JsonOption, parse_where
from tinymem.errors import InputError, NotAMemoryError

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.recall import Excerpt
    from tinymem.steps.redaction import Redact
    from tinymem.steps.terminal import ShownText

__all__ = ["FilteredTarget", "Target", "confirm", "excerpt_record", "listen_at", "on_memory", "plain", "print_json",
           "say", "warn", "web_address"]  # fmt: skip

MOST_NAMES = 5  # of namespaces in an error
TIME = "ISO 8601; UTC where it has no zone."


@dataclass(frozen=True)
class Target:
    """The memory that a command is about, and whether to print JSON; the options that most commands have."""

    path: Annotated[
        str,
        typer.Option(
            envvar="TINYMEM_PATH", metavar="PATH", help="The folder of the memory, or the address of a database."
        ),
    ] = "memory"
    namespace: Annotated[str, typer.Option(envvar="TINYMEM_NAMESPACE", help="The namespace in the memory.")] = "default"
    embedder: Annotated[
        str | None,
        typer.Option(
            envvar="TINYMEM_EMBEDDER",
            help="The embedder, such as openai:NAME. Default: the one that the memory was written with; static for a "
            "new memory.",
        ),
    ] = None
    as_json: JsonOption = False

    @property
    def place(self) -> str | Path:
        """The folder, or the address of a database."""
        from tinymem.archive.folders import to_place

        return to_place(self.path)

    @property
    def display_path(self) -> str:
        """The folder as it was given, or the address without its password."""
        from tinymem.stores.journals import shown_address

        return shown_address(self.place) if isinstance(self.place, str) else self.path

    def open(self, create: bool = False, writes: bool = False, redact: Redact | None = None) -> HierarchicalMemory:
        """Open the memory; without an embedder, with the one that it remembers.

        Unless the command writes, what waits for the index goes on waiting.
        """
        from tinymem.memory.hierarchy import HierarchicalMemory

        memory = HierarchicalMemory(
            self.place, namespace=self.namespace, embedder=self.embedder, create=create, redact=redact
        )
        memory.long_term.indexing.in_background = writes or create
        return memory

    @contextmanager
    def open_to_search(self) -> Iterator[HierarchicalMemory]:
        """Open the memory to search it, and show the progress where a large one is opened on this machine first."""
        from tinymem.steps.progress import show_progress

        with self.open() as memory:
            with show_progress(sys.stderr, "opening", "passages") as progress:
                memory.long_term.current(progress)
            yield memory

    def explain(self, error: NotAMemoryError) -> NotAMemoryError:
        """Return what to type where a folder has no such memory; the error as it is where that is not all."""
        from tinymem.archive.folders import namespaces

        path, namespace = self.place, self.namespace
        names = [] if isinstance(path, str) else namespaces(path)
        if isinstance(path, str) or namespace in names:
            return error
        if not names:
            place = str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"
            return NotAMemoryError(
                f"there is no memory at {place}: make one with `tinymem ingest FILE --path {quote(place)}`, "
                "or give --path"
            )
        first = ", ".join(map(repr, names[:MOST_NAMES]))
        more = f" and {len(names) - MOST_NAMES:,} more (tinymem namespaces --path {path})" if names[MOST_NAMES:] else ""
        return NotAMemoryError(f"there is no namespace {namespace!r} in the memory at {path}: it has {first}{more}")

    def answer(self, record: Any, text: str | ShownText) -> None:
        """Print the record as JSON if that was asked for, else the text; a report as wide as the terminal."""
        if self.as_json:
            print_json(record)
        elif isinstance(text, str):
            say(text)
        elif not sys.stdout.isatty():
            from tinymem.steps.terminal import terminal_width

            say(text.text(terminal_width()))
        else:  # a report gets colours on a terminal
            from rich.console import Console

            Console().print(text)


@dataclass(frozen=True)
class FilteredTarget(Target):
    """The same, and the options by which commands choose steps."""

    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Only steps from then on. {TIME}")] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only steps up to then; a day is all of it.")] = None
    session: Annotated[str | None, typer.Option(help="Only steps of this session.")] = None
    speaker: Annotated[str | None, typer.Option(help="Only what this person said.")] = None
    tool: Annotated[str | None, typer.Option(help="Only steps that call this tool.")] = None
    type: Annotated[str | None, typer.Option(help='Only steps of this type, such as "action".')] = None
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only steps with this in their metadata; several may be given."),
    ] = None

    def filters(self) -> dict[str, Any]:
        """Return the filters as the calls of a memory take them."""
        chosen = {name: value for name, value in vars(self).items() if name not in Target.__annotations__}
        return chosen | {"where": parse_where(self.where)}


def on_memory(without: str = "embedder") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, whose first argument is a Target of some kind, the options of it, less those named in `without`.

    A memory remembers its embedder, so only the commands that may make one have that option.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        target, *others = inspect.signature(command, eval_str=True).parameters.values()
        every = inspect.signature(target.annotation, eval_str=True).parameters.values()
        shared = [option for option in every if option.name not in without.split()]

        def run(**given: Any) -> None:
            about = target.annotation(**{option.name: given.pop(option.name) for option in shared})
            try:
                command(about, **given)
            except NotAMemoryError as error:
                raise about.explain(error) from None

        run.__doc__ = command.__doc__
        run.__signature__ = inspect.Signature([*others, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {option.name: option.annotation for option in (*others, *shared)}
        return run

    return decorate


def confirm(question: str) -> bool:
    """Ask on standard error, and return whether standard input answers yes; no answer is a no."""
    say(f"{question} [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Print a text, with nothing in it that a terminal would obey: everything that is printed passes here."""
    from tinymem.steps.terminal import printable

    typer.echo(printable(text), err=err, nl=nl)


def warn(text: str) -> None:
    """Say on standard error what went wrong, or what is to know beside the answer."""
    say(f"tinymem: {text}", err=True)


def print_json(value: Any) -> None:
    """Print one JSON value."""
    say(json.dumps(value, default=plain))


def plain(value: Any) -> str:
    """Return a value that JSON has not as text; times as ISO 8601."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def excerpt_record(item: Excerpt) -> dict[str, Any]:
    """Return an excerpt as JSON has it."""
    from tinymem.steps.types import is_undated

    step = item.step
    where = {"step": step.step_number, "id": step.id, "type": step.type, "session": step.session}
    when = {"timestamp": None if is_undated(step) else step.timestamp.isoformat()}
    what = {
        name: getattr(item, name) for name in ("part", "start", "end", "tokens", "score", "relevance", "text", "mark")
    }
    return where | when | what | {"why": dict(item.why)}


def listen_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at {host} port {port}: {getattr(error, 'strerror', None) or error}") from None


def web_address(host: str, listener: socket.socket) -> str:
    """Return the address that a browser or a client opens."""
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{listener.getsockname()[1]}"

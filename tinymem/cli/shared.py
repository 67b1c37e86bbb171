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
from typing import TYPE_CHECKING, Any

import typer

from tinymem.cli.options import MEMORY, EmbedderOption, FilterOptions, JsonOption, NamespaceOption, PathOption
from tinymem.errors import InputError, NotAMemoryError

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.recall import Excerpt
    from tinymem.steps.redaction import Redact
    from tinymem.steps.terminal import ShownText

__all__ = ["Target", "confirm", "excerpt_record", "listen_at", "on_memory", "print_json", "say",
           "web_address"]  # fmt: skip

MOST_NAMES = 5  # of namespaces in an error


@dataclass(frozen=True)
class Target:
    """The memory that a command is about, and whether to print JSON; the options that most commands have."""

    path: PathOption = MEMORY
    namespace: NamespaceOption = "default"
    embedder: EmbedderOption = None
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

        if not create:
            self.check()
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

    def check(self) -> None:
        """Raise NotAMemoryError, which says what to type, where there is no such memory."""
        from tinymem.archive.folders import folder_name, namespaces
        from tinymem.stores.journals import has_journal

        path, namespace = self.place, self.namespace
        if isinstance(path, str):
            return  # opening says it
        folder = path / folder_name(namespace)
        names = namespaces(path)
        if namespace in names or has_journal(folder):
            return
        if not names:
            place = str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"
            raise NotAMemoryError(
                f"there is no memory at {place}: make one with `tinymem ingest FILE --path {quote(place)}`, "
                "or give --path"
            )
        first = ", ".join(map(repr, names[:MOST_NAMES]))
        more = f" and {len(names) - MOST_NAMES:,} more (tinymem namespaces --path {path})" if names[MOST_NAMES:] else ""
        raise NotAMemoryError(f"there is no namespace {namespace!r} in the memory at {path}: it has {first}{more}")

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


def on_memory(without: str = "embedder") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, whose first argument is a Target, the options of one, less those named in `without`.

    A memory remembers its embedder, so only the commands that may make one have that option.

    A second argument `filters` stands for the options of Filters.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *others = inspect.signature(command, eval_str=True).parameters.values()
        rest = [option for option in others if option.name != "filters"]
        filters = _options_of(FilterOptions) if len(rest) < len(others) else []
        shared = [option for option in _options_of(Target) if option.name not in without.split()]

        def run(**given: Any) -> None:
            target = Target(**{option.name: given.pop(option.name) for option in shared})
            if filters:
                given["filters"] = FilterOptions(**{option.name: given.pop(option.name) for option in filters})
            command(target, **given)

        every = [*rest, *filters, *shared]
        run.__doc__ = command.__doc__
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {option.name: option.annotation for option in every}
        return run

    return decorate


def _options_of(kind: type) -> list[inspect.Parameter]:
    return [*inspect.signature(kind, eval_str=True).parameters.values()]


def confirm(question: str) -> bool:
    """Ask on standard error, and return whether standard input answers yes; no answer is a no."""
    say(f"{question} [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Print a text, with nothing in it that a terminal would obey: everything that is printed passes here."""
    from tinymem.steps.terminal import printable

    typer.echo(printable(text), err=err, nl=nl)


def print_json(value: Any) -> None:
    """Print one JSON value; times as ISO 8601."""
    say(json.dumps(value, default=_plain))


def _plain(value: Any) -> str:
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

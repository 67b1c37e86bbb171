"""What several commands do alike: open the memory, ask, print JSON, print a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from tinymem.errors import NotAMemoryError

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.recall import Excerpt
    from tinymem.steps.terminal import Shown

__all__ = ["agreed", "check_memory", "excerpt_record", "opened", "print_json", "print_report"]

MOST_NAMES = 5  # of namespaces in an error


@contextmanager
def opened(path: Path, namespace: str, embedder: str | None, create: bool = False) -> Iterator[HierarchicalMemory]:
    """The memory, closed afterwards; without an `embedder`, with the one that it remembers."""
    from tinymem.memory.hierarchy import HierarchicalMemory

    if not create:
        check_memory(path, namespace)
    with HierarchicalMemory(path, namespace=namespace, embedder=embedder, create=create) as memory:
        yield memory


def check_memory(path: Path, namespace: str) -> None:
    """Raise NotAMemoryError, which says what to type, where there is no such memory."""
    from tinymem.archive.folders import folder_name, namespaces

    folder_name(namespace)
    names = namespaces(path)
    if namespace in names or (path / folder_name(namespace) / "journal.db").exists():
        return
    if not names:
        place = str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"
        raise NotAMemoryError(
            f"there is no memory at {place}: make one with `tinymem ingest FILE --path {quote(place)}`, or give --path"
        )
    some = ", ".join(map(repr, names[:MOST_NAMES]))
    more = f" and {len(names) - MOST_NAMES:,} more (tinymem namespaces --path {path})" if names[MOST_NAMES:] else ""
    raise NotAMemoryError(f"there is no namespace {namespace!r} in the memory at {path}: it has {some}{more}")


def agreed(question: str) -> bool:
    """Ask on standard error; whether the answer on standard input is yes. Nobody there is a no."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_json(value: Any) -> None:
    """One JSON value; times as ISO 8601 has them."""
    typer.echo(json.dumps(value, default=lambda one: one.isoformat() if isinstance(one, datetime) else str(one)))


def excerpt_record(item: Excerpt) -> dict[str, Any]:
    """An excerpt for JSON."""
    step = item.step
    where = {"step": step.step_number, "id": step.id, "type": step.type, "session": step.session}
    when = {"timestamp": step.timestamp.isoformat()}
    what = {name: getattr(item, name) for name in ("part", "start", "end", "tokens", "score", "text")}
    return where | when | what | {"why": dict(item.why)}


def print_report(report: Shown) -> None:
    """Print through rich where somebody watches and rich is installed, else as plain text."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
        except ImportError:
            pass
        else:
            Console().print(report)
            return
    typer.echo(str(report))

"""What several commands do alike: open the memory, print JSON, print a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tinymem.hierarchy import HierarchicalMemory
    from tinymem.recall import Excerpt
    from tinymem.terminal import Shown

__all__ = ["excerpt_record", "opened", "print_json", "print_report"]


@contextmanager
def opened(path: Path, namespace: str, embedder: str, create: bool = False) -> Iterator[HierarchicalMemory]:
    """The memory, closed afterwards."""
    from tinymem.hierarchy import HierarchicalMemory

    with HierarchicalMemory(path, namespace=namespace, embedder=embedder, create=create) as memory:
        yield memory


def print_json(value: Any) -> None:
    """One JSON value; times as ISO 8601 has them."""
    typer.echo(json.dumps(value, default=lambda one: one.isoformat() if isinstance(one, datetime) else str(one)))


def excerpt_record(item: Excerpt) -> dict[str, Any]:
    """An excerpt for JSON."""
    step = item.step
    where = {"step": step.number, "id": step.id, "type": step.type, "session": step.session}
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

"""A progress bar, on a terminal only; it disappears at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

__all__ = ["Progress", "no_progress", "show_progress"]

Progress: TypeAlias = Callable[[int, int | None], object]  # called with the work done, and all of it (None: unknown)


def no_progress(done: int, total: int | None) -> None:
    """A Progress that shows nothing."""


@contextmanager
def show_progress(stream: TextIO, doing: str, unit: str) -> Iterator[Progress]:
    """Show a bar on `stream`, if that is a terminal, with the name of the work and the number of units done."""
    if not stream.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Bar(*columns, console=Console(file=stream), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)

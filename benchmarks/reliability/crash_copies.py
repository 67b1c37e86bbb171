"""The crash benchmark's checks of files that a killed process exported, and of memories that it imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.reliability.crash_worker import EMBEDDERS, Ledger, opened
from tinymem.archive.folders import namespace_folder
from tinymem.errors import InputError, NotAMemoryError
from tinymem.stores.journals import open_journal
from tinymem.upkeep import import_memory

__all__ = ["of_copies"]


def of_copies(folder: Path, ledger: Ledger) -> Iterator[str]:
    """All that was done is whole; of what was under way, a file is refused or whole, a memory empty or whole."""
    for _, name, count in ledger.lines_of("exporting"):
        yield from _of_file(folder.with_name(name), count, name in ledger.of("exported"))
    for _, name, count in ledger.lines_of("importing"):
        yield from _of_import(folder.with_name(name), count, name in ledger.of("imported"))


def _of_file(file: Path, count: int, done: bool) -> Iterator[str]:
    place = file.with_suffix("")
    try:
        came = import_memory(place, file, embedder=EMBEDDERS[0]).steps
    except InputError as error:
        if done:
            yield f"{file.name} was exported, and is refused: {error}"
        came = None
    if came not in (None, count):
        yield f"{file.name} has {came} steps, and not {count}"
    elif came is None and _held(place):
        yield f"of {file.name}, which is refused, {_held(place)} steps came in"
    elif came is not None:
        yield from _of_memory(place, count)


def _of_import(place: Path, count: int, done: bool) -> Iterator[str]:
    if done or _held(place):
        yield from _of_memory(place, count)


def _held(place: Path) -> int:
    """Count the steps of the memory in a folder; 0 if there is none."""
    try:
        folder = namespace_folder(place, "default", create=False)
    except NotAMemoryError:
        return 0
    with closing(open_journal(folder, create=False)) as journal:
        return journal.counts()["steps"]


def _of_memory(place: Path, count: int) -> Iterator[str]:
    """A copy is one that opens, with all steps, and takes more."""
    if (held := _held(place)) != count:
        yield f"{place.name} has {held} steps, and not {count}"
    with opened(place, "exact") as memory:
        if not memory.recall("pump reached bar", 300).items:
            yield f"nothing is recalled of {place.name}"

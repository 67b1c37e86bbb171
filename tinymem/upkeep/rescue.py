"""The steps of a damaged memory that can still be read, one by one, whatever else is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tinymem.archive.folders import namespace_folder
from tinymem.errors import InputError, NotAMemoryError, StorageError, TinymemError
from tinymem.steps.checks import a_path
from tinymem.steps.serialization import dump_step, load_step
from tinymem.steps.step import Step
from tinymem.steps.types import is_milestone
from tinymem.stores.files import opener
from tinymem.stores.journals import SavedStep, damaged_file, saved_steps

__all__ = ["Salvaged", "salvage", "salvage_to"]


class Salvaged(NamedTuple):
    """The number of steps, and of missing numbers before the last one, whose steps are damaged or forgotten."""

    steps: int
    missing: int


def salvage(path: str | Path, namespace: str = "default") -> Iterator[Step]:
    """Read the readable steps of a damaged memory, in order, with their numbers; nothing there is changed.

    The database engine is not used. Every page of the journal's file is read by itself, so a damaged page, even the
    first, costs only its own steps. A step must be whole, and have the id or the number that stand beside it; a changed
    letter is not noticed. Forgotten steps do not come back. No process may have the memory open.

    >>> for step in salvage("./memory"):  # doctest: +SKIP
    ...     print(step.step_number, step.text)

    Add them to a new memory with `add_steps`, without tool results whose calls are lost. It makes summaries and vectors
    again. The scratchpad is not read.

    Args:
        path: The memory's folder, a namespace's folder in it, or a `journal.db`.
        namespace: The namespace, where `path` is the memory's folder.

    Returns:
        The steps, read one by one.

    Raises:
        NotAMemoryError: There is no journal.
        StorageError: It cannot be read at all.
    """
    path = a_path("path", path)
    file = damaged_file(path) or damaged_file(namespace_folder(path, namespace, create=False))
    if file is None:
        raise NotAMemoryError(f"the journal of {path} is not a file")
    try:
        file.open("rb").close()
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror or error}") from error
    return _steps(saved_steps(file))


def salvage_to(file: str | Path, path: str | Path, namespace: str = "default") -> Salvaged:
    """Write the steps that `salvage` finds into a new `file`, each as a line of JSON for `Step.from_dict`.

    Raises:
        InputError: The file is there already.
        StorageError: It cannot be written, or the journal cannot be read.
        NotAMemoryError: There is no journal.
    """
    steps = salvage(path, namespace)
    numbers = []
    try:
        with open(file, "x", encoding="ascii", opener=opener) as stream:
            for step in steps:
                stream.write(f"{dump_step(step)}\n")
                numbers.append(step.step_number or 0)
    except FileExistsError as error:
        raise InputError(f"{file} exists already: choose another name, so that nothing is overwritten") from error
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror or error}") from error
    return Salvaged(len(numbers), max(numbers, default=0) - len(numbers))


def _steps(rows: Iterable[SavedStep]) -> Iterator[Step]:
    given = set[int]()
    for row in rows:
        step = _step(row)
        if step is not None and row.number not in given:
            given.add(row.number)
            yield step


def _step(row: SavedStep) -> Step | None:
    """Return the step of a row, if it is whole."""
    try:
        step = load_step(row.record)
    except TinymemError:
        return None
    if step.step_number != row.number:
        if step.id != row.id:
            return None
        step = step.evolve(step_number=row.number)
    if row.milestone and not is_milestone(step):
        return step.evolve(metadata={**step.metadata, "milestone": True})
    return step

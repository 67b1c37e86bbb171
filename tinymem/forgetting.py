"""What is forgotten: the steps that are meant by ids and filters, and whole namespaces."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from tinymem.actions import ActionStep
from tinymem.archive import Archive
from tinymem.checks import one_of
from tinymem.errors import StorageError
from tinymem.folders import namespace_folder
from tinymem.recall.passages import tool_name
from tinymem.recall.scoring import Filter
from tinymem.serialization import STEP_TYPES

__all__ = ["chosen", "forget_namespace"]

AT_ONCE = 500  # steps that are read to see which tools they call


def chosen(archive: Archive, ids: Sequence[str], only: Filter, before: datetime | None) -> list[int]:
    """The numbers of the steps with these ids, and of those that all filters let pass, if there is any filter."""
    limits: dict[str, str | float] = {
        name: value if isinstance(value, str) else value.timestamp()
        for name, value in (*vars(only).items(), ("before", before))
        if value is not None and name != "tool"
    }
    if only.type is not None:
        one_of("type", only.type, *STEP_TYPES)
    found = archive.journal.matching(limits) if limits or only.tool is not None else []
    if only.tool is not None:
        found = _calling(archive, found, only.tool)
    return sorted({*found, *archive.journal.numbers(ids)})


def _calling(archive: Archive, numbers: Sequence[int], tool: str) -> list[int]:
    """Those of the steps that call `tool`."""
    found: list[int] = []
    wanted = tool_name(tool)
    for at in range(0, len(numbers), AT_ONCE):
        steps = archive.fetch(numbers[at : at + AT_ONCE])
        actions = ((number, step) for number, step in steps.items() if isinstance(step, ActionStep))
        found += [number for number, step in actions if any(tool_name(call.name) == wanted for call in step.tool_calls)]
    return found


def forget_namespace(path: str | Path, namespace: str) -> None:
    """Remove a namespace of the memory at `path`, for good: its folder goes. Other namespaces are as they were.

    Raises NotAMemoryError where there is none, and StorageError when somebody has it open, or a file cannot be removed;
    called again, it goes on.
    """
    folder = namespace_folder(Path(path), namespace, create=False)
    journal = folder / "journal.db"
    _check_alone(journal)
    try:
        for child in sorted(folder.iterdir(), key=lambda one: one.name.startswith(journal.name)):
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()  # the journal last: as long as it is there, the rest can be removed by this
        folder.rmdir()
    except OSError as error:
        raise StorageError(f"{folder} cannot be removed: {error.strerror or error}; do so again") from error


def _check_alone(journal: Path) -> None:
    """StorageError when the journal is open anywhere: only who is alone can leave SQLite's log mode."""
    try:
        with closing(sqlite3.connect(journal, timeout=0)) as db:
            db.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StorageError(f"{journal.parent} is in use: close the memories that have it open first") from error
    except sqlite3.DatabaseError:
        pass  # what is damaged can go as well

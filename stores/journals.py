"""The journal of a namespace's folder: the one place that knows which engine keeps it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tinymem.errors import StorageError
from tinymem.protocols import Journal
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.stores.sqlite.pages import SavedStep, saved_steps

__all__ = ["SavedStep", "check_unused", "damaged_file", "has_journal", "has_steps", "journal_files", "open_journal",
           "saved_steps"]  # fmt: skip

FILE = "journal.db"


def open_journal(folder: Path, create: bool = True) -> Journal:
    """Open the journal in `folder`, which must exist; make it if there is none and `create`.

    Raises StorageError for one that cannot be opened, FormatError for one that is damaged or of a newer format.
    """
    return SqliteJournal(folder / FILE, create)


def has_journal(folder: Path) -> bool:
    """Tell if there is a journal in `folder`."""
    return (folder / FILE).exists()


def has_steps(folder: Path) -> bool:
    """Tell if the journal in `folder` holds a step, or may hold one: it is damaged, or in use. It is only read."""
    with closing(sqlite3.connect(folder / FILE, timeout=0)) as db:
        try:
            return db.execute("SELECT 1 FROM steps LIMIT 1").fetchone() is not None
        except sqlite3.DatabaseError as error:
            return "no such table" not in str(error)


def check_unused(folder: Path) -> None:
    """Raise StorageError if the journal in `folder` is open anywhere: only who is alone can leave SQLite's log mode."""
    try:
        with closing(sqlite3.connect(folder / FILE, timeout=0)) as db:
            db.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StorageError(f"{folder} is in use: close the memories that have it open first") from error
    except sqlite3.DatabaseError:
        pass  # what is damaged can go as well


def journal_files(folder: Path) -> set[Path]:
    """Return the files of the journal in `folder`; those of anything else there are not among them."""
    return {*folder.glob(f"{FILE}*")}


def damaged_file(path: Path) -> Path | None:
    """Return the file that `saved_steps` reads: `path`, or the journal's in the folder `path`, if there is one."""
    return next((file for file in (path, path / FILE) if file.is_file()), None)

"""The tables of the journal's file, and their format."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tinymem.errors import FormatError

__all__ = ["FORMAT", "check_format", "make_tables", "version_of"]

FORMAT = 9
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, session TEXT, speaker TEXT,
    time REAL NOT NULL, tokens INTEGER NOT NULL, position INTEGER NOT NULL, record TEXT NOT NULL,
    window INTEGER NOT NULL, view TEXT, milestone INTEGER NOT NULL DEFAULT 0, archived REAL);
CREATE INDEX IF NOT EXISTS steps_in_window ON steps (number) WHERE window = 1;
CREATE INDEX IF NOT EXISTS steps_by_session ON steps (session);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, step INTEGER NOT NULL, part INTEGER NOT NULL, start INTEGER NOT NULL,
    end INTEGER NOT NULL, kind TEXT NOT NULL, asks INTEGER NOT NULL, identifiers BLOB NOT NULL, tools TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS passages_by_step ON passages (step);
CREATE TABLE IF NOT EXISTS vectors (
    embedder TEXT NOT NULL, passage INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (passage, embedder)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS summaries (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, session TEXT, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    said TEXT NOT NULL, nth INTEGER NOT NULL, step INTEGER NOT NULL, is_last INTEGER NOT NULL,
    PRIMARY KEY (said, nth)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS labels (
    name TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (name, value, step)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS labels_by_step ON labels (step);
CREATE TABLE IF NOT EXISTS notes (
    step INTEGER NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (step, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS notes_by_key ON notes (key);
"""


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise FormatError where another version wrote the journal, in a format of its own."""
    if (version := version_of(db)) not in (0, FORMAT):
        raise FormatError(
            f"{path} has format {version}, this version reads {FORMAT}: open it with the version of tinymem that wrote "
            "it, move its memory by `tinymem export` there and `tinymem import` here, or delete the folder"
        )


def version_of(db: sqlite3.Connection) -> int:
    """Return the format of the file; 0 for a new one."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, once even if several processes open the file."""
    db.execute("BEGIN IMMEDIATE")
    try:
        if not version_of(db):  # or another process was faster
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise

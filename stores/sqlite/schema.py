"""The tables of the journal's file, and upgrades from older formats."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from tinymem.errors import FormatError

__all__ = ["FORMAT", "MIGRATIONS", "Migration", "check_format", "make_tables", "version_of"]

FORMAT = 7
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
    level INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, session TEXT, text TEXT NOT NULL,
    PRIMARY KEY (level, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    said TEXT NOT NULL, nth INTEGER NOT NULL, step INTEGER NOT NULL, is_last INTEGER NOT NULL,
    PRIMARY KEY (said, nth)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS labels (
    name TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (name, value, step)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS labels_by_step ON labels (step);
CREATE TABLE IF NOT EXISTS files (
    step INTEGER NOT NULL, place INTEGER NOT NULL, call INTEGER NOT NULL, path TEXT NOT NULL, kind INTEGER NOT NULL,
    lines BLOB NOT NULL, gone BLOB NOT NULL, PRIMARY KEY (step, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_path ON files (path);
CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, passage INTEGER NOT NULL);
"""


class Migration(NamedTuple):
    """An upgrade from the format before `to` to that one, in one transaction with all later ones."""

    to: int
    why: str
    sql: str


# Upgrades of older formats, in order. Each is complete in itself and never changes, and a file of the format before it
# is kept for the tests.
MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        2,
        "histories that are handed over again are known message by message, and metadata is searched",
        """
ALTER TABLE steps ADD COLUMN archived REAL;
CREATE TABLE links (
    link TEXT PRIMARY KEY, alike TEXT NOT NULL, step INTEGER NOT NULL, place INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX links_alike ON links (alike, step);
CREATE TABLE labels (
    name TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (name, value, step)) WITHOUT ROWID;
CREATE INDEX labels_by_step ON labels (step);
INSERT OR IGNORE INTO labels
    SELECT key, CASE label.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE json_quote(value) END, number
    FROM steps, json_each(CASE WHEN json_valid(record) THEN record ELSE '{}' END, '$.metadata') AS label
    WHERE label.type IN ('text', 'integer', 'real', 'true', 'false') AND length(value) <= 1000;
""",
    ),
    Migration(
        3,
        "questions and passages are no longer compared token by token",
        """
ALTER TABLE passages DROP COLUMN tokens;
ALTER TABLE reindexed DROP COLUMN tokens;
""",
    ),
    Migration(
        4,
        "what steps did to files is noted, for marks on lines that stand there no more; `rebuild` notes what is older",
        """
CREATE TABLE files (
    step INTEGER NOT NULL, place INTEGER NOT NULL, call INTEGER NOT NULL, path TEXT NOT NULL, kind INTEGER NOT NULL,
    lines BLOB NOT NULL, gone BLOB NOT NULL, PRIMARY KEY (step, place)) WITHOUT ROWID;
CREATE INDEX files_by_path ON files (path);
""",
    ),
    Migration(
        5,
        "messages that come again are known by what they say and how often; prompts of sessions live in memory",
        """
CREATE TABLE messages (
    said TEXT NOT NULL, nth INTEGER NOT NULL, step INTEGER NOT NULL, is_last INTEGER NOT NULL,
    PRIMARY KEY (said, nth)) WITHOUT ROWID;
INSERT INTO messages
    SELECT said, row_number() OVER (PARTITION BY said ORDER BY step, place, link), step,
        EXISTS (SELECT 1 FROM steps WHERE id = link)
    FROM (SELECT CASE alike WHEN '' THEN link ELSE alike END AS said, link, step, place FROM links);
DROP TABLE links;
DELETE FROM meta WHERE key = 'prompts';
""",
    ),
    Migration(
        6,
        "a passage is found by its words before it has a vector, and new vectors are made beside the old ones",
        """
CREATE TABLE vectors (
    embedder TEXT NOT NULL, passage INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (passage, embedder)) WITHOUT ROWID;
INSERT INTO vectors
    SELECT coalesce((SELECT value FROM meta WHERE key = 'embedder'), ''), id, vector FROM passages;
INSERT OR IGNORE INTO vectors
    SELECT value, passage, vector FROM reindexed JOIN meta ON key = 'reindexing'
    WHERE passage IN (SELECT id FROM passages);
DROP TABLE reindexed;
DELETE FROM meta WHERE key = 'reindexing';
ALTER TABLE passages DROP COLUMN vector;
UPDATE meta SET value = substr(value, 1, instr(value, ' ') - 1) WHERE key = 'made' AND instr(value, ' ');
""",
    ),
    Migration(
        7,
        "an index follows the journal by itself, and notes beside its files how far it is",
        """
CREATE TABLE outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, passage INTEGER NOT NULL);
DELETE FROM meta WHERE key IN ('indexed', 'index_fault', 'index_forgotten', 'index_outdated', 'index_request',
    'store_filled');
""",
    ),
)


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise FormatError where a newer version wrote the journal."""
    if (version := version_of(db)) > FORMAT:
        raise FormatError(f"{path} has format {version}, this version reads {FORMAT}: upgrade tinymem")


def version_of(db: sqlite3.Connection) -> int:
    """Return the format of the file; 0 for a new one."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, or upgrade those of an older format, once even if several processes open the file."""
    db.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(db)  # another process may have been faster
        missing = [migration.sql for migration in MIGRATIONS if migration.to > version] if version else [SCHEMA]
        for statement in "".join(missing).split(";"):
            db.execute(statement)
        if version < FORMAT:
            db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise

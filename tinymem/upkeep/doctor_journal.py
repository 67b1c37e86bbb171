"""The journal's part of `doctor`: the file itself, its full-text index, and whether every step and passage is whole."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinymem.errors import FormatError, StepError, StorageError
from tinymem.recall.passages import slices
from tinymem.steps.serialization import load_step
from tinymem.stores.sqlite.fulltext import FullText
from tinymem.stores.sqlite.lengths import Lengths
from tinymem.stores.sqlite.schema import guarded, opened
from tinymem.stores.sqlite.upkeep import FILLED, WATERMARK
from tinymem.upkeep.findings import AGAIN, REBUILD, REINDEX, RESTORE, Finding

__all__ = ["examine", "renew_terms"]

TIMEOUT = 30.0  # seconds that other processes' writing is waited for
FAULTS = 3  # of a kind that are told in full
PIECE = 500  # rows that are read at once
COUNTS = ("steps", "passages", "terms", "dimensions", "in_index")
MARK = "([0-9]{1,18}) [0-9]{1,18}"  # the setting that says for which steps passages were made


class Place(NamedTuple):
    """Where a passage is: a slice `[start, end)` of a part of a step."""

    part: int
    start: int
    end: int
    id: int


Places = list[Place]


def examine(path: Path) -> tuple[dict[str, int], list[Finding]]:
    """Counts of what the journal at `path` holds, and what is wrong with it."""
    counts: dict[str, int] = {}
    findings: list[Finding] = []
    try:
        with guarded(path), closing(opened(path, False, TIMEOUT)) as db:
            FullText(db)
            for look in (_file, _terms, _vectors, _steps, _settings):
                try:
                    with guarded(path):
                        findings += look(db, counts)
                except StorageError as error:
                    findings.append(_failure(error))
    except StorageError as error:
        findings.append(_failure(error))
    return {name: counts[name] for name in COUNTS if name in counts}, list(dict.fromkeys(findings))


def _failure(error: StorageError) -> Finding:
    return Finding(str(error), RESTORE if isinstance(error, FormatError) else AGAIN)


@contextmanager
def _one_state(db: sqlite3.Connection) -> Iterator[None]:
    """All that is read inside is of one state, whoever else writes."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _number(db: sqlite3.Connection, sql: str) -> int:
    return int(db.execute(sql).fetchone()[0] or 0)


def _file(db: sqlite3.Connection, counts: dict[str, int]) -> list[Finding]:
    """SQLite's own check of the file."""
    found = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({FAULTS})")]
    return [] if found == ["ok"] else [Finding(f"the journal is damaged: {'; '.join(found)}", RESTORE)]


def terms_fault(db: sqlite3.Connection) -> str | None:
    """What is wrong with the full-text index; None when it is sound."""
    try:
        db.execute("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        if "locked" in str(error) or "full" in str(error):
            raise
        return str(error)
    with _one_state(db):
        lacking = _number(db, "SELECT count(*) FROM passages WHERE id NOT IN (SELECT id FROM fulltext_docsize)")
        unknown = _number(db, "SELECT count(*) FROM fulltext_docsize WHERE id NOT IN (SELECT id FROM passages)")
        lengths = Lengths(db)
        lengths.refresh()
        occurrences = _number(db, "SELECT sum(cnt) FROM vocabulary")
    if lacking or unknown:
        return f"it lacks {lacking} passages, and has {unknown} that the journal has not"
    if occurrences != lengths.total:  # SQLite's own check compares no contents, since this index keeps no texts
        return f"it has {occurrences} words of the {lengths.total} that its passages have"
    return None


def _terms(db: sqlite3.Connection, counts: dict[str, int]) -> list[Finding]:
    fault = terms_fault(db)
    counts["terms"] = _number(db, "SELECT count(*) FROM fulltext_docsize")
    return [] if fault is None else [Finding(f"the full-text index is damaged: {fault}", REBUILD)]


def _vectors(db: sqlite3.Connection, counts: dict[str, int]) -> list[Finding]:
    """Whether every passage has a vector of the same length, and all its numbers are finite."""
    with _one_state(db):
        lengths = dict(db.execute("SELECT length(vector), count(*) FROM passages GROUP BY 1 ORDER BY 2"))
        odd = _number(db, "SELECT count(*) FROM passages WHERE length(tokens) % 2 OR length(identifiers) % 4")
        bad = sum(not np.isfinite(np.frombuffer(v, "<f2")).all() for (v,) in db.execute(
            "SELECT vector FROM passages WHERE length(vector) % 2 = 0"))  # fmt: skip
    counts["passages"] = sum(lengths.values())
    *others, usual = lengths or [0]
    counts["dimensions"] = usual // 2
    findings = []
    if others or usual % 2:
        wrong = counts["passages"] - (0 if usual % 2 else lengths[usual])
        findings.append(Finding(f"{wrong} passages have a vector of another length than {usual // 2}", REINDEX))
    if bad:
        findings.append(Finding(f"{bad} passages have a vector with numbers that are not finite", REINDEX))
    if odd:
        findings.append(Finding(f"{odd} passages have token ids or identifiers cut short", REINDEX))
    return findings


def _steps(db: sqlite3.Connection, counts: dict[str, int]) -> list[Finding]:
    """Whether every step can be read, and has the passages that it should."""
    with _one_state(db):
        counts["steps"] = _number(db, "SELECT count(*) FROM steps")
        orphans = _number(db, "SELECT count(*) FROM passages WHERE step NOT IN (SELECT number FROM steps)")
        mark = re.fullmatch(MARK, _setting(db, "made"))
        until = int(mark[1]) if mark else 1
        faults: dict[str, list[str]] = {}
        for number, id, record, places in _records(db):
            if fault := _fault(id, record, places, number < until):
                faults.setdefault(fault, []).append(f"#{number}")
    findings = [Finding(f"{_some(numbers)} {fault}", RESTORE) for fault, numbers in faults.items()]
    if orphans:
        findings.append(Finding(f"{orphans} passages are of steps that are not in the journal", RESTORE))
    return findings


def _settings(db: sqlite3.Connection, counts: dict[str, int]) -> list[Finding]:
    """Whether the journal's notes of what it has done make sense."""
    findings = []
    made, until = _setting(db, "made"), _setting(db, WATERMARK) or "0"
    if made and not re.fullmatch(MARK, made):
        findings.append(Finding(f"{made!r:.80} does not say which steps have passages", RESTORE))
    if not _setting(db, "embedder"):
        findings.append(Finding("it is not said which embedder the vectors are of", RESTORE))
    if not until.isdecimal():
        findings.append(Finding(f"{until!r:.80} does not say how far the index goes", REBUILD))
    elif _setting(db, FILLED):
        counts["in_index"] = _number(db, f"SELECT count(*) FROM passages WHERE id <= {int(until)}")
    return findings


def _setting(db: sqlite3.Connection, key: str) -> str:
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def _fault(id: str, record: str, places: Places, made: bool) -> str | None:
    try:
        step = load_step(record)
    except StepError:
        return "cannot be read"
    except FormatError as error:
        return f"cannot be read: {error}"
    if step.id != id:
        return "is filed under another step's id"
    parts = step.parts()
    if any(part >= len(parts) or not 0 <= start <= end <= len(parts[part].text) for part, start, end, _ in places):
        return "has passages that are not in its text"
    if made and parts and not places:
        return "is found by no recall: it has no passages"
    return None


def _some(numbers: list[str]) -> str:
    more = f" and {len(numbers) - FAULTS} more: each" if len(numbers) > FAULTS else ""
    return f"step {', '.join(numbers[:FAULTS])}{more}"


def _records(db: sqlite3.Connection) -> Iterator[tuple[int, str, str, Places]]:
    """All steps, in order: (number, id, JSON, where its passages are)."""
    after = 0
    sql = "SELECT number, id, record FROM steps WHERE number > ? ORDER BY number LIMIT ?"
    while rows := db.execute(sql, (after, PIECE)).fetchall():
        places: dict[int, Places] = {}
        last = rows[-1][0]
        where = "SELECT step, part, start, end, id FROM passages WHERE step > ? AND step <= ? ORDER BY id"
        for step, *place in db.execute(where, (after, last)):
            places.setdefault(step, []).append(Place(*place))
        yield from ((number, id, record, places.get(number, [])) for number, id, record in rows)
        after = last


def renew_terms(path: Path) -> bool:
    """Make the full-text index anew, if something is wrong with it; whether it was."""
    with guarded(path), closing(opened(path, False, TIMEOUT)) as db:
        fulltext = FullText(db)
        if terms_fault(db) is None:
            return False
        db.execute("BEGIN IMMEDIATE")
        fulltext.clear()
        for _, _, record, places in _records(db):
            fulltext.add(_texts(record, places))
        db.execute("COMMIT")
        return True


def _texts(record: str, places: Places) -> Iterable[tuple[int, str]]:
    """The id and the text of each passage of a step."""
    return zip((place.id for place in places), slices(load_step(record), (place[:3] for place in places)), strict=True)

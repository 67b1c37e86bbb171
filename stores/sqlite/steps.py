"""The records of a journal's steps: the steps themselves, the window, keys of their messages, and summaries."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tinymem.errors import FormatError, InputError
from tinymem.protocols import FileNote, MessageRow, StepOutline, StepRow, SummaryRow, Tally
from tinymem.protocols.settings import REWRITES, WINDOW_CHANGES
from tinymem.stores.filter import SQLITE, Filter, folders_of
from tinymem.stores.sqlite.database import LAST, Database

__all__ = ["Steps"]

_COLUMNS = "number, id, type, session, speaker, time, tokens, position, record, window, view, milestone, archived"
_END = 1 << 62  # above every number
_NAME = (str, type(None))
_TIME = (int, float, type(None))
_STEP = (int, str, str, _NAME, _NAME, (int, float), int, int, str, int, _NAME, int, _TIME)  # the types of its columns
_OUTLINE = (int, str, str, _NAME, int, int)
_MESSAGES = "SELECT said, nth, step, is_last FROM messages"
_MESSAGE = (str, int, int, int)
# Passages are embedded in the order of their ids, and made in that of their steps.
_WAITING = f"coalesce((SELECT step FROM passages WHERE id > {LAST} ORDER BY id LIMIT 1), ?)"
_FIRST_WAITING = f"SELECT position FROM steps WHERE number >= {_WAITING} ORDER BY number LIMIT 1"
_COUNTS = (
    "SELECT count(*), sum(window), sum(number >= first), sum(tokens), sum(tokens * window), "
    f"(SELECT count(*) FROM passages WHERE id <= {LAST}) FROM steps, (SELECT {_WAITING} AS first)"
)
_PUT_FILE = "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?)"
_FILE = (int, int, int, str, int, bytes, bytes)


class Steps(Database):
    """The tables `steps`, `labels`, `messages`, `files` and `summaries`."""

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, all or none; InputError for an id that exists, or a number below that of a cut step."""
        sql = f"INSERT INTO steps ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        try:
            with self._transaction() as db:
                made = self._made()
                for r in rows:
                    if r.number < made:  # its passages would never be made
                        raise InputError(f"the number {r.number} was used by another process: open the memory again")
                    place = (r.number, r.id, r.type, r.session, r.speaker, r.time, r.tokens, r.position)
                    db.execute(sql, (*place, r.record, r.window, r.view, r.milestone, r.archived))
                    db.executemany("INSERT INTO labels VALUES (?, ?, ?)", ((*label, r.number) for label in r.labels))
                    db.executemany(_PUT_FILE, r.files)
        except FormatError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                ids = ", ".join(row.id for row in rows[:3])
                raise InputError(f"a step with this id or number is in the memory already ({ids})") from error
            raise

    def next_number(self) -> int:
        """Return the number of the next step, which was never used before."""
        return self._number("SELECT seq FROM sqlite_sequence WHERE name = 'steps'") + 1

    def go_on_from(self, number: int) -> None:
        """Reserve all numbers below `number`, so that no new step gets one of them."""
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM sqlite_sequence WHERE name = 'steps'").fetchone():
                db.execute("INSERT INTO sqlite_sequence VALUES ('steps', 0)")
            db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'steps'", (number - 1,))

    def end(self) -> int:
        """Return the tokens of all steps since the memory began."""
        return self._number("SELECT position + tokens FROM steps ORDER BY number DESC LIMIT 1")

    def rows(self, after: int = 0, limit: int = 1000, *, session: str | None = None) -> list[StepRow]:
        """Return up to `limit` steps with numbers above `after`, in order."""
        only = Filter(session=session).condition(SQLITE)
        sql = f"SELECT {_COLUMNS} FROM steps s WHERE number > ?{only.of_steps} ORDER BY number LIMIT ?"
        return [StepRow(*row) for row in self._along(sql, (after, *only.values.values(), limit), _STEP)]

    def newest(
        self, limit: int, before: int = _END, *, type: str | None = None, session: str | None = None
    ) -> list[StepRow]:
        """Return up to `limit` steps with numbers below `before`, the newest first."""
        only = Filter(type=type, session=session).condition(SQLITE)
        sql = f"SELECT {_COLUMNS} FROM steps s WHERE number < ?{only.of_steps} ORDER BY number DESC LIMIT ?"
        return [StepRow(*row) for row in self._along(sql, (before, *only.values.values(), limit), _STEP, down=True)]

    def outline(self, after: int = 0, until: int = _END) -> list[StepOutline]:
        """Return the steps with numbers above `after` and up to `until`, in order, without their texts."""
        columns = ", ".join(StepOutline._fields)
        sql = f"SELECT {columns} FROM steps WHERE number > ? AND number <= ? ORDER BY number"
        return [StepOutline(*row) for row in self._read(sql, (after, until), _OUTLINE)]

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the JSON of these steps, by number; missing steps are left out."""
        return dict(self._each("SELECT number, record FROM steps WHERE number IN ({})", [int(n) for n in numbers]))

    def numbers(self, ids: Sequence[str]) -> list[int]:
        """Return the numbers of the steps with these ids, in order."""
        return sorted({n for (n,) in self._each("SELECT number FROM steps WHERE id IN ({})", ids, (int,))})

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return the ids among these that belong to a step."""
        return {id for (id,) in self._each("SELECT id FROM steps WHERE id IN ({})", ids)}

    def matching(self, only: Filter) -> list[int]:
        """Return the numbers of the steps that a filter accepts, in order; tools, which passages have, do not count."""
        where = replace(only, tool=None).condition(SQLITE)
        sql = f"SELECT number FROM steps s WHERE true{where.of_steps} ORDER BY number"
        return [number for (number,) in self._read(sql, [*where.values.values()], (int,))]

    def corrections(self) -> list[tuple[int, int]]:
        """Return the numbers of corrected steps, each with that of a step that corrects it."""
        join = "labels l JOIN steps s ON s.id = json_extract(l.value, '$')"
        sql = f"SELECT s.number, l.step FROM {join} WHERE l.name = 'corrects'"
        return [(old, new) for old, new in self._read(sql, (), (int, int))]

    def count(self, type: str) -> int:
        """Count the steps of a type."""
        return self._number("SELECT count(*) FROM steps WHERE type = ?", (type,))

    def tally(self) -> list[Tally]:
        """Count the steps by session and type, in the order of their first steps."""
        sql = (
            "SELECT session, type, count(*), sum(tokens), min(time), max(time) FROM steps "
            "GROUP BY session, type ORDER BY min(number)"
        )
        return [Tally(*row) for row in self._read(sql)]

    def counts(self) -> dict[str, int]:
        """Count steps, passages and tokens."""
        values = [int(value or 0) for value in self._read(_COUNTS, (self._made(),))[0]]
        names = ("steps", "window_steps", "waiting_steps", "tokens", "window_tokens", "passages")
        return dict(zip(names, values, strict=True))

    def waiting_tokens(self) -> int:
        """Return the tokens of the steps that wait to be embedded."""
        first = self._read(_FIRST_WAITING, (self._made(),))
        return self.end() - int(first[0][0]) if first else 0

    def uncut(self, limit: int) -> list[StepRow]:
        """Return up to `limit` steps that no passages were made of yet, in order."""
        return self.rows(self._made() - 1, limit)

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        with self._transaction() as db:
            db.executemany("UPDATE steps SET milestone = ? WHERE number = ?", ((milestone, n) for n in numbers))
            rows = self._each("SELECT id FROM passages WHERE step IN ({})", [*numbers], (int,))
            self._note_changes(id for (id,) in rows)
            self._count_up(REWRITES)

    # -- the window -------------------------------------------------------------------------------------------------

    def window(self, after: int = 0) -> list[StepRow]:
        """Return the steps of the window with numbers above `after`, in order."""
        sql = f"SELECT {_COLUMNS} FROM steps WHERE window = 1 AND number > ? ORDER BY number"
        return [StepRow(*row) for row in self._read(sql, (after,), _STEP)]

    def any_archived(self) -> bool:
        """Return whether any step has left the window; this is fast, since the oldest leave first."""
        return bool(self._read("SELECT 1 FROM steps WHERE window = 0 LIMIT 1"))

    def set_window(
        self, removed: Iterable[int], views: Mapping[int, str | None], changed: Mapping[int, str | None] | None = None
    ) -> list[int]:
        """Remove the steps `removed` from the window, and return the numbers of those that were in it.

        `views` puts steps into the window, or replaces their JSON there; `changed` only replaces it.
        """
        with self._transaction(derived=not (views or changed)) as db:
            out = "UPDATE steps SET window = 0, view = NULL, archived = ? WHERE number = ? AND window = 1"
            taken = [number for number in removed if db.execute(out, (time.time(), number)).rowcount]
            put = "UPDATE steps SET window = 1, view = ?, archived = NULL WHERE number = ?"
            db.executemany(put, ((view, number) for number, view in views.items()))
            still = "UPDATE steps SET view = ? WHERE number = ? AND window = 1"
            db.executemany(still, ((view, number) for number, view in (changed or {}).items()))
            self._count_up(WINDOW_CHANGES)
            return taken

    # -- messages that come again --------------------------------------------------------------------------------------

    def put_messages(self, rows: Sequence[MessageRow]) -> None:
        """Keep messages that are not there yet."""
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", rows)

    def find_messages(self, said: Collection[str], most: int) -> list[MessageRow]:
        """Return the messages with these hashes that are the `most`-th of their hash at most."""
        sql = f"{_MESSAGES} WHERE said IN ({{}}) AND nth <= {int(most)}"
        return [*map(_message, self._each(sql, [*said], _MESSAGE))]

    def count_messages(self, said: Collection[str]) -> dict[str, int]:
        """Return how many messages there are with each of these hashes."""
        sql = "SELECT said, max(nth) FROM messages WHERE said IN ({}) GROUP BY said"
        return dict(self._each(sql, [*said], (str, int)))

    def messages(self, after: tuple[str, int] = ("", 0), limit: int = 1_000) -> list[MessageRow]:
        """Return up to `limit` messages behind one, in their order."""
        sql = f"{_MESSAGES} WHERE (said, nth) > (?, ?) ORDER BY said, nth LIMIT ?"
        rows = self._read(sql, (*after, limit), _MESSAGE)
        places = [after, *(row[:2] for row in rows)]
        if places != sorted(set(places)):  # a damaged tree may loop
            raise self.damaged("the keys of its messages are not in order")
        return [*map(_message, rows)]

    # -- files ---------------------------------------------------------------------------------------------------------

    def file_notes(self, numbers: Sequence[int]) -> list[FileNote]:
        """Return what was done to the files that these steps touch, and to the folders they are in, in order."""
        paths = [path for (path,) in self._each("SELECT DISTINCT path FROM files WHERE step IN ({})", numbers, (str,))]
        if not paths:
            return []
        rows = self._each("SELECT * FROM files WHERE path IN ({})", folders_of(paths), _FILE)
        return sorted(map(FileNote._make, rows))

    def file_notes_after(self, number: int) -> list[FileNote]:
        """Return what the steps behind a number did to files, in order."""
        rows = self._read("SELECT * FROM files WHERE step > ? ORDER BY step, place", (number,), _FILE)
        return [*map(FileNote._make, rows)]

    def renew_file_notes(self, notes: Iterable[FileNote]) -> None:
        """Put these notes in the place of all."""
        with self._transaction(derived=True) as db:
            db.execute("DELETE FROM files")
            db.executemany(_PUT_FILE, notes)

    # -- summaries -----------------------------------------------------------------------------------------------------

    def summaries(self) -> list[SummaryRow]:
        """Return all summaries, by level and in order."""
        sql = "SELECT level, first, last, session, text FROM summaries ORDER BY level, first"
        return [SummaryRow(*row) for row in self._read(sql, kinds=(int, int, int, (str, type(None)), str))]

    def put_summaries(self, rows: Sequence[SummaryRow]) -> int:
        """Store summaries, except of steps that another one covers, and return how many were stored."""
        sql = (
            "INSERT OR IGNORE INTO summaries SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?1 > 1 OR NOT EXISTS "
            "(SELECT 1 FROM summaries WHERE level = 1 AND first <= ?3 AND last >= ?2)"
        )
        with self._transaction(derived=True) as db:
            return db.executemany(sql, rows).rowcount


def _message(row: tuple[str, int, int, int]) -> MessageRow:
    said, nth, step, is_last = row
    return MessageRow(said, nth, step, bool(is_last))

"""The records of a journal's steps: the steps themselves, the window, and notes of them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence

from tinymem.errors import FormatError, InputError
from tinymem.protocols import StepNote, StepRow
from tinymem.protocols.settings import REWRITES
from tinymem.stores.filter import SQLITE, Filter
from tinymem.stores.sqlite.database import LAST, SqliteDatabase

__all__ = ["SqliteSteps"]

_COLUMNS = "number, id, type, session, speaker, time, tokens, position, record, window, view, milestone, archived"
_OUTLINE = _COLUMNS.replace("record", "''").replace("view", "NULL")
_END = 1 << 62  # above every number
_NAME = (str, type(None))
_TIME = (int, float, type(None))
_STEP = (int, str, str, _NAME, _NAME, (int, float), int, int, str, int, _NAME, int, _TIME)  # the types of its columns
# Passages are embedded in the order of their ids, and made in that of their steps.
_WAITING = f"coalesce((SELECT step FROM passages WHERE id > {LAST} ORDER BY id LIMIT 1), ?)"
_FIRST_WAITING = f"SELECT position FROM steps WHERE number >= {_WAITING} ORDER BY number LIMIT 1"
_COUNTS = (
    "SELECT count(*), sum(window), sum(number >= first), sum(tokens), sum(tokens * window), "
    f"(SELECT count(*) FROM passages WHERE id <= {LAST}) FROM steps, (SELECT {_WAITING} AS first)"
)
_NOTE = (int, int, str, bytes)


class SqliteSteps(SqliteDatabase):
    """The tables `steps`, `labels` and `notes`."""

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, all or none; InputError for an id that exists, or a number below that of a cut step."""
        sql = f"INSERT INTO steps ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        try:
            with self.transaction() as db:
                made = self._made()
                for r in rows:
                    if r.number < made:  # its passages would never be made
                        raise InputError(f"the number {r.number} was used by another process: open the memory again")
                    place = (r.number, r.id, r.type, r.session, r.speaker, r.time, r.tokens, r.position)
                    db.execute(sql, (*place, r.record, r.window, r.view, r.milestone, r.archived))
                    db.executemany("INSERT INTO labels VALUES (?, ?, ?)", ((*label, r.number) for label in r.labels))
        except FormatError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                ids = ", ".join(row.id for row in rows[:3])
                raise InputError(f"a step with this id or number is in the memory already ({ids})") from error
            raise

    def next_number(self) -> int:
        """Return the number of the next step, which was never used before."""
        return self.read_number("SELECT seq FROM sqlite_sequence WHERE name = 'steps'") + 1

    def end(self) -> int:
        """Return the tokens of all steps since the memory began."""
        return self.read_number("SELECT position + tokens FROM steps ORDER BY number DESC LIMIT 1")

    def rows(
        self,
        after: int = 0,
        limit: int = _END,
        *,
        before: int = _END,
        type: str | None = None,
        session: str | None = None,
        window: bool | None = None,
        newest: bool = False,
        texts: bool = True,
    ) -> list[StepRow]:
        """Return up to `limit` steps with numbers above `after` and below `before`, in order, or the newest first."""
        only = Filter(type=type, session=session).condition(SQLITE)
        shown = "" if window is None else f" AND window = {int(window)}"
        where = f"number > ? AND number < ?{only.sql}{shown} ORDER BY number {'DESC' if newest else 'ASC'} LIMIT ?"
        values = (after, before, *only.values.values(), limit)
        columns = _COLUMNS if texts else _OUTLINE
        rows = self.read_along(f"SELECT {columns} FROM steps s WHERE {where}", values, _STEP, newest)
        return [StepRow(*row) for row in rows]

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the JSON of these steps, by number; missing steps are left out."""
        return dict(self.read_each("SELECT number, record FROM steps WHERE number IN ({})", [int(n) for n in numbers]))

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the steps with these ids, in the order of numbers."""
        rows = self.read_each("SELECT id, number FROM steps WHERE id IN ({})", ids, (str, int))
        return dict(sorted(rows, key=lambda row: row[1]))

    def matching(self, only: Filter) -> list[int]:
        """Return the numbers of the steps that a filter accepts, in order; tools, which passages have, do not count."""
        where = only.condition(SQLITE)
        sql = f"SELECT number FROM steps s WHERE true{where.sql} ORDER BY number"
        return [number for (number,) in self.read(sql, [*where.values.values()], (int,))]

    def corrections(self) -> list[tuple[int, int]]:
        """Return the numbers of corrected steps, each with that of a step that corrects it."""
        join = "labels l JOIN steps s ON s.id = json_extract(l.value, '$')"
        sql = f"SELECT s.number, l.step FROM {join} WHERE l.name = 'corrects'"
        return [(old, new) for old, new in self.read(sql, (), (int, int))]

    def counts(self) -> dict[str, int]:
        """Count steps, passages and tokens."""
        values = [int(value or 0) for value in self.read(_COUNTS, (self._made(),))[0]]
        names = ("steps", "window_steps", "waiting_steps", "tokens", "window_tokens", "passages")
        return dict(zip(names, values, strict=True))

    def waiting_tokens(self) -> int:
        """Return the tokens of the steps that wait to be embedded."""
        first = self.read(_FIRST_WAITING, (self._made(),))
        return self.end() - int(first[0][0]) if first else 0

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        with self.transaction() as db:
            db.executemany("UPDATE steps SET milestone = ? WHERE number = ?", ((milestone, n) for n in numbers))
            self.count_up(REWRITES)

    # -- the window -------------------------------------------------------------------------------------------------

    def set_window(
        self, removed: Iterable[int], views: Mapping[int, str | None], changed: Mapping[int, str | None] | None = None
    ) -> list[int]:
        """Remove the steps `removed` from the window, and return the numbers of those that were in it.

        `views` puts steps into the window, or replaces their JSON there; `changed` only replaces it.
        """
        with self.transaction(derived=not (views or changed)) as db:
            out = "UPDATE steps SET window = 0, view = NULL, archived = ? WHERE number = ? AND window = 1"
            taken = [number for number in removed if db.execute(out, (time.time(), number)).rowcount]
            put = "UPDATE steps SET window = 1, view = ?, archived = NULL WHERE number = ?"
            db.executemany(put, ((view, number) for number, view in views.items()))
            still = "UPDATE steps SET view = ? WHERE number = ? AND window = 1"
            db.executemany(still, ((view, number) for number, view in (changed or {}).items()))
            return taken

    # -- notes ---------------------------------------------------------------------------------------------------------

    def notes_of(self, steps: Sequence[int]) -> list[StepNote]:
        """Return the notes of these steps, in order."""
        return sorted(map(StepNote._make, self.read_each("SELECT * FROM notes WHERE step IN ({})", steps, _NOTE)))

    def notes_with(self, keys: Iterable[str]) -> list[StepNote]:
        """Return the notes with these keys, of all steps, in order."""
        return sorted(map(StepNote._make, self.read_each("SELECT * FROM notes WHERE key IN ({})", [*keys], _NOTE)))

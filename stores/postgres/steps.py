"""The steps of a journal, and its window."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tinymem.errors import InputError
from tinymem.protocols import StepOutline, StepRow, Tally
from tinymem.protocols.settings import REWRITES, WINDOW_CHANGES
from tinymem.stores.filter import POSTGRES, Filter
from tinymem.stores.postgres.database import Database
from tinymem.stores.postgres.server.errors import guarded
from tinymem.stores.postgres.server.values import Planned

__all__ = ["Steps"]

_COLUMNS = "number, id, type, session, speaker, time, tokens, position, record, in_window, view, milestone, archived"
_OUTLINE = "number, id, type, session, tokens, in_window"
_END = 1 << 62  # above every number
_ADD = Planned(f"INSERT INTO steps (namespace, {_COLUMNS}) VALUES (%s{', %s' * 13})")
_LABEL = Planned("INSERT INTO labels (namespace, name, value, step) VALUES (%s, %s, %s, %s)")
_WINDOW = Planned(f"SELECT {_COLUMNS} FROM steps WHERE namespace = %s AND in_window AND number > %s ORDER BY number")
_RECORDS = Planned("SELECT number, record FROM steps WHERE namespace = %s AND number = ANY(%s::bigint[])")
_WAITING = Planned("""
SELECT (SELECT position + tokens FROM steps WHERE namespace = %(ns)s ORDER BY number DESC LIMIT 1)
    - (SELECT position FROM steps WHERE namespace = %(ns)s AND number >= coalesce(
        (SELECT split_part(value, ' ', 1)::bigint FROM settings WHERE namespace = %(ns)s AND key = 'made'), 1)
        ORDER BY number LIMIT 1)
""")


class Steps(Database):
    """The table `steps`."""

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, all or none; InputError for an id that exists, or a number from before the mark.

        Inside `together`, the server may find an id or a number that exists only at the end.
        """
        with self._transaction():
            mark, head = self.mark, self._written
            for r in rows:
                if (r.number, 0) < mark:  # its passages would never be made
                    raise InputError(f"the number {r.number} was used by another process: open the memory again")
                place = (r.number, r.id, r.type, r.session, r.speaker, float(r.time), r.tokens, r.position)
                self._write(_ADD, self._id, *place, r.record, bool(r.window), r.view, bool(r.milestone), r.archived)
                for label in r.labels:
                    self._write(_LABEL, self._id, *label, r.number)
                if r.number >= head.last:
                    head.last, head.end = r.number, r.position + r.tokens
                head.next_number = max(head.next_number, r.number + 1)

    def next_number(self) -> int:
        """Return the number of the next step, which was never used before."""
        if head := self._known():
            return head.next_number
        return self._number("SELECT next_number FROM namespaces WHERE id = %s", (self._id,))

    def go_on_from(self, number: int) -> None:
        """Reserve all numbers below `number`, so that no new step gets one of them."""
        with self._transaction():
            if number > self._written.next_number:
                self._written.next_number, self._written.is_dirty = number, True

    def end(self) -> int:
        """Return the tokens of all steps since the memory began."""
        if head := self._known():
            return head.end
        sql = "SELECT position + tokens FROM steps WHERE namespace = %s ORDER BY number DESC LIMIT 1"
        return self._number(sql, (self._id,))

    def rows(self, after: int = 0, limit: int = 1000, *, session: str | None = None) -> list[StepRow]:
        """Return up to `limit` steps with numbers above `after`, in order."""
        only = Filter(session=session).condition(POSTGRES)
        where = f"namespace = %(ns)s AND number > %(after)s{only.of_steps}"
        sql = f"SELECT {_COLUMNS} FROM steps s WHERE {where} ORDER BY number LIMIT %(most)s"
        values = {"ns": self._id, "after": after, "most": limit, **only.values}
        return [StepRow(*row) for row in self._read(sql, values)]

    def newest(
        self, limit: int, before: int = _END, *, type: str | None = None, session: str | None = None
    ) -> list[StepRow]:
        """Return up to `limit` steps with numbers below `before`, the newest first."""
        only = Filter(type=type, session=session).condition(POSTGRES)
        where = f"namespace = %(ns)s AND number < %(before)s{only.of_steps}"
        sql = f"SELECT {_COLUMNS} FROM steps s WHERE {where} ORDER BY number DESC LIMIT %(most)s"
        values = {"ns": self._id, "before": before, "most": limit, **only.values}
        return [StepRow(*row) for row in self._read(sql, values)]

    def newest_of(self, session: str | None) -> str | None:
        """Return the id of the session's newest step other than a system prompt."""
        named = "session IS NULL" if session is None else "session = %s"
        rows = self._read(
            f"SELECT id FROM steps WHERE namespace = %s AND {named} AND type != 'system_prompt' "
            "ORDER BY number DESC LIMIT 1",
            (self._id,) if session is None else (self._id, session),
        )
        return rows[0][0] if rows else None

    def outline(self, after: int = 0, until: int = _END) -> list[StepOutline]:
        """Return the steps with numbers above `after` and up to `until`, in order, without their texts."""
        sql = f"SELECT {_OUTLINE} FROM steps WHERE namespace = %s AND number > %s AND number <= %s ORDER BY number"
        return [StepOutline(*row) for row in self._read(sql, (self._id, after, until))]

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the JSON of these steps, by number; missing steps are left out."""
        if not len(numbers):
            return {}
        return dict(self._read(_RECORDS, (self._id, [int(n) for n in numbers])))

    def numbers(self, ids: Sequence[str]) -> list[int]:
        """Return the numbers of the steps with these ids, in order."""
        sql = "SELECT number FROM steps WHERE namespace = %s AND id = ANY(%s::text[]) ORDER BY number"
        return [number for (number,) in self._read(sql, (self._id, list(ids)))] if ids else []

    def held(self, ids: Sequence[str]) -> set[str]:
        """Return the ids among these that belong to a step."""
        sql = "SELECT id FROM steps WHERE namespace = %s AND id = ANY(%s::text[])"
        return {id for (id,) in self._read(sql, (self._id, list(ids)))} if ids else set()

    def matching(self, only: Filter) -> list[int]:
        """Return the numbers of the steps that a filter accepts, in order; tools, which passages have, do not count."""
        where = replace(only, tool=None).condition(POSTGRES)
        sql = f"SELECT number FROM steps s WHERE namespace = %(ns)s{where.of_steps} ORDER BY number"
        return [number for (number,) in self._read(sql, {"ns": self._id, **where.values})]

    def count(self, type: str) -> int:
        """Count the steps of a type."""
        return self._number("SELECT count(*) FROM steps WHERE namespace = %s AND type = %s", (self._id, type))

    def tally(self) -> list[Tally]:
        """Count the steps by session and type, in the order of their first steps."""
        sql = (
            "SELECT session, type, count(*), sum(tokens)::bigint, min(time), max(time) FROM steps WHERE namespace = %s "
            "GROUP BY session, type ORDER BY min(number)"
        )
        return [Tally(*row) for row in self._read(sql, (self._id,))]

    def counts(self) -> dict[str, int]:
        """Count steps, passages and tokens."""
        sql = (
            "SELECT count(*), count(*) FILTER (WHERE in_window), count(*) FILTER (WHERE number >= %s), "
            "sum(tokens)::bigint, (sum(tokens) FILTER (WHERE in_window))::bigint, "
            "(SELECT count(*) FROM passages WHERE namespace = %s) FROM steps WHERE namespace = %s"
        )
        values = [int(value or 0) for value in self._read(sql, (self.mark.step, self._id, self._id))[0]]
        names = ("steps", "window_steps", "waiting_steps", "tokens", "window_tokens", "passages")
        return dict(zip(names, values, strict=True))

    def waiting_tokens(self) -> int:
        """Return the tokens of the steps from the mark on."""
        return self._number(_WAITING, {"ns": self._id})

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        with self._transaction():
            sql = "UPDATE steps SET milestone = %s WHERE namespace = %s AND number = ANY(%s::bigint[])"
            self._write(sql, milestone, self._id, list(numbers))
            self._count_up(REWRITES)

    # -- the window ---------------------------------------------------------------------------------------------------

    def window(self, after: int = 0) -> list[StepRow]:
        """Return the steps of the window with numbers above `after`, in order."""
        with self._lock, guarded(self._location):
            statement, ahead = (_WINDOW, (self._id, after)), self._read_ahead
            is_known = ahead and ahead[0] == statement and not self._is_dirty
            rows = ahead[1] if ahead and is_known else self._read(*statement)
            found = [StepRow(*row) for row in rows]
            if self._is_writing:
                self._news = _WINDOW
            return found

    def any_archived(self) -> bool:
        """Return whether any step has left the window."""
        return bool(self._read("SELECT 1 FROM steps WHERE namespace = %s AND NOT in_window LIMIT 1", (self._id,)))

    def set_window(
        self, removed: Iterable[int], views: Mapping[int, str | None], changed: Mapping[int, str | None] | None = None
    ) -> list[int]:
        """Remove the steps `removed` from the window, and return the numbers of those that were in it.

        `views` puts steps into the window, or replaces their JSON there; `changed` only replaces it.
        """
        order = list(removed)
        out = (
            "UPDATE steps SET in_window = false, view = NULL, archived = %s "
            "WHERE namespace = %s AND number = ANY(%s::bigint[]) AND in_window RETURNING number"
        )
        put = "UPDATE steps SET in_window = true, view = %s, archived = NULL WHERE namespace = %s AND number = %s"
        still = "UPDATE steps SET view = %s WHERE namespace = %s AND number = %s AND in_window"
        with self._transaction():
            taken = {n for (n,) in self._changed(out, (time.time(), self._id, order))} if order else set()
            for number, view in views.items():
                self._write(put, view, self._id, number)
            for number, view in (changed or {}).items():
                self._write(still, view, self._id, number)
            self._count_up(WINDOW_CHANGES)
            return [number for number in dict.fromkeys(order) if number in taken]

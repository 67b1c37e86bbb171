"""The records of a journal's steps: the steps themselves, the window, and notes of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from tinymem.errors import InputError
from tinymem.protocols import StepNote, StepRow
from tinymem.protocols.settings import REWRITES
from tinymem.stores.filter import POSTGRES, Filter
from tinymem.stores.postgres.database import PostgresDatabase
from tinymem.stores.postgres.server.head import LAST
from tinymem.stores.postgres.server.values import Planned

__all__ = ["PostgresSteps"]

_COLUMNS = "number, id, type, session, speaker, time, tokens, position, record, in_window, view, milestone, archived"
_OUTLINE = _COLUMNS.replace("record", "''").replace("view", "NULL::text")
_END = 1 << 62  # above every number
_ADD = Planned(f"INSERT INTO steps (namespace, {_COLUMNS}) VALUES (%s{', %s' * 13})")
_LABEL = Planned("INSERT INTO labels (namespace, name, value, step) VALUES (%s, %s, %s, %s)")
_NOTES = "SELECT step, place, key, data FROM notes WHERE namespace = %s AND {} ORDER BY step, place"
_RECORDS = Planned("SELECT number, record FROM steps WHERE namespace = %s AND number = ANY(%s::bigint[])")
_MADE = "coalesce((SELECT value::bigint FROM settings WHERE namespace = %(ns)s AND key = 'made'), 1)"
# Passages are embedded in the order of their ids, and made in that of their steps.
_FIRST_WAITING = (
    f"coalesce((SELECT step FROM passages WHERE namespace = %(ns)s AND id > {LAST} ORDER BY id LIMIT 1), {_MADE})"
)
_WAITING = Planned(f"""
SELECT (SELECT position + tokens FROM steps WHERE namespace = %(ns)s ORDER BY number DESC LIMIT 1)
    - (SELECT position FROM steps WHERE namespace = %(ns)s AND number >= {_FIRST_WAITING} ORDER BY number LIMIT 1)
""")
_COUNTS = (
    "SELECT count(*), count(*) FILTER (WHERE in_window), count(*) FILTER (WHERE number >= first), "
    "sum(tokens)::bigint, (sum(tokens) FILTER (WHERE in_window))::bigint, "
    f"(SELECT count(*) FROM passages WHERE namespace = %(ns)s AND id <= {LAST}) "
    f"FROM steps CROSS JOIN (SELECT {_FIRST_WAITING} AS first) waiting WHERE namespace = %(ns)s"
)


class PostgresSteps(PostgresDatabase):
    """The tables `steps`, `labels`, `messages`, `notes` and `summaries`."""

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, all or none; InputError for an id that exists, or a number below that of a cut step.

        Inside `together`, the server may find an id or a number that exists only at the end.
        """
        with self._transaction():
            made, head = self.made(), self.head
            for r in rows:
                if r.number < made:  # its passages would never be made
                    raise InputError(f"the number {r.number} was used by another process: open the memory again")
                place = (r.number, r.id, r.type, r.session, r.speaker, float(r.time), r.tokens, r.position)
                self.write(_ADD, self.id, *place, r.record, bool(r.window), r.view, bool(r.milestone), r.archived)
                for label in r.labels:
                    self.write(_LABEL, self.id, *label, r.number)
                if r.number >= head.last:
                    head.last, head.end = r.number, r.position + r.tokens
                head.next_number = max(head.next_number, r.number + 1)

    def next_number(self) -> int:
        """Return the number of the next step, which was never used before."""
        if head := self.known_head():
            return head.next_number
        return self.read_number("SELECT next_number FROM namespaces WHERE id = %s", (self.id,))

    def end(self) -> int:
        """Return the tokens of all steps since the memory began."""
        if head := self.known_head():
            return head.end
        sql = "SELECT position + tokens FROM steps WHERE namespace = %s ORDER BY number DESC LIMIT 1"
        return self.read_number(sql, (self.id,))

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
        only = Filter(type=type, session=session).condition(POSTGRES)
        shown = "" if window is None else f" AND in_window = {window}"
        where = f"namespace = %(ns)s AND number > %(after)s AND number < %(before)s{only.sql}{shown}"
        order = f"number {'DESC' if newest else 'ASC'} LIMIT %(most)s"
        values = {"ns": self.id, "after": after, "before": before, "most": limit, **only.values}
        columns = _COLUMNS if texts else _OUTLINE
        rows = self.read(f"SELECT {columns} FROM steps s WHERE {where} ORDER BY {order}", values)
        return [StepRow(*row) for row in rows]

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the JSON of these steps, by number; missing steps are left out."""
        if not len(numbers):
            return {}
        return dict(self.read(_RECORDS, (self.id, [int(n) for n in numbers])))

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the steps with these ids, in the order of numbers."""
        sql = "SELECT id, number FROM steps WHERE namespace = %s AND id = ANY(%s::text[]) ORDER BY number"
        return dict(self.read(sql, (self.id, list(ids))))

    def matching(self, only: Filter) -> list[int]:
        """Return the numbers of the steps that a filter accepts, in order; tools, which passages have, do not count."""
        where = only.condition(POSTGRES)
        sql = f"SELECT number FROM steps s WHERE namespace = %(ns)s{where.sql} ORDER BY number"
        return [number for (number,) in self.read(sql, {"ns": self.id, **where.values})]

    def corrections(self) -> list[tuple[int, int]]:
        """Return the numbers of corrected steps, each with that of a step that corrects it."""
        join = "labels l JOIN steps s ON s.namespace = l.namespace AND s.id = l.value::jsonb #>> '{}'"
        sql = f"SELECT s.number, l.step FROM {join} WHERE l.namespace = %s AND l.name = 'corrects'"
        return [(old, new) for old, new in self.read(sql, (self.id,))]

    def counts(self) -> dict[str, int]:
        """Count steps, passages and tokens."""
        values = [int(value or 0) for value in self.read(_COUNTS, {"ns": self.id})[0]]
        names = ("steps", "window_steps", "waiting_steps", "tokens", "window_tokens", "passages")
        return dict(zip(names, values, strict=True))

    def waiting_tokens(self) -> int:
        """Return the tokens of the steps that wait to be embedded."""
        return self.read_number(_WAITING, {"ns": self.id})

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        with self._transaction():
            sql = "UPDATE steps SET milestone = %s WHERE namespace = %s AND number = ANY(%s::bigint[])"
            self.write(sql, milestone, self.id, list(numbers))
            self.count_up(REWRITES)

    # -- the window ---------------------------------------------------------------------------------------------------

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
            taken = {n for (n,) in self.change(out, (time.time(), self.id, order))} if order else set()
            for number, view in views.items():
                self.write(put, view, self.id, number)
            for number, view in (changed or {}).items():
                self.write(still, view, self.id, number)
            return [number for number in dict.fromkeys(order) if number in taken]

    # -- notes ---------------------------------------------------------------------------------------------------------

    def notes_of(self, steps: Sequence[int]) -> list[StepNote]:
        """Return the notes of these steps, in order."""
        rows = self.read(_NOTES.format("step = ANY(%s::bigint[])"), (self.id, [*steps]))
        return [*map(StepNote._make, rows)]

    def notes_with(self, keys: Iterable[str]) -> list[StepNote]:
        """Return the notes with these keys, of all steps, in order."""
        return [*map(StepNote._make, self.read(_NOTES.format("key = ANY(%s::text[])"), (self.id, [*keys])))]

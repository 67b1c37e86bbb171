"""Passages and their steps as columns in one row: some thousand rows would take the client most of a recall's time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tinymem.protocols import PassageColumns
from tinymem.stores.postgres.server.values import ESCAPE, HEAD, LITERAL, NUL

__all__ = ["columns_of", "columns_sql"]

# Behind the escape, stored texts have 0 or 1.
BETWEEN, NOTHING = ESCAPE + "2", ESCAPE + "3"
_ESCAPED = re.compile(ESCAPE.encode() + b"[01]")
_ALL = """
SELECT * FROM (
    SELECT array_agg(s.number), {s_type}, {s_session}, {s_speaker}, array_agg(s.time), array_agg(s.milestone)
    FROM {steps}) s
CROSS JOIN (
    SELECT array_agg(p.id), array_agg(p.step), array_agg(p.part), array_agg(p.start), array_agg(p.finish), {p_kind},
        array_agg(p.asks), {p_tools}, string_agg(halfvec_send(p.vector), ''::bytea),
        string_agg(p.identifiers, ''::bytea), array_agg(octet_length(p.identifiers))
    FROM {passages}) p
"""
TEXTS = ("s.type", "s.session", "s.speaker", "p.kind", "p.tools")


def columns_sql(steps: str, passages: str) -> str:
    """Return the statement that gives the columns of steps `s` and passages `p` of two FROM clauses, in their order."""
    return _ALL.format(steps=steps, passages=passages, **{name.replace(".", "_"): _joined(name) for name in TEXTS})


def columns_of(row: tuple[Any, ...]) -> PassageColumns | None:
    """Return the columns of the statement's row; None if there are no passages; ValueError for one without its step."""
    steps, types, sessions, speakers, times, milestones, ids, step, *passages = row
    if ids is None:
        return None
    part, start, end, kinds, asks, tools, vectors, identifiers, identifier_bytes = passages
    place = np.searchsorted(steps, step)
    if not np.array_equal(np.append(steps, -1)[place], step):
        raise ValueError("a passage has no step")
    swapped = np.frombuffer(vectors, "<u2").byteswap().view("<f2")  # or each use of them would do it, in twice the time
    halves = swapped.reshape(len(ids), -1)[:, HEAD // 2 :]
    return PassageColumns(
        ids, place, part, start, end, _texts(kinds), asks, _texts(tools), halves,
        identifiers, identifier_bytes, steps, _texts(types), _named(sessions), _named(speakers), times, milestones,
    )  # fmt: skip


def _joined(column: str) -> str:
    """Return the SQL that makes one of the texts of a column: as bytes, since each is unescaped by itself."""
    return f"convert_to(string_agg(coalesce({column}, E'\\x1a3'), E'\\x1a2'), 'UTF8')"


def _texts(joined: bytes) -> list[str]:
    texts = joined.decode().split(BETWEEN)
    return [*map(_unescaped, texts)] if _ESCAPED.search(joined) else texts


def _named(joined: bytes) -> list[str | None]:
    return [None if name == NOTHING else _unescaped(name) for name in joined.decode().split(BETWEEN)]


def _unescaped(text: str) -> str:
    return text.replace(NUL, "\0").replace(LITERAL, ESCAPE) if ESCAPE in text else text

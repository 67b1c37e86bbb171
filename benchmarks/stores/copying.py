"""Passages a second that INSERT and COPY write into a copy of the tables, with their indexes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import psycopg

__all__ = ["copying"]

ROWS = 2_000
TABLES = ("passages", "terms")
NAME = "tinymem_copying"


def copying(url: str, times: int) -> dict[str, Any]:
    """Rows a second of each, in turns; the rows are the first of the largest namespace."""
    rates: dict[str, list[float]] = {"insert": [], "copy": []}
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET search_path = tinymem, public")
        largest = db.execute("SELECT id FROM namespaces ORDER BY passages DESC LIMIT 1").fetchone()
        assert largest is not None
        rows = {table: _rows(db, table, largest[0]) for table in TABLES}
        for _ in range(times):
            for how, some in rates.items():
                some.append(_rate(db, how, rows))
        db.execute(f"DROP SCHEMA IF EXISTS {NAME} CASCADE")
    return {"rows_a_second": {how: round(median(some)) for how, some in rates.items()}, "runs": rates}


def _rows(db: psycopg.Connection[Any], table: str, namespace: int) -> list[tuple[Any, ...]]:
    key = "id" if table == "passages" else "passage"
    return db.execute(
        f"SELECT * FROM {table} WHERE namespace = %s ORDER BY {key} LIMIT {ROWS}", (namespace,)
    ).fetchall()


def _rate(db: psycopg.Connection[Any], how: str, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> float:
    db.execute(f"DROP SCHEMA IF EXISTS {NAME} CASCADE; CREATE SCHEMA {NAME}")
    for table in TABLES:
        db.execute(f"CREATE TABLE {NAME}.{table} (LIKE tinymem.{table} INCLUDING ALL EXCLUDING STATISTICS)")
    start = time.perf_counter()
    with db.transaction():
        if how == "copy":
            for table, some in rows.items():
                with db.cursor().copy(f"COPY {NAME}.{table} FROM STDIN") as copy:
                    for row in some:
                        copy.write_row(row)
        else:
            with db.pipeline():
                for table, some in rows.items():
                    marks = ", ".join(["%s"] * len(some[0]))
                    for row in some:
                        db.execute(f"INSERT INTO {NAME}.{table} VALUES ({marks})", row)
    return round(len(rows["passages"]) / (time.perf_counter() - start), 1)

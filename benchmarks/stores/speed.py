"""Times of opening a memory, of recalls and of contexts, from a database and from a folder, asked in turns."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from benchmarks.speed.steps import questions
from benchmarks.stores.fill import opened
from tinymem import HierarchicalMemory

__all__ = ["server", "sizes", "speed"]

BUDGET = 1_000  # tokens of a recall,
PROMPT = 4_000  # and of a context
SAMPLE = 500  # steps of which questions are made
SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = 'server_version'"
BY_NAME = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relnamespace = 'tinymem'::regnamespace"


def server(url: str) -> dict[str, str]:
    """The server's version."""
    with psycopg.connect(url) as db:
        return dict(db.execute(SETTINGS).fetchall())


def sizes(folder: Path, url: str) -> dict[str, Any]:
    """Bytes of both engines, and passages."""
    with psycopg.connect(url) as db:
        tables: dict[str, int] = dict(db.execute(f"{BY_NAME} AND relkind = 'r' ORDER BY 2 DESC").fetchall())
        count = db.execute("SELECT sum(passages)::bigint FROM tinymem.namespaces").fetchone()
    passages = int(count[0]) if count else 0
    files = sum(file.stat().st_size for file in folder.rglob("journal.db*"))
    return {
        "passages": passages,
        "bytes_a_passage": round(sum(tables.values()) / passages),
        "sqlite_bytes_a_passage": round(files / passages),
        "tables": {name: round(size / passages) for name, size in tables.items() if size > passages},
    }


def speed(folder: Path, url: str, names: Sequence[str], count: int) -> dict[str, Any]:
    """Seconds until a new host and one that knows the memory have recalled something, and milliseconds from then on."""
    found: dict[str, Any] = {}
    before = os.environ.get("TINYMEM_CACHE")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache, ExitStack() as stack:
        os.environ["TINYMEM_CACHE"] = cache  # as a host has it that was never here
        for name in names:
            new, known = _first(url, name), _first(url, name)
            shared, local = (stack.enter_context(opened(place, name)) for place in (url, str(folder)))
            asked = _questions(local, count)
            figures = {"postgres": _figures(shared, asked), "sqlite": _figures(local, asked)}
            passages = shared.long_term.journal.last_passage()
            found[name] = {"passages": passages, "new_host_seconds": new, "known_host_seconds": known, **figures}
    os.environ.pop("TINYMEM_CACHE")
    if before is not None:
        os.environ["TINYMEM_CACHE"] = before
    return found


def _first(place: str, name: str) -> float:
    """Return the seconds of opening a memory with the first recall."""
    begun = time.perf_counter()
    with opened(place, name) as memory:
        memory.recall("Which file was it?", BUDGET)
        return round(time.perf_counter() - begun, 2)


def _questions(memory: HierarchicalMemory, count: int) -> Sequence[str]:
    steps = memory.stats().steps
    known = memory.long_term.fetch(range(1, steps, max(1, steps // SAMPLE))).values()
    return questions([step.text for step in known], count + 1)


def _figures(memory: HierarchicalMemory, asked: Sequence[str]) -> dict[str, float]:
    calls: dict[str, Callable[[str], Any]] = {
        "recall_ms": lambda text: memory.recall(text, BUDGET),
        "context_ms": lambda text: memory.context(text, max_tokens=PROMPT),
    }
    found = {}
    for name, call in calls.items():
        times = []
        for text in asked:
            begun = time.perf_counter()
            call(text)
            times.append(time.perf_counter() - begun)
        found[name] = round(float(np.median(times[1:])) * 1_000, 1)  # the first one makes what is made once
    return found

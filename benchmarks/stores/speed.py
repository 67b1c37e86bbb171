"""Times of a recall from a database and from a folder, asked in turns, and the processor time that each takes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from benchmarks.speed.steps import questions
from benchmarks.speed.worker import own
from benchmarks.stores.fill import LARGE, SMALL, opened
from tinymem import HierarchicalMemory
from tinymem.recall.fusion import ScoredCandidates
from tinymem.stores.filter import Filter

__all__ = ["server", "sizes", "speed"]

BUDGET = 1_000  # tokens of a recall
SAMPLE = 500  # steps of which questions are made
SETTINGS = (
    "SELECT name, current_setting(name) FROM pg_settings "
    "WHERE name IN ('server_version', 'shared_buffers', 'maintenance_work_mem', 'work_mem', 'synchronous_commit')"
)
BY_NAME = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relnamespace = 'tinymem'::regnamespace"
VECTORS = (
    "SELECT coalesce(sum(pg_relation_size(indexrelid)), 0)::bigint FROM pg_stat_user_indexes WHERE indexrelname LIKE %s"
)


def server(url: str) -> dict[str, str]:
    """The server's version, pgvector's, and its memory."""
    with psycopg.connect(url) as db:
        vector = db.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        rows = db.execute(SETTINGS).fetchall()
    return {"pgvector": str(vector[0]) if vector else "", **dict(rows)}


def sizes(folder: Path, url: str) -> dict[str, Any]:
    """Bytes of both engines, and passages."""
    with psycopg.connect(url) as db:
        tables: dict[str, int] = dict(db.execute(f"{BY_NAME} AND relkind = 'r' ORDER BY 2 DESC").fetchall())
        found = db.execute(VECTORS, ("vectors_nearest_%",)).fetchone()
        count = db.execute("SELECT sum(passages)::bigint FROM tinymem.namespaces").fetchone()
    passages = int(count[0]) if count else 0
    files = sum(file.stat().st_size for file in folder.rglob("journal.db*"))
    return {
        "passages": passages,
        "bytes_a_passage": round(sum(tables.values()) / passages),
        "of_index_of_vectors": round(int(found[0] if found else 0) / passages),
        "sqlite_bytes_a_passage": round(files / passages),
        "tables": {name: round(size / passages) for name, size in tables.items() if size > passages},
    }


def speed(folder: Path, url: str, count: int) -> dict[str, Any]:
    """Milliseconds from candidates to scores and of a whole recall, and seconds of processor time."""
    found: dict[str, Any] = {}
    for name in (LARGE, SMALL):
        with ExitStack() as stack:
            begun = time.perf_counter()
            shared = stack.enter_context(opened(url, name))
            shared.recall("Which file was it?", BUDGET)
            first = time.perf_counter() - begun
            local = stack.enter_context(opened(str(folder), name))
            for memory in (shared, local):
                memory.long_term.indexing.in_background = False
            pids = _backends(url)
            numbers = range(1, local.stats().steps, max(1, local.stats().steps // SAMPLE))
            asked = questions([step.text for step in local.long_term.fetch(numbers).values()], count + 3)
            for text in asked[:3]:  # what is made once
                for memory in (shared, local):
                    memory.recall(text, BUDGET)
            times: dict[str, list[tuple[float, ...]]] = {"postgres": [], "sqlite": []}
            same = 0.0
            for text in asked[3:]:
                best = []
                for engine, memory in (("postgres", shared), ("sqlite", local)):
                    before = _processor(pids if memory is shared else ())
                    scored = _scored(memory, text)
                    start = time.perf_counter()
                    recalled = memory.recall(text, BUDGET, k=10)
                    took = time.perf_counter() - start
                    times[engine].append((*scored, took, _processor(pids if memory is shared else ()) - before))
                    best.append({(item.step.step_number, item.part, item.start) for item in recalled.items})
                same += len(best[0] & best[1]) / max(1, len(best[0] | best[1]))
            found[name] = {
                **{engine: _figures(some) for engine, some in times.items()},
                "passages": shared.long_term.journal.last_passage(),
                "first_recall_seconds": round(first, 2),
                "shared_of_ten": round(same / count, 3),
                "private_mib": own(),
            }
            medians = {engine: np.median([one[0] for one in some]) for engine, some in times.items()}
            found[name]["ratio"] = round(float(medians["postgres"] / medians["sqlite"]), 2)
    return found


def _scored(memory: HierarchicalMemory, text: str) -> tuple[float, float]:
    """Return the seconds from candidates to scores, and of the processor for that here."""
    past = memory.long_term
    source = past.source(Filter())
    query = past.queue.question(text, source, datetime.now(timezone.utc))
    start, processor = time.perf_counter(), time.process_time()
    found = source.gather(query)
    ScoredCandidates.of(query, found.snapshot, found.candidates)
    return time.perf_counter() - start, time.process_time() - processor


def _figures(times: Sequence[tuple[float, ...]]) -> dict[str, float]:
    scored, here, recalled, processor = zip(*times, strict=True)
    p50, p95 = np.percentile(scored, [50, 95]) * 1000
    return {
        "scored_ms": round(float(p50), 1),
        "scored_p95_ms": round(float(p95), 1),
        "recall_ms": round(float(np.median(recalled)) * 1000, 1),
        "client_cpu_ms": round(float(np.mean(here)) * 1000, 1),
        "cpu_ms_a_recall": round(float(np.mean(processor)) * 500, 1),  # each question was scored, and recalled
    }


def _backends(url: str) -> list[int]:
    """Return the processes of the server that serve this one."""
    with psycopg.connect(url) as db:
        return [
            int(pid) for (pid,) in db.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
        ]


def _processor(pids: Sequence[int]) -> float:
    """Return the seconds of the processor that this process and those have taken; 0 for one that is gone."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")

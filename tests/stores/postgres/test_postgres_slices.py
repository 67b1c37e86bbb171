"""Recall of a large memory in a database: from the passages that the server finds, the same as from all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from contract import unit_vectors
from journal_rows import embed, put, row
from memories import sentences
from postgres_server import PostgresServer

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.protocols import PassageRow, Sought
from tinymem.protocols.settings import EMBEDDER
from tinymem.recall.snapshot import ACT, KINDS, TABLES, Snapshot
from tinymem.runs.hooks.answers import rules_of
from tinymem.steps.step import Step
from tinymem.stores.filter import Condition
from tinymem.upkeep import doctor, migrate, rebuild

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")

from tinymem.stores.journals import migrate_tables  # noqa: E402
from tinymem.stores.postgres.administration import INDEXING  # noqa: E402
from tinymem.stores.postgres.identifiers import ACTS  # noqa: E402
from tinymem.stores.postgres.nearest import BREADTH, index_name, nearest  # noqa: E402
from tinymem.stores.postgres.server.pool import acquire_pool, release_pool, send  # noqa: E402
from tinymem.stores.postgres.server.values import Planned, halves  # noqa: E402

OpenJournal = Callable[..., Any]
SLICED = "tinymem.stores.postgres.slices.IN_SLICES"
PLACES = ("src/app/main.py", "load_config", "node-13", "parseHeader", "ORD-54741")
START = 1_700_000_000
QUESTIONS = (
    "Which file has load_config in it?",
    "What was said on 15 November 2023?",
    "What did Ann think of ORD-54741?",
)
STRETCH = "\n".join(["bash: cat src/app/main.py", "load_config is called there", "parseHeader too", "node-13 fails"])


@pytest.fixture(autouse=True)
def without_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare no statements among themselves, as in a chat: that needs all of them, and a slice has some."""
    monkeypatch.setattr("tinymem.recall.candidates.CHAT", 0.0)


def a_run(count: int = 400) -> list[Step]:
    """Steps of an agent and of two people, in four sessions."""
    texts, steps = sentences(3 * count), list[Step]()
    for at in range(count):
        one, other, third = texts[3 * at : 3 * at + 3]
        where: dict[str, Any] = {"session": f"day-{at * 4 // count}", "timestamp": START + 600 * at, "id": f"s{at}"}
        place = PLACES[at // 7 % len(PLACES)]
        if at % 3 == 0:
            call: dict[str, Any] = {"tool_name": "bash" if at % 2 else "grep", "tool_args": {"cmd": f"cat {place}{at}"}}
            steps.append(ActionStep(thought=one, observation=f"{other} {place} {third}", **call, **where))
        else:
            speaker = ("Ann", "Bob")[at % 2]
            steps.append(MessageStep("user", f"{one} {place if at % 5 == 0 else ''} {other}", speaker=speaker, **where))
    return [
        TaskStep(task="Mend the parser", timestamp=datetime.fromtimestamp(START - 1, timezone.utc), id="task"),
        *steps,
    ]


@pytest.fixture
def memory(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HierarchicalMemory]:
    """A memory of some hundred passages, in a namespace of its own."""
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    with HierarchicalMemory(postgres.url(), namespace=str(uuid4()), window_tokens=500) as made:
        made.long_term.indexing.in_background = False
        made.add_steps(a_run())
        made.long_term.queue.catch_up()
        yield made


def found(memory: HierarchicalMemory, **limits: Any) -> list[list[tuple[str, int, int, float]]]:
    """What comes back for every question."""
    return [
        [(one.step.id, one.start, one.end, round(one.score, 3)) for one in memory.recall(text, 400, **limits).items]
        for text in (*QUESTIONS, *sentences(1200)[::150])
    ]


def is_sliced(memory: HierarchicalMemory) -> bool:
    return memory.long_term.journal.finder() is not None


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"session": "day-1"},
        {"session": "day-*"},
        {"speaker": "Ann"},
        {"tool": "bash"},
        {"type": "message"},
        {"since": START + 60_000, "until": START + 90_000},
        {"session": "nowhere"},
    ],
    ids=str,
)
def test_a_slice_brings_back_the_same(
    memory: HierarchicalMemory, limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = found(memory, **limits)
    assert not is_sliced(memory)
    monkeypatch.setattr(SLICED, 100)
    assert is_sliced(memory)
    assert found(memory, **limits) == expected


def test_a_slice_tells_as_well_whether_anything_is_known(
    memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "When did Melanie mend the parser?"  # a name that stands nowhere
    whole = memory.explain(asked)
    monkeypatch.setattr(SLICED, 100)
    assert is_sliced(memory)
    sliced = memory.explain(asked)
    assert sliced.signals == pytest.approx(whole.signals, abs=1e-3)
    assert sliced.odds == pytest.approx(whole.odds, abs=1e-2)


def test_rules_of_people_come_out_of_a_slice_too(memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, last = memory.add_steps([MessageStep("user", f"Never open port {port}.") for port in (8080, 8443)])
    memory.correct(last.id, "Port 8443 is open now.")
    memory.long_term.queue.catch_up()
    whole = [step.text for step in rules_of(memory)]
    monkeypatch.setattr(SLICED, 100)
    assert is_sliced(memory)
    assert [step.text for step in rules_of(memory)] == whole == ["Port 8443 is open now.", "Never open port 8080."]


@pytest.mark.parametrize("few", [0, 20_000], ids=["by the index", "one by one"])
@pytest.mark.parametrize("limits", [{"type": "message"}, {"session": "day-1"}, {"tool": "bash"}], ids=str)
def test_a_filter_beside_an_index_brings_back_the_same(
    memory: HierarchicalMemory, postgres: PostgresServer, few: int, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = found(memory, **limits)
    monkeypatch.setattr(SLICED, 100)
    monkeypatch.setattr("tinymem.stores.postgres.nearest.INDEXED_FROM", 300)
    monkeypatch.setattr("tinymem.stores.postgres.nearest.FEW", few)
    migrate_tables(postgres.url())
    assert found(memory, **limits) == expected
    journal: Any = memory.long_term.journal
    assert journal._slices.is_indexed


def test_a_stretch_of_the_run_brings_back_nearly_the_same(
    memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps() -> set[str]:
        return {one.step.id for one in memory.recall(STRETCH, 800).items}

    expected = steps()  # from tables in which some identifiers share a slot, and count as one
    monkeypatch.setattr(SLICED, 100)
    assert len(steps() & expected) > 0.7 * len(expected) > 7


def test_a_context_from_a_slice_shows_no_step_twice(
    memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [memory.context(text, max_tokens=2_000).messages for text in QUESTIONS]
    monkeypatch.setattr(SLICED, 100)
    assert [memory.context(text, max_tokens=2_000).messages for text in QUESTIONS] == expected


def test_the_statistics_follow_what_comes_and_goes(memory: HierarchicalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SLICED, 100)
    journal = memory.long_term.journal
    for session in ("day-0", "day-2"):
        memory.forget(session=session)
        assert journal.maintenance.check_terms().fault is None
    memory.add_steps([step.evolve(id=f"again {step.id}") for step in a_run(40)])
    memory.long_term.queue.catch_up()
    assert journal.maintenance.check_terms().fault is None
    sliced = found(memory)
    monkeypatch.setattr(SLICED, 20_000)
    assert found(memory) == sliced


def test_damaged_statistics_are_found_and_made_again(postgres: PostgresServer, memory: HierarchicalMemory) -> None:
    url, name, id = postgres.url(), memory.namespace, memory.long_term.journal.id  # type: ignore[attr-defined]
    with psycopg.connect(url) as db:
        db.execute("UPDATE tinymem.identifiers SET passages = passages + 1 WHERE namespace = %s", (id,))
    assert not doctor(url, name).sound
    rebuild(url, name)
    assert doctor(url, name).sound


def test_a_host_has_no_arrays_of_a_large_memory(
    memory: HierarchicalMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinymem.archive.snapshots.LEAST", 100)
    memory.recall("load_config")
    assert [*memory.long_term.folder.glob("snapshot-*")]
    monkeypatch.setattr(SLICED, 100)
    memory.recall("load_config")
    memory.flush()
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size] == []


@pytest.mark.parametrize("limits", [{}, {"type": "message"}], ids=str)
def test_a_recall_from_a_slice_takes_few_round_trips(
    memory: HierarchicalMemory, limits: dict[str, Any], trips: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SLICED, 100)
    memory.recall("what", max_tokens=100)
    for text in (*QUESTIONS, STRETCH):
        trips.clear()
        assert memory.recall(text, 400, **limits).items
        assert 4 < len(trips) <= 13  # of which one reads how commands ended that failed


def test_an_act_is_the_same_in_both_places() -> None:
    assert {kind for kind, number in KINDS.items() if number == ACT} == ACTS


# -- the index --------------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(open_journal: OpenJournal, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A namespace of 1,500 passages, which has an index; and beside it one of 50, which has none."""
    monkeypatch.setattr("tinymem.stores.postgres.nearest.INDEXED_FROM", 1_000)
    large, small = open_journal("large"), open_journal("small")
    put(large, sentences(1_500))
    put(small, sentences(50, seed=1))
    migrate_tables(postgres.url())
    return large, small


def plans(url: str, journal: Any, times: int = 1) -> list[str]:
    """The plans for the nearest vectors of a journal's namespace, as it asks for them."""
    vectors = unit_vectors(1)
    sql, values = nearest(journal.id, journal.embedder(), halves(vectors), vectors.shape[1], Condition(), (), 240, True)
    assert not isinstance(sql, Planned)
    made = []
    pool = acquire_pool(url, False, 30)
    db = pool.take()
    try:
        for _ in range(times):
            explained = send(db, [("BEGIN", ()), BREADTH, (f"EXPLAIN {sql}", values), ("ROLLBACK", ())])[2]
            made.append("\n".join(line for (line,) in explained.fetchall()))
    finally:
        pool.give(db)
        release_pool(pool)
    return made


def test_vectors_of_a_large_namespace_are_found_by_its_own_index(indexed: Any, postgres: PostgresServer) -> None:
    large, small = indexed
    own = index_name(large.id, large.embedder())
    assert all(f"Index Scan using {own}" in plan for plan in plans(postgres.url(), large, 11))
    assert not any("vectors_nearest_" in plan for plan in plans(postgres.url(), small, 11))


def test_a_role_finds_vectors_by_the_index_too(indexed: Any, postgres: PostgresServer) -> None:
    large, _ = indexed
    role = f"bot_{uuid4().hex}"
    with psycopg.connect(postgres.url()) as db:
        db.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'word'")
        db.execute("CALL tinymem.allow(%s, %s)", (role, large.name))
    url = postgres.url(user=role, password="word")
    own = index_name(large.id, large.embedder())
    assert all(f"Index Scan using {own}" in plan for plan in plans(url, large, 11))
    migrate_tables(url)  # which leaves the owner's indexes alone
    assert own in plans(url, large)[0]


def test_who_makes_an_index_waits_for_another_one_who_does(
    open_journal: OpenJournal, fresh: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr("tinymem.stores.postgres.nearest.INDEXED_FROM", 40)
    journal = open_journal(url=fresh)
    put(journal, sentences(50))
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
    with psycopg.connect(fresh, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (INDEXING,))
        waiting = [Thread(target=migrate_tables, args=(fresh,)) for _ in range(2)]
        for thread in waiting:
            thread.start()
        while caplog.text.count("waiting until it is done") < 2 and all(thread.is_alive() for thread in waiting):
            time.sleep(0.01)
        made = (f"tinymem.{index_name(journal.id, journal.embedder())}",)
        assert other.execute(valid, made).fetchall() == []
        other.execute("SELECT pg_advisory_unlock(%s)", (INDEXING,))
        for thread in waiting:
            thread.join()
        assert other.execute(valid, made).fetchall() == [(True,)]


def test_a_large_namespace_without_an_index_says_so(
    memory: HierarchicalMemory, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(SLICED, 100)
    monkeypatch.setattr("tinymem.stores.postgres.nearest.INDEXED_FROM", 300)
    for _ in range(2):
        memory.recall("load_config")
    assert [said.getMessage().count("run `tinymem migrate URL`") for said in caplog.records] == [1]
    migrate_tables(postgres.url())
    memory.add(MessageStep("user", "So the owner has made one."))
    memory.recall("load_config")
    journal: Any = memory.long_term.journal
    assert journal._slices.is_indexed


def test_a_large_memory_that_moved_gets_its_index_once_it_is_embedded(
    memory: HierarchicalMemory, postgres: PostgresServer, fresh: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    migrate(postgres.url(), tmp_path / "moved", namespace=memory.namespace)
    monkeypatch.setattr("tinymem.stores.postgres.nearest.INDEXED_FROM", 300)
    migrate(tmp_path / "moved", fresh)
    with HierarchicalMemory(fresh, namespace=memory.namespace) as moved:
        moved.flush()
    migrate_tables(fresh)
    with psycopg.connect(fresh) as db:
        row = db.execute("SELECT id FROM tinymem.namespaces WHERE name = %s", (memory.namespace,)).fetchone()
        assert row is not None
        embedder = memory.long_term.journal.setting(EMBEDDER)
        assert embedder
        name = index_name(row[0], embedder)
        assert db.execute("SELECT to_regclass(%s)", (f"tinymem.{name}",)).fetchone() != (None,)


def test_columns_are_those_of_the_rows(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = open_journal()
    names = ["a\0b", "\x1a", "\x1a1", "\x1a2", "\x1a3\0", "", None, "naïve\n"]
    rows = [row(at, session=name, speaker=name, milestone=at == 3) for at, name in enumerate(names, 1)]
    journal.add(rows)
    passages = [
        (
            one.number,
            PassageRow(part, part, 9, ("call", "message")[part], part == 1, "said", b"\1\0\0\0" * part, str(name)),
        )
        for one, name in zip(rows, names, strict=True)
        for part in range(2)
    ]
    assert journal.put_passages([one.number for one in rows], passages)
    embed(journal, unit_vectors(len(passages)))
    monkeypatch.setattr(SLICED, 0)
    passages = journal.finder().find(Sought("said", unit_vectors(1), np.zeros(0, np.uint32))).passages
    assert passages is not None
    read, sliced = Snapshot(16).with_tail(journal.passages()), Snapshot(16).with_columns(passages)
    for name in read.rooms:
        assert np.array_equal(getattr(read, name), getattr(sliced, name)), name
    for held in TABLES:
        assert getattr(read, held) == getattr(sliced, held)

"""Servers, writers and connections that are killed: nothing that was acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from journal_rows import add_next
from postgres_server import PostgresServer
from wire import Cut, Wire

from tinymem.errors import StorageError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")
OpenJournal = Callable[..., Any]

# Adds steps until it is killed, and writes the id of each once it is acknowledged.
WRITER = """
import sys
sys.path[:0] = ["tests", "tests/support"]
from journal_rows import add_next
from tinymem.stores.postgres.journal import PostgresJournal
url, name, writer, most = sys.argv[1:]
journal = PostgresJournal(url, name)
for at in range(int(most)):
    id = f"{writer}-{at}"
    print(id, add_next(journal, id), flush=True)
"""


def begun(journal: Any, writer: str, most: int = 1_000_000) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, journal._url, journal.name, writer, str(most)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(journal: Any, acknowledged: dict[str, int]) -> None:
    """Each acknowledged step has its number, and the numbers have no hole and no double."""
    rows = journal.rows(limit=1_000_000)
    held = {row.id: row.number for row in rows}
    assert {id: held.get(id) for id in acknowledged} == acknowledged
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert [row.position for row in rows] == [7 * at for at in range(len(rows))]
    assert len(held) == len(rows)


def said(output: str) -> dict[str, int]:
    return {id: int(number) for id, number in (line.split() for line in output.splitlines() if line.count(" ") == 1)}


def test_writers_at_once_get_each_number_once(open_journal: OpenJournal) -> None:
    journal = open_journal()
    before = journal.version()
    writers = [begun(journal, f"w{each}", 25) for each in range(4)]
    acknowledged: dict[str, int] = {}
    for writer in writers:
        output, problems = writer.communicate(timeout=120)
        assert writer.returncode == 0, problems
        acknowledged |= said(output)
    assert sorted(acknowledged.values()) == list(range(1, 101))
    check(journal, acknowledged)
    assert journal.version() != before


@pytest.mark.parametrize("cut", ["request", "answer"])
def test_a_commit_whose_answer_is_lost_is_asked_for(
    cut: Cut, open_journal: OpenJournal, wire: Wire, wired: str
) -> None:
    journal = open_journal(url=wired)
    first = add_next(journal, "first")
    version = journal.version()
    wire.cut_at = cut
    if cut == "request":
        with pytest.raises(StorageError, match="nothing of this transaction was written: try again"):
            add_next(journal, "second")
        assert [row.id for row in journal.rows()] == ["first"]
        add_next(journal, "second")
    else:
        assert add_next(journal, "second") == first + 1
    assert wire.cuts == 1
    assert journal.version() == version  # only this journal has written
    check(journal, {"first": 1, "second": 2})


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the connections that are dropped
def test_an_interrupt_leaves_no_half_of_a_transaction(open_journal: OpenJournal) -> None:
    journal = open_journal()
    acknowledged = {"0": add_next(journal, "0")}
    at, was_interrupted = 0, True
    while was_interrupted:
        at += 6
        was_interrupted = interrupted(lambda: add_next(journal, f"lost {at}"), at)  # noqa: B023
        acknowledged[str(at)] = add_next(journal, str(at))
    assert at > 30
    check(open_journal(), acknowledged)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_connection_that_never_comes_back_takes_no_place(postgres: PostgresServer) -> None:
    from tinymem.stores.postgres.server.pool import SIZE, Pool

    pool = Pool(postgres.url(), timeout=0)
    for _ in range(SIZE + 1):
        pool.take()  # and dropped, as by an interrupt
    used = [pool.take() for _ in range(SIZE)]
    with pytest.raises(StorageError, match=f"all {SIZE} connections of this process are in use for 0 seconds"):
        pool.take()
    for connection in used:
        pool.give(connection)
    pool.drop_idle()


def interrupted(use: Callable[[], object], at: int) -> bool:
    """Whether something was interrupted, as by Ctrl-C when the `at`-th function begins."""
    left = at

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        left -= event == "call"
        if event == "call" and left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        use()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return left <= 0  # in one that nobody waits for, as the removal of an object


def test_idle_connections_that_were_cut_are_not_noticed(open_journal: OpenJournal, wire: Wire, wired: str) -> None:
    journal = open_journal(url=wired)
    for use in (
        lambda: add_next(journal, "one"),
        journal.rows,
        journal.version,
        lambda: journal.search_text("nobody"),
        lambda: journal.keep({"key": "value"}),
    ):
        wire.cut()
        use()
    assert [row.id for row in journal.rows()] == ["one"]


def test_a_connection_that_is_cut_in_a_transaction_is_an_error(
    open_journal: OpenJournal, wire: Wire, wired: str
) -> None:
    journal = open_journal(url=wired)

    def add() -> None:
        with journal.together():
            add_next(journal, "one")
            wire.cut()
            journal.rows()

    with pytest.raises(StorageError):
        add()
    assert journal.rows() == []
    add_next(journal, "one")
    check(journal, {"one": 1})


@pytest.mark.slow
def test_writers_that_are_killed_leave_no_half(open_journal: OpenJournal) -> None:
    journal, acknowledged = open_journal(), dict[str, int]()
    for at in range(2):
        writers = [begun(journal, f"w{at}{each}") for each in range(3)]
        first = [writer.stdout.readline() for writer in writers if writer.stdout]
        for line, writer in zip(first, writers, strict=True):
            writer.send_signal(signal.SIGKILL)
            rest = writer.communicate()[0]
            acknowledged |= said(line + rest[: rest.rfind("\n") + 1])
    assert len(acknowledged) >= 6
    check(journal, acknowledged)


def test_connections_that_the_server_ends_lose_nothing(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    journal = open_journal(url=postgres.url() + "?application_name=victim")
    acknowledged, unsure, done = dict[str, int](), list[str](), threading.Event()

    def write(writer: str) -> None:
        at = 0
        while not done.is_set():
            at += 1
            try:
                acknowledged[f"{writer}-{at}"] = add_next(journal, f"{writer}-{at}")
            except StorageError as error:
                unsure.append(str(error))

    threads = [threading.Thread(target=write, args=(f"t{each}",)) for each in range(2)]
    for thread in threads:
        thread.start()
    chance, ended = random.Random(0), 0
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        while ended < 10:
            time.sleep(chance.uniform(0, 0.03))
            sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victim'"
            ended += db.execute(sql).fetchone()[0]
    done.set()
    for thread in threads:
        thread.join()
    assert not [text for text in unsure if "cannot be asked" in text]
    check(journal, acknowledged)
    assert len(journal.rows(limit=1_000_000)) == len(acknowledged)  # what raised was not written


@pytest.mark.slow
def test_a_server_that_crashes_loses_nothing(open_journal: OpenJournal, postgres: PostgresServer) -> None:
    journal, acknowledged = open_journal(), dict[str, int]()
    for crash in range(2):
        at, failed = 0, ""
        killer = threading.Timer(0.2, postgres.kill)
        killer.start()
        while not failed:
            at += 1
            try:
                acknowledged[f"{crash}-{at}"] = add_next(journal, f"{crash}-{at}")
            except StorageError as error:
                failed = str(error)
        killer.join()
        with pytest.raises(StorageError) as refused:
            journal.rows()
        postgres.start()  # before anything is asserted: other tests need it
        # A child of the server that is slow to go may still take a connection, and drop it.
        assert re.search(r"cannot be reached: .*; (start the server|check the address)", str(refused.value), re.DOTALL)
        rows = {row.id: row.number for row in journal.rows(limit=1_000_000)}
        if (last := f"{crash}-{at}") in rows:  # committed, and the server died before it said so
            acknowledged[last] = rows[last]
        check(journal, acknowledged)
    assert len(acknowledged) > 2

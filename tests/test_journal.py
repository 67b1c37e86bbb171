"""The journal: durable, all or none, and forgetting for good. Real files, real processes, real kills."""

from __future__ import annotations

import dataclasses
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import Entry, entry, python, said, texts_in
from strategies import MODERATE

from tinymem.errors import ClosedError, FormatError, InputError, StorageError, TinymemError
from tinymem.protocols import PassageRow, StepRow
from tinymem.serialization import load_step
from tinymem.stores.sqlite import FORMAT, SqliteJournal

HOSTILE = {
    "lone surrogates": "left \ud800 right \udfff",
    "NUL": "before\x00after",
    "quotes": "it's \"quoted\" and 'again' `so` \\",
    "SQL": "'); DROP TABLE steps; --",
    "full-text operators": 'foo AND OR NOT NEAR(a b, 3) {terms}: ^b* -c + "unclosed',
    "right-to-left": "שלום \u202eעולם مرحبا",
    "combining": "e\u0301 n\u0303 नमस्ते ❤️‍🔥",
    "white space": " \t\n\r\u2028\u00a0",
    "one character a million times": "a" * 1_000_000,
    "many words of a letter": "𝔸_" * 50_000,
}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db")
    yield opened
    opened.close()


def filled(journal: SqliteJournal, *texts: str) -> list[Entry]:
    first = journal.next_number()
    entries = [entry(said(text, number), 7 * number) for number, text in enumerate(texts, first)]
    journal.add(entries)
    return entries


def found(journal: SqliteJournal, query: str) -> list[int]:
    return [int(id) for id in journal.search_text(query)[0]]


def snapshot(journal: SqliteJournal) -> list[Any]:
    rows = journal._read("SELECT * FROM passages ORDER BY id")
    terms = journal._read("SELECT term, doc, cnt FROM vocabulary ORDER BY term")
    return [journal.rows(), rows, terms, journal.counts(), journal.next_number(), journal.end()]


def removal(entries: list[Entry]) -> dict[int, list[str]]:
    return {row.number: [passage.text for passage in passages] for row, passages in entries}


# durable

ADD_FOR_EVER = """
import sys
from pathlib import Path
from memories import entry, said
from tinymem.stores.sqlite import SqliteJournal

journal = SqliteJournal(Path(sys.argv[1]))
number = journal.next_number()
while True:
    batch = range(number, number + 1 + number % 4)
    text = "{0} opens. " + "filler words stand here. " * 60 + "closer{0}."
    journal.add([entry(said(text.format(f"mark{n}"), n), 7 * (n - 1)) for n in batch])
    number = batch.stop
    print(batch.start, batch.stop, flush=True)
"""


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path, dice, stop = tmp_path / "journal.db", random.Random(1), 1
    for _ in range(3):
        with python(ADD_FOR_EVER, path) as writer:
            assert writer.stdout
            lines = [line for _, line in zip(range(25), writer.stdout, strict=False)]
            time.sleep(dice.uniform(0, 0.01))
            writer.kill()
            lines += [line for line in writer.stdout if line.endswith("\n")]
        assert int(lines[0].split()[0]) == stop, "it goes on where the journal ended"
        acknowledged = int(lines[-1].split()[1])
        journal = SqliteJournal(path)
        numbers = [row.number for row in journal.rows(limit=10_000)]
        stop = journal.next_number()
        assert numbers == list(range(1, stop)), "each number is there once"
        assert stop in (acknowledged, acknowledged + 1 + acknowledged % 4), "the last batch is whole, or absent"
        check_agreement(journal, numbers)
        journal.close()


def check_agreement(journal: SqliteJournal, numbers: list[int]) -> None:
    """Steps, passages and full text hold the same."""
    passages = journal._read("SELECT id, step FROM passages ORDER BY id")
    owner = dict(passages)
    assert sorted(set(owner.values())) == numbers
    for number in numbers:
        marks = journal.search_text(f"mark{number}")[0].tolist()
        closers = journal.search_text(f"closermark{number}")[0].tolist()
        assert [owner[id] for id in marks + closers] == [number, number]
        assert marks < closers
    assert len(journal.pending(10 * len(passages))) == len(passages)
    journal._read("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
    assert journal._read("PRAGMA integrity_check") == [("ok",)]
    assert journal.end() == 7 * len(numbers)


def test_a_step_is_on_disk_for_another_process_as_soon_as_add_returns(journal: SqliteJournal) -> None:
    filled(journal, "hello there")
    other = SqliteJournal(journal.path, create=False)
    assert [row.id for row in other.rows()] == ["id-000001"]
    other.close()


def test_add_is_synchronous_and_logged_ahead(journal: SqliteJournal) -> None:
    assert journal._read("PRAGMA journal_mode") == [("wal",)]
    assert journal._read("PRAGMA synchronous") == [(2,)]  # FULL


# all or none


def test_a_batch_with_a_known_id_is_refused_whole(journal: SqliteJournal) -> None:
    filled(journal, "one stays", "two stays")
    before = snapshot(journal)
    batch = [entry(said("three is new", 3)), entry(said("two again", 4, id="id-000002"))]
    with pytest.raises(InputError, match=r"in the memory already \(id-000003, id-000002\)"):
        journal.add(batch)
    assert snapshot(journal) == before
    assert found(journal, "new again") == []
    journal.add(batch[:1])
    assert [row.number for row in journal.rows()] == [1, 2, 3]


def test_a_batch_that_repeats_its_own_id_or_a_number_is_refused_whole(journal: SqliteJournal) -> None:
    filled(journal, "one stays")
    before = snapshot(journal)
    for batch in (
        [entry(said("a", 2)), entry(said("b", 3, id="id-000002"))],
        [entry(said("a", 2)), entry(said("b", 2, id="other"))],
        [entry(said("a", 1, id="other"))],
    ):
        with pytest.raises(InputError):
            journal.add(batch)
        assert snapshot(journal) == before


def test_a_batch_that_fails_half_way_for_any_reason_leaves_nothing(journal: SqliteJournal) -> None:
    filled(journal, "one stays")
    before = snapshot(journal)
    bad = PassageRow(0, 0, 1, "message", False, 5)  # type: ignore[arg-type]
    with pytest.raises(Exception):  # noqa: B017 (whatever it is)
        journal.add([entry(said("fine", 2)), (entry(said("x", 3))[0], [bad])])
    assert snapshot(journal) == before
    filled(journal, "goes on")
    assert len(journal.rows()) == 2


def test_text_that_no_file_can_hold_is_an_input_error_and_changes_nothing(journal: SqliteJournal) -> None:
    before = snapshot(journal)
    with pytest.raises(InputError, match="surrogate"):
        journal.add([entry(said("x", 1)), entry(said("y", 2, id="id-\ud800"))])
    with pytest.raises(InputError):
        journal.add([(dataclasses.replace(entry(said("y", 2))[0], number=2**63), [])])
    assert snapshot(journal) == before
    for look_up in (lambda: journal.find("\ud800"), lambda: journal.numbers(session="\ud800")):
        with pytest.raises(InputError):
            look_up()


# numbers


def test_numbers_are_never_given_again(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    assert journal.next_number() == 1
    entries = filled(journal, "one", "two", "three")
    journal.delete(removal(entries[2:]))
    assert journal.next_number() == 4
    journal.close()
    journal = SqliteJournal(tmp_path / "journal.db")
    assert journal.next_number() == 4
    journal.delete(removal(entries[:2]))
    assert (journal.next_number(), journal.rows(), journal.end()) == (4, [], 0)
    filled(journal, "four")
    assert [row.number for row in journal.rows()] == [4]
    journal.close()


def test_passages_of_new_steps_never_get_the_id_of_a_deleted_one(journal: SqliteJournal) -> None:
    entries = filled(journal, "one", "two")
    last = journal.pending(9)[-1][0]
    journal.delete(removal(entries))
    filled(journal, "three")
    assert journal.pending(9)[0][0] > last


# window


def test_steps_enter_the_window_and_leave_it(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    entries = filled(journal, "one", "two", "three", "four")
    assert journal.window() == [row for row, _ in entries]
    assert not journal.any_archived()
    journal.set_window([1, 3], {2: '{"short": 1}'})
    journal.close()
    journal = SqliteJournal(tmp_path / "journal.db")
    assert [(row.number, row.window, row.view) for row in journal.window()] == [(2, 1, '{"short": 1}'), (4, 1, None)]
    assert journal.any_archived()
    assert journal.counts()["window_steps"] == 2
    assert journal.counts()["window_tokens"] == 14
    assert load_step(journal.rows()[1].record).text == "two", "the record stays whole behind its view"
    journal.set_window([], {1: None, 2: None})
    assert [(row.number, row.view) for row in journal.window()] == [(1, None), (2, None), (4, None)]
    journal.set_window([2], {2: "{}"})  # in the same call the view wins: it says that the step is shown
    assert [row.view for row in journal.window() if row.number == 2] == ["{}"]
    journal.set_window([2], {})
    assert [row.view for row in journal.rows() if row.number == 2] == [None]
    journal.close()


# reading


def test_steps_are_found_by_number_id_session_and_time(journal: SqliteJournal) -> None:
    steps = [said("a", 1, session="s"), said("b", 2), said("c", 3, session="s"), said("d", 4, session="t")]
    journal.add([entry(step) for step in steps])
    assert journal.find("id-000003") == entry(steps[2])[0].record
    assert journal.find("nobody") is None
    assert journal.numbers(["id-000004", "nobody", "id-000001"]) == [1, 4]
    assert journal.numbers(session="s") == [1, 3]
    assert journal.numbers(before=steps[1].timestamp.timestamp()) == [1]
    assert journal.numbers(["id-000001"], "t", steps[2].timestamp.timestamp()) == [1, 2, 4]
    assert journal.numbers() == []
    assert sorted(journal.steps([4, 99, 2])) == [2, 4]
    assert journal.steps([]) == {}


def test_any_number_of_steps_is_read_at_once(journal: SqliteJournal) -> None:
    filled(journal, *(f"text {n}" for n in range(1_201)))
    assert len(journal.steps(range(1, 2_000))) == 1_201
    assert [len(journal.rows(after, 500)) for after in (0, 500, 1_000, 1_201)] == [500, 500, 201, 0]


def test_vectors_are_kept_to_half_precision_with_their_tokens(journal: SqliteJournal) -> None:
    filled(journal, "one", "two", "three")
    ids = [row[0] for row in journal.pending(2)]
    vectors = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    journal.put_vectors(ids, vectors, [np.array([3, 1], np.uint16), np.array([], np.uint16)])
    rows = journal.passages()
    assert [row[0] for row in rows] == ids
    assert np.array_equal(np.frombuffer(rows[1][7], "<f2"), vectors[1].astype(np.float16))
    assert [row[8] for row in rows] == [b"\x03\x00\x01\x00", b""]
    assert len(journal.pending(9)) == 1
    assert journal.counts()["embedded"] == 2
    journal.put_vectors([journal.pending(9)[0][0]], vectors[:1], None)
    assert [row[0] for row in journal.passages(after=ids[0], limit=1)] == [ids[1]]
    assert journal.passages(after=ids[1])[0][8] == b""


def test_settings_are_kept_all_or_none(journal: SqliteJournal) -> None:
    assert journal.setting("a") is None
    journal.keep({"a": "1", "b": "2"})
    with pytest.raises(TinymemError):
        journal.keep({"a": "9", "c": None})  # type: ignore[dict-item]
    assert [journal.setting(key) for key in "abc"] == ["1", "2", None]


@settings(MODERATE, max_examples=20)
@given(st.lists(st.tuples(st.sampled_from("aaadwv"), st.integers(1, 4), st.randoms(use_true_random=False)), max_size=9))
def test_the_journal_holds_what_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, random.Random]]
) -> None:
    journal = SqliteJournal(tmp_path_factory.mktemp("journal") / "journal.db")
    held: dict[int, Entry] = {}
    outside: set[int] = set()
    used = 0
    for kind, count, dice in operations:
        some = dice.sample(sorted(held), min(count, len(held)))
        if kind == "a":
            new = {
                n: entry(said(f"shared word{n} and text {'long ' * 99 * n}", n))
                for n in range(used + 1, used + 1 + count)
            }
            used += count
            journal.add(list(new.values()))
            held.update(new)
        elif kind == "d":
            journal.delete(removal([held.pop(n) for n in some]))
            outside -= set(some)
        elif kind == "w":
            journal.set_window(some, {})
            outside |= set(some)
        else:
            journal.set_window([], dict.fromkeys(some))
            outside -= set(some)
        assert [row.number for row in journal.rows()] == sorted(held)
        assert [row.number for row in journal.window()] == sorted(set(held) - outside)
        assert journal.next_number() == used + 1
        assert journal.counts()["passages"] == sum(len(passages) for _, passages in held.values())
        owner = dict(journal._read("SELECT id, step FROM passages"))
        assert {owner[id] for id in found(journal, "shared")} == set(held)
        assert all({owner[id] for id in found(journal, f"word{n}")} == ({n} & held.keys()) for n in range(1, used + 1))
    journal.close()


# forgotten


def test_delete_leaves_no_byte_of_the_text_in_any_file(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    secret = "zyxqvortex QuokkaFlange wobbulating " + "filler goes here. " * 80 + " endmarkxylo"
    needles = [
        b"zyxqvortex",
        b"QuokkaFlange",
        b"wobbul",
        b"endmarkxylo",
        b"id-000002",
        np.full(8, 0.7, "<f2").tobytes(),
    ]
    entries = filled(journal, "the first stays", secret, "the third stays", secret + " again")
    ids = [row[0] for row in journal.pending(99)]
    steps = [row[1] for row in journal.pending(99)]
    vectors = np.array([[0.7 if step in (2, 4) else 0.3] * 8 for step in steps], np.float32)
    journal.put_vectors(ids, vectors, None)
    journal.set_window([1], {2: entries[1][0].record})
    assert all(texts_in(tmp_path, *needles).values()), "the needles are there before"
    reader = SqliteJournal(tmp_path / "journal.db")
    assert len(reader.rows()) == 4
    journal.delete(removal([entries[1], entries[3]]))
    assert {path.name for path in tmp_path.iterdir()} == {"journal.db", "journal.db-wal", "journal.db-shm"}
    needles += [b"quokka", b"flang", b"vortex", b"endmark"]  # terms are stored in pieces
    assert texts_in(tmp_path, *needles) == {needle: [] for needle in needles}, "while the journal is open"
    kept = np.full(8, 0.3, "<f2").tobytes()
    assert texts_in(tmp_path, kept)[kept], "what was not deleted stays"
    assert found(journal, "zyxqvortex wobbulating") == []
    assert len(found(journal, "stays")) == 2
    assert [row.view for row in reader.rows()] == [None, None]
    journal.close()
    reader.close()
    assert texts_in(tmp_path, *needles) == {needle: [] for needle in needles}, "and when it is closed"


def test_deleting_everything_leaves_nothing(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    texts = [f"plumbus{n} grelf{n} {'and so on. ' * (n * 7)}" for n in range(60)]
    entries = filled(journal, *texts)
    journal.delete(removal(entries))
    needles = [b"plumbus", b"grelf", b"so on", b"id-0000"]
    assert texts_in(tmp_path, *needles) == {needle: [] for needle in needles}
    assert (journal.rows(), journal.counts()["passages"], found(journal, "plumbus3 on")) == ([], 0, [])
    journal.close()


def test_delete_while_somebody_reads_says_that_the_file_is_not_clean_yet(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", timeout=0.2)
    entries = filled(journal, "zyxqvortex", "stays")
    reader = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM steps").fetchone()
    with pytest.raises(StorageError, match="reads"):
        journal.delete(removal(entries[:1]))
    reader.close()
    journal.delete({})  # once more, with nothing left to delete, cleans the file
    assert texts_in(tmp_path, b"zyxqvortex") == {b"zyxqvortex": []}
    assert [row.number for row in journal.rows()] == [2]
    journal.close()


def test_deleting_what_is_not_there_changes_nothing(journal: SqliteJournal) -> None:
    filled(journal, "one", "two")
    before = snapshot(journal)
    journal.delete({99: []})
    assert snapshot(journal) == before


# files that are no journal


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user that permissions bind: root can write anywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own they cannot."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o005 == 0o005:
            break
        parent.chmod(parent.stat().st_mode | 0o055)
    yield tmp_path
    tmp_path.chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions as on Unix")
def test_a_read_only_folder_is_a_storage_error_that_says_so(shared_folder: Path) -> None:
    path = shared_folder / "journal.db"
    shared_folder.chmod(0o555)
    with without_privileges(), pytest.raises(StorageError, match="check that the folder exists and is writable"):
        SqliteJournal(path)
    shared_folder.chmod(0o755)
    journal = SqliteJournal(path)
    filled(journal, "text")
    journal.close()
    shared_folder.chmod(0o555)
    path.chmod(0o444)
    with without_privileges(), pytest.raises(StorageError, match="writable"):
        filled(SqliteJournal(path), "more")
    shared_folder.chmod(0o755)
    journal = SqliteJournal(path)
    assert len(journal.rows()) == 1
    journal.close()


def test_a_path_that_is_a_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(StorageError, match=r"journal\.db: unable to open"):
        SqliteJournal(tmp_path / "journal.db")


def test_a_journal_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open"):
        SqliteJournal(tmp_path / "journal.db", create=False)
    with pytest.raises(StorageError, match="unable to open"):
        SqliteJournal(tmp_path / "no" / "journal.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"not a database at all", b"PK\x03\x04" + bytes(5_000)])
def test_another_kind_of_file_is_a_format_error_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="damaged or no journal"):
        SqliteJournal(path)
    assert path.read_bytes() == content


def test_a_newer_format_is_refused_and_the_file_stays_usable(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    journal._read(f"PRAGMA user_version={FORMAT + 1}")
    journal.close()
    with pytest.raises(FormatError, match=rf"has format {FORMAT + 1}, .* reads {FORMAT}: upgrade tinymem"):
        SqliteJournal(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT + 1,)
    db.close()


def test_a_name_with_signs_that_mean_something_in_an_address_is_only_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "50% a?b#c&mode=ro é"
    folder.mkdir()
    journal = SqliteJournal(folder / "journal.db")
    filled(journal, "text")
    journal.close()
    assert "journal.db" in os.listdir(folder)


def everything(journal: SqliteJournal) -> None:
    """Use the journal in all ways."""
    for row in journal.rows():
        load_step(row.record)
    for use in USES:
        use(journal)


USES: list[Callable[[SqliteJournal], Any]] = [
    lambda j: j.window(),
    lambda j: j.counts(),
    lambda j: j.passages(),
    lambda j: j.pending(10),
    lambda j: j.next_number(),
    lambda j: j.end(),
    lambda j: j.any_archived(),
    lambda j: j.find("id-000003"),
    lambda j: j.numbers(["id-000002"], "s", 0),
    lambda j: j.steps([1, 2, 3]),
    lambda j: j.setting("a"),
    lambda j: j.search_text("word7 text"),
    lambda j: j.keep({"a": "b"}),
    lambda j: j.set_window([1], {2: None}),
    lambda j: filled(j, "one more"),
    lambda j: j.delete({}),
]


def a_file_of_200_steps(folder: Path) -> bytes:
    journal = SqliteJournal(folder / "whole.db")
    filled(journal, *(f"word{n} text {'and more ' * (n % 50)}" for n in range(200)))
    journal.delete({})  # empties the log
    journal.close()
    return (folder / "whole.db").read_bytes()


def test_a_damaged_file_is_never_worse_than_a_storage_error(tmp_path: Path) -> None:
    whole, dice = a_file_of_200_steps(tmp_path), random.Random(2)
    errors: list[TinymemError] = []
    for at in range(60):
        damaged = bytearray(whole)
        for _ in range(1 + at % 8):
            place = dice.randrange(len(damaged)) if at % 3 else dice.randrange(4_096)
            damaged[place] ^= 1 << dice.randrange(8)
        if at % 4 == 0:
            del damaged[dice.randrange(1, len(damaged)) :]
        path = tmp_path / f"{at}.db"
        path.write_bytes(damaged)
        try:
            journal = SqliteJournal(path)
        except TinymemError as error:
            errors.append(error)
            continue
        for use in USES:
            try:
                use(journal)
            except TinymemError as error:
                errors.append(error)
        journal.close()
    assert len(errors) > 30
    assert all(isinstance(error, StorageError) and ".db" in str(error) for error in errors)


def test_a_file_that_was_cut_short_says_that_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    whole = a_file_of_200_steps(tmp_path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="damaged"):
        everything(SqliteJournal(path))


# closed


def test_a_closed_journal_says_so(journal: SqliteJournal) -> None:
    filled(journal, "one")
    journal.close()
    journal.close()
    for use in USES:
        with pytest.raises(ClosedError, match=r"the memory at .*journal\.db is closed"):
            use(journal)


# together


def test_many_threads_add_and_read_at_once(journal: SqliteJournal) -> None:
    def work(worker: int) -> None:
        for at in range(25):
            number = 1 + worker * 25 + at
            journal.add([entry(said(f"thread{worker} step{number} common", number))])
            assert journal.find(f"id-{number:06}")
            assert found(journal, f"step{number}")
            journal.set_window([number], {})
            journal.keep({f"{worker}": str(at)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert [row.number for row in journal.rows()] == list(range(1, 201))
    assert len(found(journal, "common")) == 200
    assert journal.counts()["window_steps"] == 0


ADD_A_HUNDRED = """
import sys
from pathlib import Path
from memories import entry, said
from tinymem.stores.sqlite import SqliteJournal

print("ready", flush=True)
input()
journal = SqliteJournal(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 100):
    journal.add([entry(said(f"own{number} common", number))])
journal.close()
"""


def test_two_processes_that_make_and_fill_a_journal_at_once_both_succeed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with python(ADD_A_HUNDRED, path, 1) as one, python(ADD_A_HUNDRED, path, 101) as other:
        for process in (one, other):
            assert process.stdout and process.stdout.readline() == "ready\n"
        for process in (one, other):
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        assert (one.wait(60), other.wait(60)) == (0, 0)
    journal = SqliteJournal(path)
    assert [row.number for row in journal.rows()] == list(range(1, 201))
    assert len(found(journal, "common")) == 200
    journal._read("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
    journal.close()


def test_many_threads_can_make_the_same_journal_at_once(tmp_path: Path) -> None:
    def make(at: int) -> int:
        journal = SqliteJournal(tmp_path / f"{at // 8}.db")
        journal.add([entry(said("text", 1 + at % 8))])
        journal.close()
        return at

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(make, range(64)))) == 64


def test_a_writer_that_holds_the_file_too_long_is_a_storage_error(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", timeout=0.2)
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="another process is writing; try again"):
        filled(journal, "text")
    other.close()
    filled(journal, "text")
    journal.close()


# any text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_is_kept_searched_and_deleted(tmp_path: Path, text: str) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    step = said(f"{text} needlework", 1)
    journal.add([entry(step)])
    filled(journal, "something else")
    assert load_step(journal.rows()[0].record) == step
    assert len(found(journal, "needlework")) == 1
    scores = journal.search_text(text)[1]
    assert np.isfinite(scores).all()
    assert (scores > 0).all()
    journal.delete(removal([entry(step)]))
    assert (found(journal, "needlework"), found(journal, text)) == ([], [])
    assert texts_in(tmp_path, b"needlework") == {b"needlework": []}
    journal.close()


def test_a_long_text_of_one_word_is_written_and_searched_fast(journal: SqliteJournal) -> None:
    started = time.process_time()
    filled(journal, "a" * 1_000_000, "aB" * 500_000)
    journal.search_text("a" * 1_000_000)
    journal.search_text("aB" * 500_000)
    assert time.process_time() - started < 5


def test_rows_come_back_as_they_went_in(journal: SqliteJournal) -> None:
    step = said("text", 1, session="s", speaker="Ana")
    row = entry(step, position=11, tokens=5)[0]
    journal.add([(row, [])])
    (back,) = journal.rows()
    assert back == StepRow(**{**vars(row), "window": back.window})
    assert (journal.end(), journal.find(row.id)) == (16, row.record)
    with suppress(AttributeError):
        assert back.__dict__ == vars(row)

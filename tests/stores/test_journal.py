"""The journal: durable, all or none, and forgetting for good. Real files, real processes, real kills."""

from __future__ import annotations

import dataclasses
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_rows import embed
from memories import Entry, add, catch_up, entry, put, python, said, texts_in, without_privileges
from strategies import MODERATE
from work import grows_linearly

from tinymem.errors import ClosedError, FormatError, InputError, StorageError, TinymemError
from tinymem.protocols import PassageRow, Vectors
from tinymem.steps.ids import new_id
from tinymem.steps.serialization import load_step
from tinymem.stores.filter import Filter
from tinymem.stores.sqlite import schema
from tinymem.stores.sqlite.journal import SqliteJournal

HOSTILE = {
    "lone surrogates": "left \ud800 right \udfff",
    "NUL": "before\x00after",
    "quotes": "it's \"quoted\" and 'again' `so` \\",
    "SQL": "'); DROP TABLE steps; --",
    "full-text operators": 'foo AND OR NOT NEAR(a b, 3) {terms}: ^b* -c + "unclosed',
    "right-to-left": "שלום \u202eעולם مرحبا",
    "combining": "e\u0301 n\u0303 नमस्ते ❤️‍🔥",
    "white space": " \t\n\r\u2028\u00a0",
    "one character many times": "a" * 100_000,
    "many words of a letter": "𝔸_" * 5_000,
}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db")
    yield opened
    opened.close()


def entries_of(journal: SqliteJournal, *texts: str) -> list[Entry]:
    first = journal.next_number()
    return [entry(said(text, number), 7 * (number - 1)) for number, text in enumerate(texts, first)]


def filled(journal: SqliteJournal, *texts: str) -> list[Entry]:
    """Add steps, and make their passages."""
    entries = entries_of(journal, *texts)
    add(journal, entries)
    return entries


def waiting(journal: SqliteJournal, *texts: str) -> list[Entry]:
    """Add steps whose passages are not made yet."""
    entries = entries_of(journal, *texts)
    journal.add([row for row, _ in entries])
    return entries


def found(journal: SqliteJournal, query: str) -> list[int]:
    return [int(id) for id in journal.search_text(query).ids]


def snapshot(journal: SqliteJournal) -> list[Any]:
    rows = journal.read("SELECT * FROM passages ORDER BY id")
    terms = journal.read("SELECT term, doc, cnt FROM vocabulary ORDER BY term")
    return [journal.rows(), rows, terms, journal.counts(), journal.next_number(), journal.end(), journal.uncut(9)]


def removal(entries: list[Entry]) -> dict[int, list[str]]:
    return {row.number: [passage.text for passage in passages] for row, passages in entries}


# durable

ADD_FOR_EVER = """
import sys
from pathlib import Path
from memories import catch_up, entry, said
from tinymem.stores.sqlite.journal import SqliteJournal

journal = SqliteJournal(Path(sys.argv[1]))
number = journal.next_number()
while True:
    if number % 3:
        catch_up(journal)
    batch = range(number, number + 1 + number % 4)
    text = "{0} opens. " + "filler words stand here. " * 60 + "closer{0}."
    journal.add([entry(said(text.format(f"mark{n}"), n), 7 * (n - 1))[0] for n in batch])
    number = batch.stop
    print(batch.start, batch.stop, flush=True)
"""


@pytest.mark.slow
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
        uncut = {row.number for row in journal.uncut(10_000)}
        made = [number for number in numbers if number not in uncut]
        check_agreement(journal, made)
        assert len(numbers) - len(made) == journal.counts()["waiting_steps"] < 10
        assert journal.end() == 7 * len(numbers)
        catch_up(journal)
        check_agreement(journal, numbers)
        journal.close()


def check_agreement(journal: SqliteJournal, numbers: list[int]) -> None:
    """Passages and full text hold the steps with these numbers, each once."""
    passages = journal.read("SELECT id, step FROM passages ORDER BY id")
    owner = dict(passages)
    assert sorted(set(owner.values())) == numbers
    for number in numbers:
        marks = journal.search_text(f"mark{number}").ids.tolist()
        closers = journal.search_text(f"closermark{number}").ids.tolist()
        assert [owner[id] for id in marks + closers] == [number, number]
        assert marks < closers
    assert [row[0] for row in journal.passages(limit=10 * len(passages))] == [*owner]
    journal.read("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
    assert journal.read("PRAGMA integrity_check") == [("ok",)]


def test_add_is_synchronous_and_logged_ahead(journal: SqliteJournal) -> None:
    assert journal.read("PRAGMA journal_mode") == [("wal",)]
    assert journal.read("PRAGMA synchronous") == [(2,)]  # FULL
    filled(journal, "passages", "are not waited for")
    assert journal.put_vectors([], np.zeros((0, 8), np.float32), "", "")
    with pytest.raises(ValueError):
        journal.put_vectors([], np.zeros((1, 8), np.float32), "", "")
    assert journal.read("PRAGMA synchronous") == [(2,)]  # but that is over with their transaction


# all or none


def test_a_batch_with_a_known_id_is_refused_whole(journal: SqliteJournal) -> None:
    filled(journal, "one stays", "two stays")
    before = snapshot(journal)
    batch = [entry(said("three is new", 3)), entry(said("two again", 4, id="id-000002"))]
    with pytest.raises(InputError, match=r"in the memory already \(id-000003, id-000002\)"):
        add(journal, batch)
    assert snapshot(journal) == before
    assert found(journal, "new again") == []
    add(journal, batch[:1])
    assert [row.number for row in journal.rows()] == [1, 2, 3]
    assert len(found(journal, "new again")) == 1


def test_a_batch_that_fails_half_way_for_any_reason_leaves_nothing(journal: SqliteJournal) -> None:
    filled(journal, "one stays")
    before = snapshot(journal)
    bad_row = dataclasses.replace(entry(said("x", 3))[0], record=object())  # type: ignore[arg-type]
    with pytest.raises(Exception):  # noqa: B017 (whatever it is)
        journal.add([entry(said("fine", 2))[0], bad_row])
    assert snapshot(journal) == before
    filled(journal, "goes on")
    (fine, other), before = waiting(journal, "fine", "other"), snapshot(journal)
    bad = PassageRow(0, 0, 1, "message", False, 5)  # type: ignore[arg-type]
    with pytest.raises(Exception):  # noqa: B017
        put(journal, [fine, (other[0], [bad])])
    assert snapshot(journal) == before
    assert found(journal, "fine") == []
    assert put(journal, [fine, other])
    assert len(journal.rows()) == journal.counts()["passages"] == 4


# passages


def test_steps_without_passages_wait_for_nothing(journal: SqliteJournal) -> None:
    empty = waiting(journal, "", " ")
    assert [passages for _, passages in empty] == [[], []]
    assert put(journal, empty)
    assert (journal.uncut(9), journal.waiting_tokens(), journal.passages()) == ([], 0, [])
    assert journal.counts()["waiting_steps"] == 0


def test_passages_of_a_step_that_was_forgotten_meanwhile_are_not_kept(journal: SqliteJournal) -> None:
    entries = waiting(journal, "stays", "zyxqvortex goes", "stays too")
    assert journal.delete({2: []})
    before = snapshot(journal)
    assert not put(journal, entries)
    assert snapshot(journal) == before
    assert texts_in(journal.path.parent, b"zyxqvortex") == {b"zyxqvortex": []}
    assert put(journal, [entries[0], entries[2]])
    assert [row[1] for row in journal.passages()] == [1, 3]


def test_a_step_that_is_half_embedded_waits_and_is_deleted_whole(journal: SqliteJournal) -> None:
    (long,) = waiting(journal, " ".join(f"word{n}" for n in range(600)))
    row, passages = long
    assert journal.put_passages([1], [(1, passage) for passage in passages])
    assert not journal.put_passages([1], [(1, passage) for passage in passages]), "a step is cut once"
    embed(journal, equal([0.3, 0.3]))
    counts = journal.counts()
    assert (counts["passages"], counts["waiting_steps"], journal.waiting_tokens()) == (2, 1, 7) and len(passages) > 3
    assert len(found(journal, "word0")) == len(found(journal, "word599")) == 1
    assert journal.delete({1: [passage.text for passage in passages]})
    assert journal.read("SELECT * FROM vectors") == journal.without_vector(9) == []
    assert (journal.passages(), found(journal, "word0"), journal.waiting_tokens()) == ([], [], 0)
    with pytest.raises(InputError, match="was used by another process"):
        journal.add([row])
    filled(journal, "the next one")
    assert [place.step for place in journal.places(2)] == [2]


# window


# reading


def test_where_a_step_is_put_into_the_window_and_out_of_it_the_view_wins(journal: SqliteJournal) -> None:
    filled(journal, "one", "two")
    journal.set_window([2], {2: "{}"})
    assert [row.view for row in journal.window()] == [None, "{}"]
    assert load_step(journal.rows()[1].record).text == "two", "the record stays whole behind its view"
    journal.set_window([2], {})
    assert [row.view for row in journal.rows()] == [None, None]


def test_any_number_of_steps_is_read_at_once(journal: SqliteJournal) -> None:
    journal.add([row for row, _ in entries_of(journal, *(f"text {n}" for n in range(1_201)))])
    assert len(journal.steps(range(1, 2_000))) == 1_201
    assert [len(journal.rows(after, 500)) for after in (0, 500, 1_000, 1_201)] == [500, 500, 201, 0]


def test_settings_are_kept_all_or_none(journal: SqliteJournal) -> None:
    assert journal.setting("a") is None
    journal.keep({"a": "1", "b": "2"})
    with pytest.raises(TinymemError):
        journal.keep({"a": "9", "c": None})  # type: ignore[dict-item]
    assert [journal.setting(key) for key in "abc"] == ["1", "2", None]


@settings(MODERATE, max_examples=20)
@given(
    st.lists(st.tuples(st.sampled_from("aaappdwv"), st.integers(1, 4), st.randoms(use_true_random=False)), max_size=12)
)
def test_the_journal_holds_what_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, random.Random]]
) -> None:
    with closing(
        SqliteJournal(tmp_path_factory.mktemp("journal") / "journal.db")
    ) as journal:  # a draw may end the test
        held: dict[int, Entry] = {}
        outside: set[int] = set()
        used = made = 0  # the last numbers that were given, and whose passages were made
        for kind, count, dice in operations:
            some = dice.sample(sorted(held), min(count, len(held)))
            if kind == "a":
                new = {
                    n: entry(said(f"shared word{n} and text {'long ' * 99 * n}", n))
                    for n in range(used + 1, used + 1 + count)
                }
                used += count
                journal.add([row for row, _ in new.values()])
                held.update(new)
            elif kind == "p" and (new := {n: held[n] for n in sorted(held) if n > made}):
                made = [*new][:count][-1]
                assert put(journal, [held for n, held in new.items() if n <= made])
            elif kind == "d":
                gone = removal([held.pop(n) for n in some])
                assert journal.delete({n: texts if n <= made else [] for n, texts in gone.items()})
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
            embedded = {n for n in held if n <= made}
            assert journal.counts()["passages"] == sum(len(held[n][1]) for n in embedded)
            assert journal.counts()["waiting_steps"] == len(held) - len(embedded)
            assert (journal.waiting_tokens() > 0) == (len(embedded) < len(held))
            owner = dict(journal.read("SELECT id, step FROM passages"))
            assert {owner[id] for id in found(journal, "shared")} == embedded
            assert all({owner[id] for id in found(journal, f"word{n}")} == {n} & embedded for n in range(1, used + 1))


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
    entries = waiting(journal, "the first stays", secret, "the third stays", secret + " again")
    numbers = [row.number for row, passages in entries for _ in passages]
    assert put(journal, entries, vectors=equal(0.7 if number in (2, 4) else 0.3 for number in numbers))
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


def equal(values: Iterable[float]) -> Vectors:
    """Vectors of eight equal numbers each."""
    return np.repeat(np.array([*values], np.float32)[:, np.newaxis], 8, axis=1)


def test_a_step_that_waits_is_deleted_from_every_file(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    filled(journal, "stays")
    waiting(journal, "zyxqvortex is secret")
    assert texts_in(tmp_path, b"zyxqvortex")[b"zyxqvortex"]
    assert journal.delete({2: []})
    assert texts_in(tmp_path, b"zyxqvortex") == {b"zyxqvortex": []}
    assert (journal.waiting_tokens(), journal.counts()["waiting_steps"], len(found(journal, "stays"))) == (0, 0, 1)
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


# files that are no journal


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
    with without_privileges(), closing(SqliteJournal(path)) as journal, pytest.raises(StorageError, match="writable"):
        filled(journal, "more")
    shared_folder.chmod(0o755)
    journal = SqliteJournal(path)
    assert len(journal.rows()) == 1
    journal.close()


def test_a_journal_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open"):
        SqliteJournal(tmp_path / "journal.db", create=False)
    with pytest.raises(StorageError, match="unable to open"):
        SqliteJournal(tmp_path / "no" / "journal.db")
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_signs_that_mean_something_in_an_address_is_only_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "50% a?b#c&mode=ro é"
    folder.mkdir()
    SqliteJournal(folder / "journal.db").close()
    assert os.listdir(folder) == ["journal.db"]


@pytest.mark.parametrize("content", [b"not a database at all", b"PK\x03\x04" + bytes(5_000)])
def test_another_kind_of_file_is_a_format_error_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="damaged or not a journal"):
        SqliteJournal(path)
    assert path.read_bytes() == content


USES: list[Callable[[SqliteJournal], Any]] = [
    lambda j: j.window(),
    lambda j: j.counts(),
    lambda j: j.passages(),
    lambda j: j.uncut(9),
    lambda j: j.without_vector(9),
    lambda j: j.waiting_tokens(),
    lambda j: j.places(1),
    lambda j: j.last_passage(),
    lambda j: j.next_number(),
    lambda j: j.end(),
    lambda j: j.any_archived(),
    lambda j: j.numbers(["id-000002"]),
    lambda j: j.matching(Filter(session="s")),
    lambda j: j.steps([1, 2, 3]),
    lambda j: j.setting("a"),
    lambda j: j.search_text("word7 text"),
    lambda j: j.keep({"a": "b"}),
    lambda j: j.set_window([1], {2: None}),
    lambda j: put(j, waiting(j, "one more")),
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
    for at in range(40):
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
    assert len(errors) > 20
    assert all(isinstance(error, StorageError) and ".db" in str(error) for error in errors)


@pytest.mark.parametrize("kept", ["one", "1 2"])
def test_a_damaged_number_of_what_is_cut_is_a_format_error(journal: SqliteJournal, kept: str) -> None:
    waiting(journal, "one")
    journal.keep({"made": kept})
    for use in (lambda: journal.uncut(9), journal.waiting_tokens, journal.counts, lambda: filled(journal, "two")):
        with pytest.raises(FormatError, match=r"journal\.db is damaged"):
            use()
    assert len(journal.rows()) == 1


# files of other formats


def test_a_newer_format_is_refused_and_no_byte_of_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteJournal(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={schema.FORMAT + 1}")
        db.execute("PRAGMA journal_mode=DELETE")  # who knows what a newer one uses
    db.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(FormatError, match=rf"has format {schema.FORMAT + 1}, this version reads {schema.FORMAT}"):
            SqliteJournal(path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["journal.db"]


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
    giving = Lock()

    def work(worker: int) -> None:
        for at in range(25):
            with giving:  # as who gives numbers must
                ((row, _),) = waiting(journal, f"thread{worker} at{worker}n{at} common")
            number = row.number
            assert journal.numbers([f"id-{number:06}"])
            catch_up(journal)
            assert len(found(journal, f"at{worker}n{at}")) == 1
            journal.set_window([number], {})
            journal.keep({f"{worker}": str(at)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert [row.number for row in journal.rows()] == list(range(1, 201))
    assert len(found(journal, "common")) == 200
    assert [row[1] for row in journal.passages()] == list(range(1, 201)), "each once, in order"
    assert journal.counts()["window_steps"] == journal.counts()["waiting_steps"] == 0


ADD_A_HUNDRED = """
import sys
from pathlib import Path
from memories import catch_up, entry, said
from tinymem.errors import InputError
from tinymem.stores.sqlite.journal import SqliteJournal

print("ready", flush=True)
input()
journal, added = SqliteJournal(Path(sys.argv[1])), 0
while added < 100:
    number = journal.next_number()
    try:
        journal.add([entry(said(f"own{sys.argv[2]}n{added} common", number))[0]])
        added += 1
    except InputError:  # the other process was quicker
        continue
    catch_up(journal)
journal.close()
"""


@pytest.mark.slow
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
    assert all(len(found(journal, f"own{name}n{at}")) == 1 for name in (1, 101) for at in range(100))
    assert [row[1] for row in journal.passages()] == list(range(1, 201)), "each once, in order"
    journal.read("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
    journal.close()


def test_many_threads_can_make_the_same_journal_at_once(tmp_path: Path) -> None:
    def make(at: int) -> int:
        journal = SqliteJournal(tmp_path / f"{at // 8}.db")
        journal.add([entry(said("text", 1 + at % 8))[0]])
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
    add(journal, [entry(step)])
    filled(journal, "something else")
    assert load_step(journal.rows()[0].record) == step
    assert len(found(journal, "needlework")) == 1
    scores = journal.search_text(text).scores
    assert np.isfinite(scores).all()
    assert (scores > 0).all()
    journal.delete(removal([entry(step)]))
    assert (found(journal, "needlework"), found(journal, text)) == ([], [])
    assert texts_in(tmp_path, b"needlework") == {b"needlework": []}
    journal.close()


def test_a_long_text_of_one_word_is_written_and_searched_in_linear_time(tmp_path: Path) -> None:
    def searched(size: int) -> None:
        with closing(SqliteJournal(tmp_path / f"{new_id()}.db")) as journal:
            filled(journal, "a" * size, "aB" * (size // 2))
            journal.search_text("a" * size)
            journal.search_text("aB" * (size // 2))

    assert grows_linearly(searched, 200_000)

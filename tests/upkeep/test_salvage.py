"""What is read of damaged journals: every step whose own pages are whole, and nothing that was forgotten or undone."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import entry, put, said, sentences
from strategies import MODERATE, steps

from tinymem import ActionStep, HierarchicalMemory, Step
from tinymem.errors import FormatError, InputError, NotAMemoryError, StorageError
from tinymem.steps.ids import new_id
from tinymem.stores.sqlite.journal import SqliteJournal
from tinymem.upkeep import salvage
from tinymem.upkeep.rescue import salvage_to

PAGE = 4_096
COUNT = 300
Damage = Callable[[bytearray], None]


def write(path: Path, given: list[Step], page_size: int = PAGE) -> None:
    """A journal of these steps, with passages, whose log is written back."""
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA page_size={page_size}")
    db.close()
    journal = SqliteJournal(path)
    entries = [entry(step) for step in given]
    for at in range(0, len(entries), 25):
        journal.add([row for row, _ in entries[at : at + 25]])
        put(journal, entries[at : at + 25])
    journal.delete({})
    journal.close()


def numbered(count: int = COUNT) -> list[Step]:
    """Steps of all lengths: some fill pages of their own."""
    texts = sentences(count, length=30)
    tails = (" and so on" * (400 if n % 23 == 0 else n % 40) for n in range(count))
    return [said(f"mark{n} {text}{tail}", n) for n, (text, tail) in enumerate(zip(texts, tails, strict=True), 1)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[int, Step]]:
    """The bytes of a journal, and its steps by number."""
    path = tmp_path_factory.mktemp("whole") / "journal.db"
    given = numbered()
    write(path, given)
    return path.read_bytes(), {step.step_number or 0: step for step in given}


def salvaged(path: Path, damaged: bytes) -> dict[int, Step]:
    """What is read of a file of these bytes, which must stay as it is."""
    path.write_bytes(damaged)
    found = list(salvage(path))
    assert path.read_bytes() == damaged
    assert [step.step_number for step in found] == sorted({step.step_number or 0 for step in found})
    return {step.step_number or 0: step for step in found}


# whole files


@pytest.mark.parametrize("page_size", [512, 4_096, 65_536])
def test_of_a_whole_file_every_step_comes_back_as_it_was(tmp_path: Path, page_size: int) -> None:
    write(tmp_path / "journal.db", numbered(80), page_size)
    assert list(salvage(tmp_path / "journal.db")) == numbered(80)


@given(given=st.lists(steps(), max_size=6))
@MODERATE
def test_steps_of_every_kind_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, given: list[Step]
) -> None:
    path = tmp_path_factory.mktemp("any")
    with HierarchicalMemory(path, embedder="hashing:64", store="exact") as memory:
        held = memory.archive([step for step in given if getattr(step, "role", "") != "tool"])
        assert list(salvage(path)) == held, "from the log of a memory that is open"
    assert list(salvage(path)) == held


def test_what_is_only_in_the_log_comes_back_and_what_was_not_committed_does_not(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    first, *others = [entry(step)[0] for step in numbered(40)]
    journal.add([first])
    journal._db.execute("PRAGMA cache_size=1")  # so that what is not committed yet is in the log already
    journal._db.execute("BEGIN")
    for row in others:
        place = (row.number, row.id, row.type, row.time, row.tokens, row.position, row.record, row.window)
        columns = "number, id, type, time, tokens, position, record, window"
        journal._db.execute(f"INSERT INTO steps ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", place)
    assert others[3].id.encode() in (tmp_path / "journal.db-wal").read_bytes()
    assert [step.step_number for step in salvage(tmp_path)] == [1]
    journal._db.execute("COMMIT")
    assert [step.step_number for step in salvage(tmp_path)] == list(range(1, 41))
    journal.close()


def test_a_log_that_is_damaged_counts_up_to_where_it_is(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    for row in [entry(step)[0] for step in numbered(40)]:
        journal.add([row])
    for name in ("journal.db", "journal.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"copy-{name.removeprefix('journal.db')}.db")
    journal.close()
    log = bytearray((tmp_path / "copy--wal.db").read_bytes())
    log[len(log) // 2] ^= 1
    path = tmp_path / "damaged" / "journal.db"
    path.parent.mkdir()
    shutil.copy(tmp_path / "copy-.db", path)
    path.with_name("journal.db-wal").write_bytes(log)
    found = [step.step_number for step in salvage(path)]
    with sqlite3.connect(path) as db:  # which reads the log likewise
        assert found == [n for (n,) in db.execute("SELECT number FROM steps ORDER BY number")]
    db.close()
    assert 5 < len(found) < 35


def test_what_was_made_a_milestone_says_so_in_its_metadata(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact") as memory:
        memory.add_steps([said("one"), said("two", pinned=True)])
        memory.mark(1)
    first, second = salvage(tmp_path)
    assert (dict(first.metadata), dict(second.metadata)) == ({"milestone": True}, {})


def test_what_was_forgotten_does_not_come_back(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact", max_tokens=400) as memory:
        memory.add_steps([step.evolve(step_number=None) for step in numbered()])
        memory.forget([f"id-{n:06}" for n in range(3, COUNT, 3)])
        assert memory.forget(["id-000001"]) == 1
        assert [step.step_number for step in salvage(tmp_path)] == [
            n for n in range(2, COUNT + 1) if n % 3 or n == COUNT
        ]
    assert [step.step_number for step in salvage(tmp_path)] == [n for n in range(2, COUNT + 1) if n % 3 or n == COUNT]


# damaged files


def zeros(data: bytearray) -> None:
    data[:] = bytes(len(data))


def noise(data: bytearray) -> None:
    data[:] = random.Random(len(data)).randbytes(len(data))


@pytest.mark.parametrize("size", [100, PAGE])
@pytest.mark.parametrize("damage", [zeros, noise])
def test_without_its_first_page_which_sqlite_needs_all_steps_come_back(
    tmp_path: Path, whole: tuple[bytes, dict[int, Step]], damage: Damage, size: int
) -> None:
    data, held = whole
    first = bytearray(data[:size])
    damage(first)
    damaged = bytes(first) + data[size:]
    assert salvaged(tmp_path / "journal.db", damaged) == held
    with pytest.raises(FormatError, match="tinymem salvage"):
        SqliteJournal(tmp_path / "journal.db")


def test_a_lost_page_costs_only_the_steps_that_stand_in_it(
    tmp_path: Path, whole: tuple[bytes, dict[int, Step]]
) -> None:
    data, held = whole
    lost: list[set[int]] = []
    for page in range(len(data) // PAGE):
        damaged = data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :]
        found = salvaged(tmp_path / "journal.db", damaged)
        assert found.items() <= held.items()
        lost.append(held.keys() - found.keys())
    assert set().union(*lost) == held.keys(), "each step stands somewhere"
    assert max(map(len, lost)) < 30, "so many short ones fit in a page"
    assert sum(map(len, lost)) < len(held) * 1.2, "a step stands in one page, or in a few of its own"


def test_of_a_file_that_was_cut_off_all_before_the_end_comes_back(
    tmp_path: Path, whole: tuple[bytes, dict[int, Step]]
) -> None:
    data, held = whole
    counts = []
    for part in (1, 2, 3, 4):
        found = salvaged(tmp_path / "journal.db", data[: part * len(data) // 4 - 7])
        assert found.items() <= held.items()
        counts.append(len(found))
        present = {n for n, step in held.items() if step.text.encode() in data[: part * len(data) // 4 - PAGE]}
        assert present - found.keys() == set() or part == 1
    assert counts == sorted(counts) and 20 < counts[0] < counts[2] and counts[3] >= COUNT - 20


def test_flipped_bits_cost_the_steps_that_they_hit_at_most(
    tmp_path: Path, whole: tuple[bytes, dict[int, Step]]
) -> None:
    data, held = whole
    dice = random.Random(4)
    for flips in (1, 1, 1, 1, 5, 5, 20, 20, 100):
        damaged = bytearray(data)
        for _ in range(flips):
            damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        found = salvaged(tmp_path / "journal.db", bytes(damaged))
        same = {n for n, step in found.items() if held.get(n) == step}
        assert len(held) - len(same) <= flips * 4
        others = (found.keys() & held.keys()) - same  # a number may have been hit itself
        changed = [n for n in others if found[n].id != held[n].id and found[n].text != held[n].text]
        assert not changed, "what is given is the step of this number, but for a letter"


def test_a_chain_of_pages_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    write(tmp_path / "journal.db", [said("short", 1), said("x" * 50_000, 2)])
    data = bytearray((tmp_path / "journal.db").read_bytes())
    pages = [page for page in range(len(data) // PAGE) if data[page * PAGE + 4 : page * PAGE + 999] == b"x" * 995]
    assert len(pages) > 8
    for page in pages:
        data[page * PAGE : page * PAGE + 4] = (pages[0] + 1).to_bytes(4, "big")
    found = salvaged(tmp_path / "circle.db", bytes(data))
    assert 1 in found


@given(data=st.binary(max_size=9_000), before=st.booleans())
@MODERATE
def test_whatever_a_file_holds_nothing_but_steps_comes_of_it(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, before: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything.db"
    path.write_bytes((b"SQLite format 3\0\x10\x00" if before else b"") + data)
    path.with_name("anything.db-wal").write_bytes(bytes.fromhex("377f0682002de21800001000") + data)
    assert list(salvage(path)) == []


# where it is asked for


def test_a_memory_a_namespace_and_a_file_can_be_named(tmp_path: Path) -> None:
    for namespace in ("default", "release bot"):
        with HierarchicalMemory(tmp_path, namespace=namespace, embedder="hashing:64", store="exact") as memory:
            memory.add(said(namespace))
    assert [step.text for step in salvage(tmp_path)] == ["default"]
    assert [step.text for step in salvage(tmp_path, namespace="release bot")] == ["release bot"]
    (tmp_path / "tinymem.json").unlink()
    for path in (tmp_path / "release bot", str(tmp_path / "release bot" / "journal.db")):
        assert [step.text for step in salvage(path)] == ["release bot"]


def test_where_there_is_no_journal_it_says_so(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere" / "journal.db"):
        with pytest.raises(NotAMemoryError):
            salvage(path)
    (tmp_path / "empty.db").touch()
    assert list(salvage(tmp_path / "empty.db")) == []


def test_steps_go_into_a_file_and_from_there_into_a_new_memory(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path / "old", embedder="hashing:64", store="exact", max_tokens=300) as memory:
        calls = [
            ActionStep(f"Look {n}.", tool_name="look", observation=f"valve {n} is shut", id=new_id()) for n in range(40)
        ]
        memory.add_steps(calls)
        memory.forget([calls[0].id])
    journal = tmp_path / "old" / "default" / "journal.db"
    journal.write_bytes(bytes(PAGE) + journal.read_bytes()[PAGE:])
    assert salvage_to(tmp_path / "steps.jsonl", tmp_path / "old") == (39, 1)
    with pytest.raises(InputError, match="exists already"):
        salvage_to(tmp_path / "steps.jsonl", tmp_path / "old")
    with pytest.raises(StorageError, match="cannot be written"):
        salvage_to(tmp_path / "nowhere" / "steps.jsonl", tmp_path / "old")
    lines = (tmp_path / "steps.jsonl").read_text("ascii").splitlines()
    with HierarchicalMemory(tmp_path / "new", embedder="hashing:64", store="exact", max_tokens=300) as memory:
        memory.add_steps([Step.from_dict(json.loads(line)) for line in lines])
        assert "valve 17 is shut" in memory.recall("valve 17", 200).text
        assert memory.stats().steps == 39


def test_a_record_that_is_damaged_is_left_out_and_the_error_names_the_way(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact") as memory:
        memory.add_steps([step.evolve(step_number=None) for step in numbered(9)])
    path = tmp_path / "default" / "journal.db"
    with sqlite3.connect(path) as db:
        db.execute("UPDATE steps SET record = '{' WHERE number = 4")
    db.close()
    with pytest.raises(FormatError, match=r"journal\.db is damaged .* `tinymem salvage`"):
        HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact")
    assert [step.step_number for step in salvage(path)] == [1, 2, 3, 5, 6, 7, 8, 9]

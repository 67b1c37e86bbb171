"""The files of snapshots say what the journal says, whoever wrote them, and nothing that is forgotten."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memories import LATER, chatter, fill, forget, open_archive, said, sqlite

from tinymem import HierarchicalMemory
from tinymem.archive import snapshots
from tinymem.archive.archive import Archive
from tinymem.archive.snapshots import SnapshotFiles
from tinymem.errors import StorageError
from tinymem.recall.search import Search
from tinymem.recall.snapshot import COLUMNS, TABLES, Snapshot

FILES = (*(f"{name}.npy" for name in (*COLUMNS, "seen")), "facts.json")


@pytest.fixture(autouse=True)
def files_from_the_first_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LEAST", 0)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with closing(open_archive(tmp_path)) as opened:
        yield opened


def write(archive: Archive, count: int, first: int = 0) -> None:
    fill(archive, chatter(count, first))
    archive.queue.embed_pending()


def is_mapped(array: object) -> bool:
    """Whether an array's memory is that of a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(getattr(array, "obj", array), mmap.mmap)


def check(archive: Archive) -> Snapshot:
    """The snapshot, which has what one has that is read from the journal; its files are written where they are due."""
    archive.current()
    archive.write_files()
    found = archive.current()
    expected = Snapshot(found.dimensions)
    while rows := archive.journal.passages(expected.last_id):
        expected = expected.with_tail(rows)
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for table in TABLES:
        assert getattr(found, table) == getattr(expected, table)
    codes, lengths = expected.identifiers_of(np.arange(len(expected)))
    places = np.repeat(np.arange(len(expected)), lengths)
    assert found.seen.tables.shape == expected.seen.tables.shape, "or others would share a slot"
    assert np.array_equal(found.seen.introduced(codes, places), expected.seen.introduced(codes, places))
    assert np.array_equal(found.seen.typed(codes, len(found)), expected.seen.typed(codes, len(found)))
    assert archive.current() is found, "it is another one when something changes, and not before"
    return found


def mapped(archive: Archive) -> Snapshot:
    """The same, and it is that of the files."""
    found = check(archive)
    for name in COLUMNS:
        assert is_mapped(getattr(found, name)), name
    return found


def folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshot-*"))


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for snapshot in folders(folder) for path in snapshot.iterdir()]


def test_the_files_hold_what_the_journal_holds_however_it_came(archive: Archive, tmp_path: Path) -> None:
    done = 0
    for count in (1, 2, 40, 7, 150):
        write(archive, count, done)
        done += count
        check(archive)
    with closing(open_archive(tmp_path)) as other:
        assert len(mapped(other)) == len(archive.current())


# -- forgetting


def test_what_is_forgotten_is_in_no_file_when_forget_returns(archive: Archive, tmp_path: Path) -> None:
    write(archive, 60)
    steps = fill(archive, [said("The zyxqvortex is at vault_99417 in hall_5.", session="of zyxqvortex", speaker="Zed")])
    archive.queue.embed_pending()
    snapshot = mapped(archive)
    row = len(snapshot) - 1
    codes = snapshot.identifiers_of(np.array([row]))[0].tobytes()
    secrets = snapshot.vectors[row].tobytes(), codes, b"zyxqvortex", b"Zed"
    (folder,) = folders(tmp_path)
    shutil.copytree(folder, folder.with_name(f"{folder.name}.1234"))  # of a process that was killed
    for secret in secrets:
        assert any(secret in content for content in contents(tmp_path)), secret
    forget(archive, [steps[0].step_number or 0])
    for secret in secrets:
        assert not any(secret in content for content in contents(tmp_path)), secret
    check(archive)
    write(archive, 5, 70)
    with closing(open_archive(tmp_path)) as other:
        assert len(check(other)) == len(check(archive)) > row


def test_forgetting_changes_the_snapshot_of_those_who_have_the_memory_open(archive: Archive, tmp_path: Path) -> None:
    write(archive, 60)
    with closing(open_archive(tmp_path)) as other:
        mapped(other)
        forget(archive, [1, 17, 18, 60])
        assert not {1, 17, 18, 60} & {*check(other).step.tolist()}
        check(archive)
        write(other, 20, 60)
        check(archive)
    forget(archive, sorted(set(archive.current().step.tolist())))
    assert len(check(archive)) == 0
    write(archive, 5, 80)
    check(archive)


def test_a_recall_during_which_something_is_forgotten_elsewhere_begins_again(archive: Archive, tmp_path: Path) -> None:
    write(archive, 60)
    with closing(open_archive(tmp_path)) as other:
        begin, asked = other.current, list[int]()

        def interrupted(*given: Any) -> Any:
            snapshot = begin(*given)
            asked.append(1)
            if len(asked) == 1:
                forget(archive, [17])
            return snapshot

        other.current = interrupted  # type: ignore[assignment, method-assign]
        found = Search(other).recall("key_20", 500, LATER)
        assert len(asked) == 2
        assert found.text == Search(archive).recall("key_20", 500, LATER).text != ""


def test_a_forgetting_that_nobody_told_the_files_is_seen_at_the_next_opening(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    mapped(archive)
    (folder,) = folders(tmp_path)
    for leftover in (f"{folder.name}.1234", "snapshot-gone-1234"):
        shutil.copytree(folder, tmp_path / leftover)
    before = folders(tmp_path)
    archive.journal.delete({5: archive._texts(5)})
    with closing(open_archive(tmp_path)) as other:
        assert 5 not in check(other).step
    assert not {*before} & {*folders(tmp_path)}


@pytest.mark.parametrize("moment", ["_write", "_read"])
def test_who_writes_while_something_is_forgotten_brings_nothing_back(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write(archive, 30)
    with closing(open_archive(tmp_path)) as other:
        steps: Callable[..., Any] = getattr(snapshots, moment)
        vector = archive.current().vectors[4].tobytes()
        archive.files.erase()

        def interrupted(*given: Any) -> Any:
            monkeypatch.setattr(snapshots, moment, steps)
            forget(archive, [int(archive.current().step[4])])
            return steps(*given)

        monkeypatch.setattr(snapshots, moment, interrupted)
        assert vector in other.current().vectors.tobytes()
        other.write_files()
        assert not any(vector in content for content in contents(tmp_path))
        assert vector not in check(other).vectors.tobytes()


def test_who_reads_a_state_from_before_writes_no_files_of_it(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    vector = mapped(archive).vectors[4].tobytes()
    journal = sqlite(archive.journal)
    journal.connection.execute("PRAGMA busy_timeout=10")
    journal.timeout = 0.01
    with closing(open_archive(tmp_path)) as other:
        with other.journal.snapshot():
            assert other.journal.last_passage()
            with pytest.raises(StorageError, match="reads the file"):
                forget(archive, [int(archive.current().step[4])])
            assert vector in other.current().vectors.tobytes()
            other.write_files()
            assert not any(vector in content for content in contents(tmp_path))
        assert vector not in check(other).vectors.tobytes()


# -- damage


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """The folder of a memory with files."""
    with closing(open_archive(tmp_path)) as archive:
        write(archive, 40)
        mapped(archive)
    return tmp_path


def damage(path: Path, how: str) -> None:
    if how == "foreign":
        path.write_bytes(b"[" * 100_000 if path.suffix == ".json" else b"\x93NUMPY\x01\x00nothing like it")
    elif how == "of another type":
        np.save(path, np.zeros((3, 3), np.int16))
    else:
        os.truncate(path, 10)


@pytest.mark.parametrize("how", ["truncated", "foreign", "of another type"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_made_again(closed: Path, name: str, how: str) -> None:
    damage(folders(closed)[0] / name, how)
    with closing(open_archive(closed)) as archive:
        mapped(archive)


# -- processes


@pytest.mark.slow
@pytest.mark.permissions
def test_forgetting_fails_aloud_where_the_files_cannot_be_deleted(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    mapped(archive)
    files = SnapshotFiles(tmp_path, archive.journal)
    tmp_path.chmod(0o555)
    with pytest.raises(StorageError, match="delete the folders"):
        files.erase()
    tmp_path.chmod(0o700)


def test_who_writes_files_keeps_those_of_a_newer_state(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    with closing(open_archive(tmp_path)) as other:
        before = other.current()
        write(archive, 30, 30)
        mapped(archive)
        (newer,) = folders(tmp_path)
        being_written = shutil.copytree(newer, newer.with_name(f"{newer.name}.1234"))
        assert len(before) < len(archive.current())
        other.write_files()
        assert {newer, being_written} < {*folders(tmp_path)}


@pytest.mark.parametrize("wrong", [0, 1, -1, 1 << 70, "many", None])
def test_numbers_that_do_not_fit_the_arrays_are_not_believed(closed: Path, wrong: object) -> None:
    (folder,) = folders(closed)
    facts = json.loads((folder / "facts.json").read_bytes())
    facts["counts"] = dict.fromkeys(facts["counts"], wrong)
    (folder / "facts.json").write_text(json.dumps(facts), "utf-8")
    with closing(open_archive(closed)) as archive:
        mapped(archive)


@pytest.mark.parametrize("waits", [True, False])
def test_files_are_written_by_the_background_or_when_closing_and_by_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    writers, steps, begun = list[str](), snapshots._write, threading.Event()

    def noting(*given: Any) -> None:
        writers.append(threading.current_thread().name)
        begun.set()
        steps(*given)

    monkeypatch.setattr(snapshots, "_write", noting)
    with HierarchicalMemory(tmp_path, store="exact") as memory:
        memory.archive(chatter(30))
        memory.flush()
        assert memory.recall("key_20", 500).text and "MainThread" not in writers
        assert not waits or begun.wait(60)
    assert len(writers) == 1 and (not waits or writers == ["tinymem"])
    assert [*tmp_path.rglob("snapshot-*/facts.json")]

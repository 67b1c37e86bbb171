"""The catalog's files say what the journal says, whoever wrote them, and nothing that is forgotten."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from memories import chatter, fill, open_archive, python, said, sqlite, without_privileges

from tinymem.archive import archive as archive_module
from tinymem.archive.archive import Archive
from tinymem.archive.catalog.files import CATALOG, TAIL, CatalogFiles
from tinymem.errors import StorageError
from tinymem.protocols import EmbeddedPassage
from tinymem.protocols.settings import EMBEDDER_CHANGES
from tinymem.recall.catalog import COLUMNS, PLACE, Catalog
from tinymem.recall.query.identifiers import Seen
from tinymem.stores.filter import Filter
from tinymem.stores.sqlite.journal import SqliteJournal

FILES = (*COLUMNS, "names", "seen")


@pytest.fixture(autouse=True)
def files_from_the_first_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "IN_MEMORY", 0)


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


def check(archive: Archive) -> Catalog:
    """The catalog, whose arrays are mapped, and hold what one that is read from the journal holds, and empty rows."""
    found = archive.catalog
    expected = Catalog(found.dimensions)
    while rows := archive.journal.passages(expected.last_id):
        expected.extend(rows)
    kept, empty = (np.flatnonzero(some) for some in (found.allowed(Filter()), ~found.allowed(Filter())))
    for name in COLUMNS:
        assert is_mapped(found.columns[name].array), name
    for name in ("vectors", "id", "step", "time"):
        array = found.columns[name].array
        assert array.dtype == expected.columns[name].array.dtype
        assert np.array_equal(array[kept], expected.columns[name].array), name
    every = np.arange(len(expected))
    codes, lengths = expected.identifiers_of(every)
    assert [some.tolist() for some in found.identifiers_of(kept)] == [codes.tolist(), lengths.tolist()]
    assert not found.identifiers_of(empty)[0].any()
    for name in PLACE.names or ():
        if name not in ("speaker", "type", "tools"):
            assert np.array_equal(getattr(found, name)[kept], getattr(expected, name)), name
    for name, table in (("session", "sessions"), ("speaker", "speakers"), ("type", "types"), ("tools", "toolsets")):
        assert [named(found, name, table)[row] for row in kept] == named(expected, name, table)
        names = {name for name in getattr(found, table).names if not name.startswith("\0")}
        assert names == {*getattr(expected, table).names}
        assert (getattr(found, name)[empty] == -1).all()
    assert not found.vectors[empty].any() and not found.end[empty].any()
    places = np.repeat(every, lengths)
    seen = Seen(len(found.columns["identifiers"].array))  # with room for empty rows too: the same codes share a slot
    expected.note_identifiers(seen, 0)
    assert np.array_equal(found.seen.introduced(codes, kept[places]), seen.introduced(codes, places))
    assert np.array_equal(found.seen.typed(codes), seen.typed(codes))
    assert archive.catalog is found, "it is made again when something changes, and not before"
    return found


def named(catalog: Catalog, name: str, table: str) -> list[str | None]:
    names = [*getattr(catalog, table).names, None]
    return [names[code] for code in getattr(catalog, name).tolist()]


def passages_read(archive: Archive) -> list[EmbeddedPassage]:
    """The passages that an archive reads from its journal from now on."""
    read, found = SqliteJournal.passages, list[EmbeddedPassage]()

    def reading(after: int = 0, limit: int = 2_000) -> list[EmbeddedPassage]:
        found.extend(rows := read(sqlite(archive.journal), after, limit))
        return rows

    archive.journal.passages = reading  # type: ignore[method-assign]
    return found


def generation(folder: Path) -> Path:
    """The folder of the columns, of which there is one."""
    (found,) = [path for path in (folder / CATALOG).iterdir() if path.is_dir()]
    return found


def column(folder: Path, name: str) -> Path:
    """The file of a column."""
    (found,) = [path for path in generation(folder).iterdir() if path.name.partition("-")[0] == name]
    return found


def test_the_newest_passages_reach_the_files_together(archive: Archive, tmp_path: Path) -> None:
    write(archive, 100)
    check(archive)
    state = tmp_path / CATALOG / "state"
    before = state.read_bytes()
    for first in range(100, 106, 2):
        write(archive, 2, first)
        check(archive)
    assert state.read_bytes() == before
    with closing(open_archive(tmp_path)) as other:  # which has a tail of its own, or appends what is there
        write(other, 3, 106)
        check(other)
        check(archive)
        write(archive, TAIL, 200)
        assert len(check(archive)) == len(check(other))
    assert state.read_bytes() != before


def test_the_files_hold_what_the_journal_holds_however_it_came(archive: Archive, tmp_path: Path) -> None:
    done = 0
    for count in (1, 2, 40, 7, 150):
        write(archive, count, done)
        done += count
        check(archive)
    with closing(open_archive(tmp_path)) as other:
        assert len(check(other)) == len(archive.catalog)


def test_a_small_memory_is_read_and_has_no_files(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "IN_MEMORY", 40)
    write(archive, 10)
    assert len(archive.catalog) and not is_mapped(archive.catalog.vectors)
    assert not (tmp_path / CATALOG).exists()
    write(archive, 40, 10)
    check(archive)


def test_nothing_is_read_again_when_a_memory_with_files_is_opened(archive: Archive, tmp_path: Path) -> None:
    write(archive, 60)
    check(archive)
    with closing(open_archive(tmp_path)) as other:
        found = passages_read(other)
        assert len(other.catalog) == len(archive.catalog)
        assert [row.id for row in found] == [archive.catalog.last_id], "the newest, to compare it"


def test_what_one_process_archives_another_finds(archive: Archive, tmp_path: Path) -> None:
    write(archive, 20)
    check(archive)
    files = generation(tmp_path)
    with closing(open_archive(tmp_path)) as other:
        for at in range(20, 80, 10):
            write(archive if at % 20 else other, 10, at)
            before = archive.catalog
            assert np.array_equal(check(archive).id, check(other).id)
            assert len(before) == len(archive.catalog)
    assert generation(tmp_path) == files, "nothing was made again"


def test_a_catalog_that_somebody_holds_stays_as_it_was(archive: Archive) -> None:
    write(archive, 30)
    held = archive.catalog
    columns = {name: held.columns[name].array.copy() for name in COLUMNS}
    codes, lengths = held.identifiers_of(np.arange(len(held)))
    rows = np.repeat(np.arange(len(held)), lengths)
    seen = held.seen.introduced(codes, rows), held.seen.typed(codes)
    write(archive, 60, 30)
    check(archive)
    for name, array in columns.items():
        assert np.array_equal(held.columns[name].array, array)
    assert np.array_equal(held.seen.introduced(codes, rows), seen[0]) and np.array_equal(
        held.seen.typed(codes), seen[1]
    )


# -- forgetting


def test_what_is_forgotten_is_in_no_file_when_forget_returns(archive: Archive, tmp_path: Path) -> None:
    write(archive, 60)
    steps = fill(archive, [said("The zyxqvortex is at vault_99417 in hall_5.", session="of zyxqvortex", speaker="Zed")])
    archive.queue.embed_pending()
    catalog = check(archive)
    row = len(catalog) - 1
    vector = catalog.vectors[row].tobytes()
    codes = catalog.identifiers_of(np.array([row]))[0].tobytes()
    folder = generation(tmp_path)
    assert vector in column(tmp_path, "vectors").read_bytes() and codes in column(tmp_path, "identifiers").read_bytes()
    archive.forget([steps[0].step_number or 0])
    assert catalog.is_gone() and generation(tmp_path) == folder, "nothing else is written"
    files = [path.read_bytes() for path in (tmp_path / CATALOG).rglob("*") if path.is_file()]
    for secret in (vector, codes, b"zyxqvortex", b"Zed"):
        assert not any(secret in content for content in files), secret
    check(archive)
    write(archive, 5, 70)
    with closing(open_archive(tmp_path)) as other:
        assert len(check(other)) == len(check(archive)) > row


def test_where_a_fifth_is_forgotten_the_rest_is_copied_and_the_old_files_overwritten(
    archive: Archive, tmp_path: Path
) -> None:
    write(archive, 60)
    check(archive)
    folder = generation(tmp_path)
    archive.forget([3])
    old = {path.name: path.open("rb") for path in folder.iterdir()}
    archive.forget([*range(20, 40)])
    assert not folder.exists() and not {3, 20, 39} & {*check(archive).step.tolist()}
    for name, file in old.items():
        if name.partition("-")[0] in ("vectors", "tokens", "identifiers", "seen", "names"):
            assert not file.read().strip(b"\0"), f"{name} is overwritten before it is deleted"
        file.close()


def test_forgetting_changes_the_catalog_of_those_who_have_it_open(archive: Archive, tmp_path: Path) -> None:
    write(archive, 60)
    with closing(open_archive(tmp_path)) as other:
        held = check(other)
        archive.forget([1, 17, 18, 60])
        assert held.is_gone() and check(other).removed
        check(archive)
        write(other, 20, 60)
        check(archive)
    archive.forget(sorted(set(archive.catalog.step.tolist())))
    assert len(check(archive)) == 0
    write(archive, 5, 80)
    check(archive)


def test_a_recall_during_which_something_is_forgotten_elsewhere_begins_again(archive: Archive, tmp_path: Path) -> None:
    from memories import LATER

    from tinymem.recall.search import Search

    write(archive, 60)
    with closing(open_archive(tmp_path)) as other:
        expected = Search(other)
        ask = other.candidates
        asked: list[int] = []

        def interrupted(*given: object) -> object:
            asked.append(1)
            if len(asked) == 1:
                archive.forget([17])
            return ask(*given)  # type: ignore[arg-type]

        other.candidates = interrupted  # type: ignore[assignment, method-assign]
        found = expected.recall("key_20", 500, LATER)
        assert len(asked) == 2
        assert found.text == Search(archive).recall("key_20", 500, LATER).text != ""


def test_a_forgetting_that_was_killed_half_way_is_finished_at_the_next_opening(
    archive: Archive, tmp_path: Path
) -> None:
    write(archive, 30)
    check(archive)
    now = generation(tmp_path)
    shutil.copytree(now, tmp_path / CATALOG / "0")
    shutil.copytree(now, tmp_path / CATALOG / "00.gone")
    with closing(open_archive(tmp_path)) as other:
        check(other)
    generation(tmp_path)


def test_a_journal_that_forgot_while_nobody_told_the_files(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    check(archive)
    archive.journal.delete({5: archive._texts(5)})
    with closing(open_archive(tmp_path)) as other:
        assert 5 not in check(other).step
    generation(tmp_path)


def test_forgetting_fails_aloud_where_the_files_cannot_be_written(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    check(archive)
    column(tmp_path, "vectors").chmod(0o444)
    (tmp_path / CATALOG).chmod(0o555)
    files = CatalogFiles(tmp_path / CATALOG)
    with without_privileges(), pytest.raises(StorageError, match="delete the folder"):
        files.forget(archive.journal, [3])


def test_who_reads_a_state_from_before_does_not_bring_back_what_is_forgotten(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    vector = check(archive).vectors[4].tobytes()
    journal = sqlite(archive.journal)
    journal._db.execute("PRAGMA busy_timeout=10")
    journal._timeout = 0.01
    with closing(open_archive(tmp_path)) as other:
        check(other)
        with other.journal.snapshot():
            assert other.journal.last_passage()
            with pytest.raises(StorageError, match="reads the file"):
                archive.forget([int(archive.catalog.step[4])])
            for path in (tmp_path / CATALOG).rglob("*"):
                assert path.is_dir() or vector not in path.read_bytes()
            held = other.catalog
            assert vector in held.vectors.tobytes() and not is_mapped(held.vectors), "its snapshot still has it"
            shutil.rmtree(generation(tmp_path))
            assert vector in other.catalog.vectors.tobytes()
            assert not list((tmp_path / CATALOG).rglob("vectors")), "nobody writes files of a state from before"
        check(other)
    check(archive)


@pytest.mark.parametrize("milestone", [True, False])
def test_milestones_are_marked_without_reading_all_again(archive: Archive, tmp_path: Path, milestone: bool) -> None:
    write(archive, 30)
    check(archive)
    archive.set_milestones([3, 4], True)
    archive.set_milestones([4], milestone)
    files = generation(tmp_path)
    assert set(check(archive).step[archive.catalog.milestone].tolist()) == ({3, 4} if milestone else {3})
    assert generation(tmp_path) == files, "they were copied when they were marked"


def test_vectors_of_another_embedder_are_not_those_of_the_files(archive: Archive, tmp_path: Path) -> None:
    write(archive, 30)
    vector, before = check(archive).vectors[3].tobytes(), generation(tmp_path)
    archive.journal.keep({EMBEDDER_CHANGES: "1"})
    with closing(open_archive(tmp_path)) as other:
        check(other)
    assert generation(tmp_path) != before
    CatalogFiles(tmp_path / CATALOG).erase()
    assert not [path for path in (tmp_path / CATALOG).rglob("*") if path.is_file() and vector in path.read_bytes()]
    check(archive)


# -- damage


def damage(path: Path, how: str) -> None:
    if how == "deleted":
        path.unlink()
    elif how == "truncated":
        os.truncate(path, 10)
    elif how == "emptied":
        os.truncate(path, 0)
    else:
        content = bytearray(path.read_bytes())
        for at in (0, 5, 40):
            content[at] ^= 0x5A
        path.write_bytes(content)
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10_000_000))


@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, "flipped") for name in (*FILES, "state"))]
    + [(name, how) for name in ("vectors", "names", "seen", "state") for how in ("truncated", "emptied", "deleted")],
)
def test_damaged_files_are_made_again(archive: Archive, tmp_path: Path, name: str, how: str) -> None:
    write(archive, 40)
    check(archive)
    damage(tmp_path / CATALOG / "state" if name == "state" else column(tmp_path, name), how)
    check(archive)  # that had them mapped
    write(archive, 3, 40)
    check(archive)
    damage(tmp_path / CATALOG / "state" if name == "state" else column(tmp_path, name), how)
    with closing(open_archive(tmp_path)) as other:
        write(other, 3, 43)
        check(other)


def test_files_of_the_format_before_are_made_again(archive: Archive, tmp_path: Path) -> None:
    write(archive, 40)
    check(archive)
    folder, state = generation(tmp_path), tmp_path / CATALOG / "state"
    state.write_bytes(state.read_bytes().replace(b"tinymem catalog 4", b"tinymem catalog 3"))
    (folder / "tokens").write_bytes(b"what was said")
    with closing(open_archive(tmp_path)) as other, (folder / "tokens").open("rb") as tokens:
        check(other)
        assert not folder.exists() and not tokens.read().strip(b"\0")


@pytest.mark.parametrize("erased", [True, False])
def test_files_that_another_process_made_again_are_mapped_again(archive: Archive, tmp_path: Path, erased: bool) -> None:
    write(archive, 40)
    with closing(open_archive(tmp_path)) as other:
        check(other)
        if erased:
            CatalogFiles(tmp_path / CATALOG).erase()
        else:
            shutil.rmtree(tmp_path / CATALOG)
        check(archive)
        check(other)


def test_files_that_were_copied_are_believed_once_they_are_checked(archive: Archive, tmp_path: Path) -> None:
    write(archive, 40)
    check(archive)
    archive.forget([3, 17])
    archive.set_milestones([5, 30], True)
    write(archive, 10, 40)
    check(archive)
    before = generation(tmp_path)
    for path in before.iterdir():
        os.utime(path, ns=(0, 0))
    with closing(open_archive(tmp_path)) as other:
        check(other)
    assert generation(tmp_path) == before


def test_a_journal_from_before_gets_files_of_its_own(tmp_path: Path) -> None:
    with closing(open_archive(tmp_path)) as archive:
        write(archive, 20)
    shutil.copy(tmp_path / "journal.db", tmp_path / "backup")
    with closing(open_archive(tmp_path)) as archive:
        write(archive, 20, 20)
        check(archive)
    for grows in (False, True):
        shutil.copy(tmp_path / "backup", tmp_path / "journal.db")
        with closing(open_archive(tmp_path)) as archive:
            if grows:
                write(archive, 20, 300)
            check(archive)


def test_where_nothing_can_be_written_all_is_read_into_memory(archive: Archive, tmp_path: Path) -> None:
    write(archive, 20)
    (tmp_path / CATALOG).write_text("in the way")
    catalog = archive.catalog
    assert len(catalog) and not is_mapped(catalog.vectors)
    write(archive, 20, 20)
    assert archive.catalog is catalog and catalog.last_id == archive.journal.last_passage()


def test_a_few_more_passages_are_added_without_counting_all(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    write(archive, 40)
    before = len(archive.catalog)
    monkeypatch.setattr(SqliteJournal, "counts", None)  # it takes as long as the memory is large; a call fails
    write(archive, 3, first=40)
    assert len(archive.catalog) > before and archive.catalog.last_id == archive.journal.last_passage()


def test_the_files_are_for_their_owner_only(archive: Archive, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(archive, 20)
        check(archive)
        archive.forget([3])
    finally:
        os.umask(before)
    for path in [tmp_path / CATALOG, *(tmp_path / CATALOG).rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


# -- processes

WRITER = """
import sys
from pathlib import Path
from memories import chatter, fill, open_archive
from tinymem.archive import archive
archive.IN_MEMORY = 0
archive = open_archive(Path(sys.argv[1]))
first = archive.journal.next_number()
print("open", flush=True)
for at in range(first, first + 5_000, 3):
    fill(archive, chatter(3, at % 3_000))
    archive.queue.embed_pending()
    archive.catalog
    if at % 10 == 0:
        archive.forget([at - 1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_process_killed_while_it_writes_leaves_what_the_journal_says(tmp_path: Path) -> None:
    dice, sizes = random.Random(3), []
    for _ in range(5):
        process = python(WRITER, tmp_path)
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        try:
            process.wait(dice.uniform(0.02, 0.5))
        except Exception:
            process.kill()
        assert process.wait(timeout=600) == -signal.SIGKILL
        process.communicate()
        with closing(open_archive(tmp_path)) as archive:
            if archive.journal.last_passage():
                check(archive)
            sizes.append(archive.journal.last_passage())
    assert sizes[-1] > sizes[0] >= 0 and sizes == sorted(sizes)

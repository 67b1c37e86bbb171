"""Chroma's files hold the vectors that are there, and nothing that this process had in its memory before."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tinymem.errors import StorageError
from tinymem.protocols import Metadata, Vectors
from tinymem.stores.chroma.files import DATABASE, Unused, check
from tinymem.stores.chroma.store import ChromaStore


def unused(folder: Path) -> bytes:
    """What stands behind the last vector in the files."""
    found = b""
    for header in folder.glob("*/header.bin"):
        _, _, _, held, size = struct.unpack("<iQQQQ", header.read_bytes()[:36])
        found += header.with_name("data_level0.bin").read_bytes()[held * size :]
        found += header.with_name("length.bin").read_bytes()[held * 4 :]
    return found


def vectors(count: int, seed: int = 0) -> Vectors:
    return np.random.default_rng(seed).normal(size=(count, 256)).astype(np.float32)


def test_what_was_cleared_does_not_come_back_in_new_files(tmp_path: Path) -> None:
    """Without the cleaning, most of these rounds leave something behind."""
    for seed in range(6):
        store = ChromaStore(tmp_path / f"{seed}")
        store.upsert(range(140), vectors(140, seed))
        store.clear()
        store.upsert(range(20, 140), vectors(140, seed)[20:])
        assert len(unused(tmp_path / f"{seed}")) > 100_000
        assert not any(unused(tmp_path / f"{seed}"))
        store.close()
        assert not any(unused(tmp_path / f"{seed}"))


@pytest.mark.parametrize("held", [0, 3, 10])
def test_only_what_is_behind_the_last_vector_is_overwritten(tmp_path: Path, held: int) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "header.bin").write_bytes(struct.pack("<i6Q", 1, 0, 10, held, 5, 0, 0))
    (index / "data_level0.bin").write_bytes(b"trash" * 10)
    (index / "length.bin").write_bytes(b"bits" * 10)
    Unused(tmp_path).clean()
    assert (index / "length.bin").read_bytes() == b"bits" * held + bytes(4 * (10 - held))
    assert (index / "data_level0.bin").read_bytes() == b"trash" * held + bytes(5 * (10 - held))


def test_a_kind_of_file_that_is_not_known_stays_as_it_is(tmp_path: Path) -> None:
    for name, header in (("a", struct.pack("<i6Q", 2, 0, 10, 0, 5, 0, 0)), ("b", b"short"), ("c", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "header.bin").write_bytes(header)
        (tmp_path / name / "data_level0.bin").write_bytes(b"trash" * 10)
    Unused(tmp_path).clean()
    assert {file.read_bytes() for file in tmp_path.glob("*/data_level0.bin")} == {b"trash" * 10}


# removal of single vectors


BESIDE: list[Metadata] = [{"step": at, "session": f"cellar-{at}-talk"} for at in range(3_000)]


@pytest.mark.parametrize("left", [0, 50, 99])
def test_a_header_that_was_cut_short_is_refused(tmp_path: Path, left: int) -> None:
    header = struct.pack("<i6Q", 1, 0, 10, 3, 5, 0, 0).ljust(100, b"\0")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "header.bin").write_bytes(header[:left])
    with pytest.raises(StorageError, match=f"has {left} bytes instead of 100"):
        check(tmp_path)


def made(folder: Path, count: int) -> Vectors:
    """Fill a store with unit vectors, a thousand at once, so that some wait in Chroma's queue, and close it."""
    store, units = ChromaStore(folder), vectors(count)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    for start in range(0, count, 700):
        rows = range(start, min(start + 700, count))
        store.upsert(rows, units[rows.start : rows.stop], BESIDE[rows.start : rows.stop])
    store.close()
    return units


def traces(folder: Path, unit: Vectors, at: int) -> list[str]:
    """The files that have the vector, to some decimals, or its session."""
    found = []
    for file in (file for file in folder.rglob("*") if file.is_file() and file.stat().st_size > 100):
        content = file.read_bytes()
        found += [file.name] * (f"cellar-{at}-talk".encode() in content)
        for shift in range(4):
            numbers = np.frombuffer(content, "<f4", offset=shift, count=(len(content) - shift) // 4)
            with np.errstate(all="ignore"):  # most are no numbers
                starts = np.flatnonzero(np.abs(numbers[:-8] - unit[0]) < 1e-4)
                close = np.abs(numbers[starts[:, None] + np.arange(8)] - unit[:8]) < 1e-4
            found += [file.name] * int(close.all(axis=1).any())
    return found


@pytest.mark.parametrize("count", [150, 2_300])
def test_what_is_removed_is_in_no_file_and_everything_else_is_found(tmp_path: Path, count: int) -> None:
    units, gone = made(tmp_path, count), [3, 17, count // 2, count - 2, count - 1]
    assert all(traces(tmp_path, units[at], at) for at in gone)
    assert ChromaStore.remove("", tmp_path, [*gone, 99_999])
    assert not any(traces(tmp_path, units[at], at) for at in gone)
    assert ChromaStore.remove("", tmp_path, gone), "a second time, as after a crash"
    store = ChromaStore(tmp_path)
    assert store.count() == count - len(gone)
    assert not {*gone} & {*store.ids().tolist()}
    for at in range(0, count, count // 50):
        found = store.query(units[at], 3)[0].tolist()
        assert not {*gone} & {*found}
        assert at in gone or found[0] == at
    more = vectors(1_500, 1)
    store.upsert(range(count, count + 1_500), more)
    assert [store.query(more[at], 1)[0].tolist() for at in (0, 1_499)] == [[count], [count + 1_499]]
    assert store.count() == count - len(gone) + 1_500
    store.close()
    assert not any(traces(tmp_path, units[at], at) for at in gone)


def test_an_open_store_keeps_its_files_for_itself(tmp_path: Path) -> None:
    store = ChromaStore(tmp_path)
    with pytest.raises(StorageError, match="another"):
        ChromaStore.remove("", tmp_path, [1])
    store.close()
    assert ChromaStore.remove("", tmp_path / "nothing", [1])
    assert not ChromaStore.remove("http://localhost:1", tmp_path, [1])


def _other_version(folder: Path) -> None:
    (header,) = folder.glob("*/header.bin")
    header.write_bytes(struct.pack("<i", 2) + header.read_bytes()[4:])


def _short(folder: Path) -> None:
    (graph,) = folder.glob("*/data_level0.bin")
    graph.write_bytes(graph.read_bytes()[:1_000])


def _without_labels(folder: Path) -> None:
    (labels,) = folder.glob("*/index_metadata.pickle")
    labels.write_bytes(b"else")


def _new_table(folder: Path) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        db.execute("CREATE TABLE vectors_again (id, vector)")


def _of_somebody_else(folder: Path) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        db.execute("DELETE FROM collection_metadata")
        db.commit()


def _no_database(folder: Path) -> None:
    (folder / DATABASE).write_bytes(b"trash" * 1_000)


def _texts(folder: Path) -> None:
    """Add a text, as a tinymem before 0.1 could."""
    with closing(ChromaStore(folder)) as store:
        store._get_collection().upsert(ids=["1"], embeddings=vectors(1), documents=["in full text"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [_other_version, _short, _without_labels, _new_table, _of_somebody_else, _no_database, _texts]
)
def test_files_that_are_not_as_they_are_known_are_to_be_deleted(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    made(tmp_path, 1_500)
    change(tmp_path)
    before = [file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()]
    assert not ChromaStore.remove("", tmp_path, [3])
    assert before == [file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()], "left alone"


def test_a_graph_that_lost_many_is_to_be_made_again(tmp_path: Path) -> None:
    made(tmp_path, 1_500)
    assert not ChromaStore.remove("", tmp_path, range(500))

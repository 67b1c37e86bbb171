"""Chroma's files hold the vectors that are there, and nothing that this process had in its memory before."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from tinymem.protocols import Vectors
from tinymem.stores.chroma.files import Unused
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
    for seed in range(12):
        store = ChromaStore(tmp_path / f"{seed}")
        store.upsert(range(140), vectors(140, seed))
        store.clear()
        store.upsert(range(20, 140), vectors(140, seed)[20:])
        assert len(unused(tmp_path / f"{seed}")) > 100_000
        assert not any(unused(tmp_path / f"{seed}"))
        store.close()
        assert not any(unused(tmp_path / f"{seed}"))


def test_files_are_clean_however_often_they_are_written_and_lose_no_vector(tmp_path: Path) -> None:
    store, all_of_them = ChromaStore(tmp_path), vectors(3_000)
    for start in range(0, 3_000, 500):
        store.upsert(range(start, start + 500), all_of_them[start : start + 500])
        assert store.query(all_of_them[start + 7], 1)[0].tolist() == [start + 7]
        assert not any(unused(tmp_path))
    store.close()
    store = ChromaStore(tmp_path)
    assert [store.query(all_of_them[at], 1)[0].tolist() for at in range(0, 3_000, 300)] == [
        [at] for at in range(0, 3_000, 300)
    ]
    assert store.count() == 3_000
    store.close()


@pytest.mark.parametrize("held", [0, 3, 10])
def test_only_what_is_behind_the_last_vector_is_overwritten(tmp_path: Path, held: int) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "header.bin").write_bytes(struct.pack("<iQQQQ", 1, 0, 10, held, 5))
    (index / "data_level0.bin").write_bytes(b"trash" * 10)
    (index / "length.bin").write_bytes(b"bits" * 10)
    Unused(tmp_path).clean()
    assert (index / "length.bin").read_bytes() == b"bits" * held + bytes(4 * (10 - held))
    assert (index / "data_level0.bin").read_bytes() == b"trash" * held + bytes(5 * (10 - held))


def test_a_kind_of_file_that_is_not_known_stays_as_it_is(tmp_path: Path) -> None:
    for name, header in (("a", struct.pack("<iQQQQ", 2, 0, 10, 0, 5)), ("b", b"short"), ("c", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "header.bin").write_bytes(header)
        (tmp_path / name / "data_level0.bin").write_bytes(b"trash" * 10)
    Unused(tmp_path).clean()
    assert {file.read_bytes() for file in tmp_path.glob("*/data_level0.bin")} == {b"trash" * 10}

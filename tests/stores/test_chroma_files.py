"""Chroma's files: vectors of one namespace never get into the files of another."""

from __future__ import annotations

import platform
import struct
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tinymem.archive.indexing.child import Child
from tinymem.protocols import Vectors
from tinymem.stores.chroma.store import ChromaStore

FILLERS = b"\0\xff"  # beside which the allocator writes links of its own now and then, some bytes; a vector has 1,024


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


def fill(folder: str, rounds: str) -> None:
    """Fill stores, clear them and fill them again, as the process of the index does."""
    for seed in range(int(rounds)):
        with closing(ChromaStore(Path(folder) / f"{seed}")) as store:
            store.upsert(range(140), vectors(140, seed))
            store.clear()
            store.upsert(range(20, 140), vectors(140, seed)[20:])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of the GNU C library")
def test_nothing_that_the_process_of_chroma_had_in_memory_gets_into_new_files(tmp_path: Path) -> None:
    """Without `MALLOC_PERTURB_`, most of these rounds leave something behind."""
    filling = Child(fill, tmp_path, "2")
    assert not filling.runs(600) and filling.answer() is None
    for seed in range(2):
        found = unused(tmp_path / f"{seed}")
        assert len(found) > 100_000 and len(found.translate(None, FILLERS)) < 64

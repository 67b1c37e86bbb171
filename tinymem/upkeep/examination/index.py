"""The index's part of `doctor`, done in another process, since a damaged index can end the one that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.index import LET_GO
from tinymem.archive.indexing.mirror import BATCH
from tinymem.archive.indexing.notes import Notes, hold_folder, is_taken, read_notes
from tinymem.errors import TinymemError
from tinymem.protocols import Ids, Journal, Vectors, VectorStore
from tinymem.registry import is_in_memory, store_from
from tinymem.stores.journals import open_journal
from tinymem.upkeep.examination.findings import BUSY, FLUSH, REBUILD, Finding

__all__ = ["compare", "find_faults", "lagging"]

SAMPLE = 200  # passages that are asked for; of all others it is only seen if they are there
ASKED_FOR = 20  # nearest vectors, for each of the sample
OFF = 0.01  # tolerance of a cosine, since vectors are kept in half precision
TWIN = 0.999  # a passage found with this cosine has the same words, and counts as the one that was looked for
MISSES = 0.02  # share of the sample that an approximate index may not find itself


def lagging(journal: Journal, notes: Notes) -> Iterator[Finding]:
    """Find an index that is more than a batch behind the journal."""
    waiting = journal.last_passage() and journal.counts()["passages"] - journal.passages_until(notes.passage)
    if waiting > BATCH:
        why = f", which could not be written: {notes.fault}" if notes.fault else ""
        yield Finding(f"{waiting} passages are not in the index yet{why}", FLUSH)


def compare(journal: Journal, store: VectorStore, watermark: int) -> Iterator[Finding]:
    """Find the differences between `store` and `journal`."""
    ids, vectors = _journaled(journal)
    due = ids[ids <= watermark]
    if hasattr(store, "ids"):
        held = np.unique(np.asarray(store.ids(), np.int64))
        lacking, unknown = len(np.setdiff1d(due, held)), len(np.setdiff1d(held, ids))
    else:
        held, lacking, unknown = due, max(0, len(due) - store.count()), 0
    if lacking:
        yield Finding(f"the index lacks {lacking} of the {len(due)} vectors that it should have", REBUILD)
    if unknown:
        yield Finding(f"the index has {unknown} vectors of passages that the journal does not have", REBUILD)
    common = np.flatnonzero(np.isin(ids, held) & (ids <= watermark) & vectors.any(axis=1))
    chosen = np.linspace(0, len(common) - 1, min(SAMPLE, len(common))).astype(np.int64)
    yield from _asked(store, ids, vectors, common[np.unique(chosen)])


def _asked(store: VectorStore, ids: Ids, vectors: Vectors, rows: Ids) -> Iterator[Finding]:
    """Check that the passages `rows` find themselves, and that the store's cosines are right."""
    missed = wrong = 0
    for row in rows:
        found, cosines = store.query(vectors[row], ASKED_FOR)
        known = np.isin(found, ids)
        truth = vectors[np.searchsorted(ids, found[known])] @ vectors[row]
        wrong += bool((np.abs(truth - cosines[known]) > OFF).any())
        missed += ids[row] not in found and not (cosines >= TWIN).any()
    if wrong:
        yield Finding(f"for {wrong} of {len(rows)} passages the index has vectors that are not the journal's", REBUILD)
    if missed > max(1, MISSES * len(rows)):
        yield Finding(f"{missed} of {len(rows)} passages are not found in the index, though they are in it", REBUILD)


def _journaled(journal: Journal) -> tuple[Ids, Vectors]:
    """Return the ids of all passages, in order, and their vectors of length 1 or 0, without those of a wrong size."""
    rows: list[tuple[int, bytes]] = []
    while more := journal.passages(rows[-1][0] if rows else 0):
        rows += [(row.id, row.vector) for row in more]
    usual = Counter(len(blob) for _, blob in rows).most_common(1)
    rows = [row for row in rows if len(row[1]) == usual[0][0]]
    vectors = np.frombuffer(b"".join(blob for _, blob in rows), "<f2").astype(np.float32).reshape(len(rows), -1)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: Vectors = (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return np.array([id for id, _ in rows], np.int64), units


def find_faults(folder: Path, name: str) -> list[Finding]:
    """Find the faults of the index in the folder of a namespace. What is damaged there may end the process."""
    if is_in_memory(name):
        return []  # filled again whenever a memory is opened
    index = folder / INDEX
    try:
        with hold_folder(index, LET_GO), closing(open_journal(folder, create=False, read_only=True)) as journal:
            notes = read_notes(index) or Notes(name)
            with closing(store_from(name, index)) as store:
                return [*lagging(journal, notes), *compare(journal, store, notes.passage)]
    except TinymemError as error:
        return [Finding(f"the index cannot be read: {error}", BUSY if is_taken(error) else REBUILD)]

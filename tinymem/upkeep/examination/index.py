"""The index's part of `doctor`, done in another process, since a damaged index can end the one that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.index import LET_GO
from tinymem.archive.indexing.mirror import BATCH
from tinymem.archive.indexing.notes import Notes, hold_folder, is_taken, read_notes
from tinymem.archive.rows import stored_dimensions
from tinymem.errors import TinymemError
from tinymem.protocols import Ids, Journal, VectorStore
from tinymem.registry import is_in_memory, store_from
from tinymem.stores.journals import open_journal
from tinymem.upkeep.examination.findings import BUSY, FLUSH, REBUILD, Finding

__all__ = ["compare", "find_faults", "lagging"]

SAMPLE = 200  # passages that are asked for; of all others it is only seen if they are there
NEAREST = 20  # vectors that are asked for, of which one must be as near as this
TWIN = 0.999  # a cosine: vectors are kept in half precision, and another passage may have the same words
MISSES = 0.02  # share of the sample that an approximate index may not find itself


def lagging(journal: Journal, notes: Notes) -> Iterator[Finding]:
    """Find an index that is more than a batch behind the journal."""
    waiting = journal.last_passage() and journal.counts()["passages"] - journal.passages_until(notes.passage)
    if waiting > BATCH:
        why = f", which could not be written: {notes.fault}" if notes.fault else ""
        yield Finding(f"{waiting} passages are not in the index yet{why}", FLUSH)


def compare(journal: Journal, store: VectorStore, watermark: int) -> Iterator[Finding]:
    """Find the differences between `store` and `journal`: ids by counting, vectors by asking for some of them."""
    ids = _embedded(journal)
    due = ids[ids <= watermark]
    if hasattr(store, "ids"):
        stored = np.unique(np.asarray(store.ids(), np.int64))
        lacking, unknown = len(np.setdiff1d(due, stored)), len(np.setdiff1d(stored, ids))
    else:
        stored = due
        lacking, unknown = max(0, len(due) - store.count()), 0
    if lacking:
        yield Finding(f"the index lacks {lacking} of the {len(due)} vectors that it should have", REBUILD)
    if unknown:
        yield Finding(f"the index has {unknown} vectors of passages that the journal does not have", REBUILD)
    common = np.intersect1d(due, stored)
    places = np.linspace(0, len(common) - 1, min(SAMPLE, len(common))).astype(np.int64)
    asked = common[np.unique(places)]
    lost = sum(not _is_found(journal, store, int(id)) for id in asked)
    if lost > max(1, MISSES * len(asked)):
        yield Finding(f"for {lost} of {len(asked)} passages the index has vectors that are not the journal's", REBUILD)


def _embedded(journal: Journal) -> Ids:
    """Return the ids of all embedded passages, in order."""
    ids: list[int] = []
    while rows := journal.passages(ids[-1] if ids else 0):
        ids += [row.id for row in rows]
    return np.array(ids, np.int64)


def _is_found(journal: Journal, store: VectorStore, id: int) -> bool:
    """Return whether a passage, or one of the same words, is what the index has next to its vector."""
    rows = journal.passages(id - 1, 1)
    if not rows or rows[0].id != id:
        return True  # it was forgotten meanwhile
    if len(rows[0].vector) != 2 * (stored_dimensions(journal) or 0):
        return True  # which is a fault of the journal
    vector = np.frombuffer(rows[0].vector, "<f2").astype(np.float32)
    length = np.linalg.norm(vector)
    if not length:
        return True  # it is next to nothing
    _, cosines = store.query(vector / length, NEAREST)
    return bool((cosines >= TWIN).any())


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

"""The removal of single vectors from Chroma's files, which Chroma itself leaves there when it deletes.

It is done while Chroma has the folder closed. A vector is overwritten with zeros where it lies in the graph, and marked
as deleted; the links stay, so that the graph holds together. Then its rows go from the database, and what is unused in
that file is overwritten. Whatever looks different from what is known here is left alone, and then the caller has to
delete all files: the index is made again from the journal.
"""

from __future__ import annotations

import mmap
import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from tinymem.errors import StorageError
from tinymem.stores.chroma.files import DATABASE, FORMAT, MARK, Graph, read_graphs
from tinymem.stores.unused import overwrite_unused

__all__ = ["remove"]

LABEL = 8  # bytes at the end of an element
LINKS = 4  # bytes before a list of links; the third of them has
DELETED = 1  # this mark
NEAR = 4_096  # elements around the expected one in which a label is looked for at first
MANY = 500  # ids in one statement
LEAST_SHARE = 0.75  # of the graph; where fewer of its vectors are left, it is better made again
METADATA, ROWS, QUEUE = "embedding_metadata", "embeddings", "embeddings_queue"
TEXTS = "embedding_fulltext_search_content"
KNOWN = {
    "acquire_write", "collection_metadata", "collections", "databases", "embedding_fulltext_search",
    "embedding_fulltext_search_config", TEXTS, "embedding_fulltext_search_data", "embedding_fulltext_search_docsize",
    "embedding_fulltext_search_idx", METADATA, "embedding_metadata_array", ROWS, QUEUE, "embeddings_queue_config",
    "maintenance_log", "max_seq_id", "migrations", "segment_metadata", "segments", "sqlite_sequence", "tenants",
}  # fmt: skip
DELETE = 3  # the kind of record in the queue that Chroma has for a deletion


class _UnknownError(Exception):
    """The files are not as they are known here."""


def remove(folder: Path, ids: Sequence[int]) -> bool:
    """Remove the vectors with these ids, and what is beside them, from the files in `folder`.

    Returns:
        False if they cannot be removed one by one, so that all files have to be deleted.
    """
    if not (folder / DATABASE).exists():
        return not any(folder.glob("*/header.bin"))
    try:
        graphs = [*read_graphs(folder)]
        if len(graphs) != len([*folder.glob("*/header.bin")]) or not all(map(_is_known, graphs)) or len(graphs) > 1:
            return False  # of another format, or somebody else has a collection here
        _check_rows(folder / DATABASE)
        if any(graph.elements and len(ids) > (1 - LEAST_SHARE) * graph.elements for graph in graphs):
            return False
        for graph in graphs:
            _overwrite(graph, ids)
        left = _delete_rows(folder / DATABASE, ids)
        with _opened(folder / DATABASE) as file:
            overwrite_unused(file)
    except (_UnknownError, StorageError, sqlite3.Error, OSError, AttributeError):  # AttributeError: not on this system
        return False
    return all(left >= LEAST_SHARE * graph.elements for graph in graphs)


# -- the graph --------------------------------------------------------------------------------------------------------


def _is_known(graph: Graph) -> bool:
    """Return whether the vectors stand in the file where the header says, and nothing is missing."""
    dimensions, rest = divmod(graph.label - graph.vector, 4)
    fits = (
        graph.offset == 0
        and graph.vector > LINKS
        and dimensions > 0
        and rest == 0
        and graph.label == graph.size - LABEL
    )
    return fits and (graph.folder / "data_level0.bin").stat().st_size >= graph.elements * graph.size


def _overwrite(graph: Graph, ids: Sequence[int]) -> None:
    """Overwrite the vectors of the graph that have these ids, and mark them as deleted."""
    if not graph.elements:
        return
    labels = [*_labels(graph.folder / "index_metadata.pickle", ids)]
    with _opened(graph.folder / "data_level0.bin") as file:
        mapped = mmap.mmap(file, graph.elements * graph.size)
        kind = np.dtype({"names": ["label"], "formats": ["<u8"], "offsets": [graph.label], "itemsize": graph.size})
        held = np.ndarray(graph.elements, kind, mapped)["label"]
        for label in labels:
            at = _place(held, label) * graph.size
            mapped[at + 2] |= DELETED
            mapped[at + graph.vector : at + graph.label] = bytes(graph.label - graph.vector)
        mapped.flush()


def _place(labels: np.ndarray[tuple[int], np.dtype[np.uint64]], label: int) -> int:
    """Return the place of `label`; labels are given in order, and written almost so, by several threads."""
    first = max(0, label - NEAR)
    found = first + np.flatnonzero(labels[first : label + NEAR] == label)
    if len(found) != 1:
        found = np.flatnonzero(labels == label)
    if len(found) != 1:
        raise _UnknownError("a label")
    return int(found[0])


def _labels(pickled: Path, ids: Sequence[int]) -> Iterator[int]:
    """Yield the labels of those ids that are in the graph.

    They stand in two pickled mappings, `id_to_label` and its inverse. Reading both whole takes .2 s for 300,000 ids.
    """
    with open(pickled, "rb") as file, closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as data:
        inverse, last = data.find(b"label_to_id"), data.find(b"id_to_seq_id")
        if not 0 < data.find(b"id_to_label") < inverse < last:
            raise _UnknownError(pickled)
        for id in ids:
            text = str(id).encode()
            key = b"X" + struct.pack("<I", len(text)) + text
            at = data.find(key, 0, inverse)
            if at < 0:
                if data.find(key, inverse, last) >= 0:
                    raise _UnknownError(pickled)
                continue
            value = data[at + len(key) : at + len(key) + 5]
            if value[:1] != b"J" or data.find(value + key, inverse, last) < 0:
                raise _UnknownError(pickled)
            yield int.from_bytes(value[1:], "little")


# -- the database -----------------------------------------------------------------------------------------------------


def _check_rows(path: Path) -> None:
    """Raise _UnknownError unless the database is as it is known, with one collection, which tinymem has made."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {METADATA, ROWS, QUEUE} <= names <= KNOWN or _number(db, "SELECT count(*) FROM collections") != 1:
            raise _UnknownError(path)
        if _number(db, f"SELECT count(*) FROM collection_metadata WHERE key = '{MARK}' AND int_value = {FORMAT}") != 1:
            raise _UnknownError(path)  # somebody else's
        (mode,) = db.execute("PRAGMA journal_mode").fetchone()
        if mode != "delete" or _number(db, f"SELECT count(*) FROM (SELECT 1 FROM {TEXTS} LIMIT 1)"):
            raise _UnknownError(path)  # texts are in a full-text index too, which keeps what it deletes for a while


def _delete_rows(path: Path, ids: Sequence[int]) -> int:
    """Delete everything of these ids from the database, and return the number of the vectors that are left."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete=ON")
        arrays = _number(db, "SELECT count(*) FROM sqlite_master WHERE name = 'embedding_metadata_array'")
        db.execute("BEGIN IMMEDIATE")
        keys = [str(id) for id in ids]
        for at in range(0, len(keys), MANY):
            _delete_some(db, keys[at : at + MANY], bool(arrays))
        db.execute("COMMIT")
        return _number(db, f"SELECT count(*) FROM {ROWS}")


def _delete_some(db: sqlite3.Connection, keys: Sequence[str], with_arrays: bool) -> None:
    marks = ",".join("?" * len(keys))
    segments = "SELECT DISTINCT id FROM segments"
    rows = db.execute(f"SELECT id FROM {ROWS} WHERE segment_id IN ({segments}) AND embedding_id IN ({marks})", keys)
    numbers = [number for (number,) in rows]
    places = ",".join("?" * len(numbers))
    for table in (METADATA, *["embedding_metadata_array"] * with_arrays, ROWS):
        db.execute(f"DELETE FROM {table} WHERE id IN ({places})", numbers)
    # a record stays in its place, since the newest one tells Chroma how far it is
    forgotten = f"operation = {DELETE}, vector = NULL, encoding = NULL, metadata = NULL"
    db.execute(f"UPDATE {QUEUE} SET {forgotten} WHERE id IN ({marks})", keys)


def _number(db: sqlite3.Connection, sql: str) -> int:
    return int(db.execute(sql).fetchone()[0])


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file to read and write, and write it to the disk at the end."""
    file = os.open(path, os.O_RDWR)
    try:
        yield file
        os.fsync(file)
    finally:
        os.close(file)

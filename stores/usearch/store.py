"""An index for large memories: usearch's HNSW graph in a file that is mapped from disk, so opening it reads nothing.

New vectors are appended to a small file first and searched exactly. Once there are `TAIL` of them they go into the
graph together, and a new file takes the place of the old one, so that a process may be killed at any moment.

What is deleted or replaced stays in the graph, and its row is noted in a file of its own, until the store is cleared.

usearch trusts its file, and one wrong bit can end the process. So the graph has checksums, which are compared before it
is mapped for the first time; what is damaged is made again from the journal.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinymem.errors import ClosedError, FormatError, InputError, MissingExtraError, StorageError
from tinymem.protocols import Ids, Vectors
from tinymem.stores.exact import DECIMALS, ExactStore, check_rows, to_units
from tinymem.stores.files import lock_folder, make_private_file, make_private_folder, open_private
from tinymem.stores.locks import leave_to_parent
from tinymem.stores.usearch.checksums import has_changed, seal

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["UsearchStore"]

logger = logging.getLogger(__name__)

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before onnxruntime is imported

TAIL = 16_384  # vectors that are searched exactly, in 2 to 3 ms; of 256 dimensions they take 16 MB
CONNECTIVITY, ADDED, SEARCHED = 32, 100, 200  # of the HNSW graph: M, ef_construction and ef_search
GRAPH, GRAPH_IDS, VOID_ROWS, TAIL_FILE = "graph.usearch", "graph.ids", "graph.void", "tail.vectors"
TAIL_HEADER = 8  # bytes: how many dimensions the records have
VOID = -1  # in place of the id of a vector that was deleted
_checked: dict[Path, list[int]] = {}  # folders whose graph this process has checked or written, and its state then


class UsearchStore:
    """An approximate index (HNSW, cosine, half precision) in the files of a folder, for millions of vectors.

    Needs `pip install "tinymem-agents[usearch]"`. Any number of threads may use one. Vectors that are replaced or
    deleted stay in the files until `clear`.

    Args:
        path: The folder. One store at a time has it open.

    Raises:
        StorageError: Another store has the folder open, or a file cannot be read.
        FormatError: A file is damaged.
        MissingExtraError: usearch is not installed.

    >>> memory = HierarchicalMemory("./memory", store="usearch")  # doctest: +SKIP
    """

    def __init__(self, path: Path | str) -> None:
        with suppress(ImportError):  # first: usearch makes its symbols global, and onnxruntime dies of them
            import_module("onnxruntime")
        try:
            from usearch.index import Index
        except ImportError as error:
            raise MissingExtraError("the store 'usearch'", "usearch") from error
        self._index_class: Any = Index
        self._folder = Path(path).resolve()
        self._pid = os.getpid()
        self._guard = threading.RLock()
        self._is_loaded = False  # False too after a change that was interrupted: files and memory may differ
        self._forget_all()
        make_private_folder(self._folder)
        self._lock: BaseFileLock | None = lock_folder(self._folder)
        leave_to_parent(self)
        try:
            self.count()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_name(cls, argument: str, path: Path) -> UsearchStore:
        """Return the store named `"usearch"`, with its files in `path`; it takes no argument.

        Damaged files are deleted, since the memory fills a store that lacks something.
        """
        if argument:
            raise InputError(f'the store "usearch" takes no argument, but {argument!r} was given')
        try:
            return cls(path)
        except FormatError as error:
            logger.warning("%s: it is deleted now", error)
            cls.erase(argument, path)
            return cls(path)

    @property
    def name(self) -> str:
        """The name of the store: `"usearch"`."""
        return "usearch"

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Add vectors `(n, dimensions)` under `ids`, or replace those that are there; the last of an id counts.

        The first vectors decide the dimensions.

        Raises:
            InputError: The shapes do not fit, or a number is not finite; nothing is changed then.
        """
        units = to_units(vectors)
        check_rows(ids, units)
        if not len(ids):
            return
        keys = np.asarray(ids, dtype=np.int64)
        with self._use(units.shape[1], changes=True):
            self._void_all(keys)
            self._dimensions = units.shape[1]
            self._append(keys, units)
            self._tail.upsert(keys.tolist(), units)
            if self._tail.count() >= TAIL:
                self._merge()

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        """Return ids and cosine similarities of the `k` vectors closest to `vector` `(dimensions,)`, best first.

        Equal similarities are in the order of ids. Those of the graph are right to three decimals.

        Raises:
            InputError: The shape does not fit, or a number is not finite.
        """
        unit, k = to_units(vector), max(k, 0)
        with self._use(unit.shape[0] if unit.ndim == 1 else -1):
            ids, similarities = self._tail.query(unit, k)
            graph, graph_ids, void = self._graph, self._graph_ids, self._void
        if k and len(graph_ids):  # without the lock, since the file that is mapped here is replaced and not changed
            found = graph.search(unit, min(k + min(void, k), len(graph_ids)))
            beside = graph_ids[found.keys.astype(np.int64)]
            ids = np.concatenate([ids, beside[beside != VOID]])
            cosines = np.round(1 - found.distances[beside != VOID], DECIMALS)
            similarities = np.concatenate([similarities, cosines.astype(np.float32)])
        order = np.lexsort((ids, -similarities))[:k]
        return ids[order], similarities[order]

    def delete(self, ids: Sequence[int]) -> None:
        """Remove these ids; unknown ids are no error."""
        keys = np.array([int(key) for key in ids], dtype=np.int64)
        with self._use(changes=True):
            self._void_all(keys)
            self._tail.delete(keys.tolist())

    def ids(self) -> Ids:
        """Return all ids, in any order."""
        with self._use():
            return np.concatenate([self._tail.ids(), self._graph_ids[self._graph_ids != VOID]])

    def count(self) -> int:
        """Count the vectors."""
        with self._use():
            return self._tail.count() + len(self._graph_ids) - self._void

    def clear(self) -> None:
        """Remove everything, the files too; the next vectors may have other dimensions."""
        with self._use(changes=True):
            self._forget_all()
            _delete_files(self._folder)

    def close(self) -> None:
        """Release the folder; any other call is a ClosedError from then on."""
        if os.getpid() != self._pid:
            return  # the lock belongs to the parent
        with self._guard:
            self._forget_all()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @staticmethod
    def erase(argument: str, path: Path) -> bool:
        """Delete the store's files in the folder `path` without reading them.

        Raises:
            StorageError: A store has the folder open.
        """
        if path.is_dir():
            lock = lock_folder(path)
            try:
                _delete_files(path)
            finally:
                lock.release()
        return True

    @contextmanager
    def _use(self, dimensions: int = 0, *, changes: bool = False) -> Iterator[None]:
        """Let one thread at a time use memory and files, for vectors of that many dimensions if any are given."""
        if os.getpid() != self._pid:
            raise StorageError("this store was opened before a fork, in another process: open it in the child")
        with self._guard:
            if self._lock is None:
                raise ClosedError("this store was closed: open it again")
            try:
                if not self._is_loaded:
                    self._load()
                if dimensions and self._dimensions and dimensions != self._dimensions:
                    raise InputError(f"this store has vectors of {self._dimensions} dimensions, not of {dimensions}")
                self._is_loaded = not changes
                yield
                self._is_loaded = True
            except OSError as error:
                raise StorageError(f"the index in {self._folder} cannot be used: {error}") from error

    def _forget_all(self) -> None:
        """Leave nothing in memory; what is mapped is unmapped."""
        self._tail = ExactStore()
        self._graph: Any = None  # usearch's index, whose keys are row numbers
        self._graph_ids: Ids = np.zeros(0, dtype=np.int64)  # of its rows
        self._void = 0  # rows that are deleted
        self._dimensions = 0  # not known yet

    def _load(self) -> None:
        """Map the graph, and read the tail."""
        self._forget_all()
        if (self._folder / GRAPH).exists():
            self._check()
            self._graph = self._restore(view=True)
            self._dimensions = self._graph.ndim
            size = len(self._graph)
            # There are more ids than rows if a merge was killed.
            self._graph_ids = np.memmap(self._folder / GRAPH_IDS, dtype="<i8", mode="c", shape=(size,))
            rows = np.zeros(0, np.int64)
            with suppress(FileNotFoundError):
                rows = np.fromfile(self._folder / VOID_ROWS, dtype="<i8")
            self._graph_ids[rows[(rows >= 0) & (rows < size)]] = VOID
            self._void = int(np.count_nonzero(self._graph_ids == VOID))
        records = self._read_tail()
        if records is not None and len(keys := np.flatnonzero(records["key"])):
            self._dimensions = records["vector"].shape[1]
            ids = records["key"][keys] - 1
            self._void_rows(ids)  # a merge that was killed leaves them in both
            self._tail.upsert(ids.tolist(), records["vector"][keys])

    def _check(self) -> None:
        """Raise FormatError if graph or ids are damaged, unless this process knows that they are whole."""
        graph, ids = self._folder / GRAPH, self._folder / GRAPH_IDS
        if _checked.get(self._folder) != _state(self._folder):
            if not ids.exists() or has_changed(graph, ids):
                raise self._damaged(GRAPH)
            _checked[self._folder] = _state(self._folder)

    def _restore(self, *, view: bool) -> Any:
        """Return usearch's index: mapped with `view`, and in memory, to add to it, without."""
        try:
            graph = self._index_class.restore(str(self._folder / GRAPH), view=view)
        except (RuntimeError, ValueError) as error:
            raise self._damaged(GRAPH) from error
        if graph is None:
            raise self._damaged(GRAPH)
        graph.expansion_add, graph.expansion_search = ADDED, SEARCHED
        return graph

    def _damaged(self, name: str) -> FormatError:
        return FormatError(f"{self._folder / name} is damaged: delete its folder, and the index is made again")

    def _read_tail(self) -> Any:
        """Return the records of the tail, mapped to be changed, or None; what was only half written is left out."""
        file = self._folder / TAIL_FILE
        size = file.stat().st_size if file.exists() else 0
        if size <= TAIL_HEADER:
            return None
        dimensions = int(np.fromfile(file, dtype="<i8", count=1)[0])
        if not 0 < dimensions < 1 << 20 or (self._dimensions and dimensions != self._dimensions):
            raise self._damaged(TAIL_FILE)
        record = _record(dimensions)
        if not (whole := (size - TAIL_HEADER) // record.itemsize):
            return None
        return np.memmap(file, dtype=record, mode="r+", offset=TAIL_HEADER, shape=(whole,))

    def _append(self, keys: Ids, units: Vectors) -> None:
        """Write vectors to the tail's file."""
        record = _record(self._dimensions)
        records = np.zeros(len(keys), dtype=record)
        records["key"], records["vector"] = keys + 1, units  # where a crash left zeros there is no key
        with open(self._folder / TAIL_FILE, "ab", opener=open_private) as file:
            if not file.tell():
                file.write(np.array([self._dimensions], dtype="<i8").tobytes())
            elif torn := (file.tell() - TAIL_HEADER) % record.itemsize:
                file.truncate(file.tell() - torn)
            file.write(records.tobytes())

    def _void_all(self, ids: Ids) -> None:
        """Delete the vectors of `ids`, wherever they are."""
        self._void_rows(ids)
        if np.isin(ids, self._tail.ids()).any():
            records = self._read_tail()
            rows = np.flatnonzero(np.isin(records["key"], ids + 1))
            records["vector"][rows] = 0
            records["key"][rows] = 0

    def _void_rows(self, ids: Ids) -> None:
        """Note that the vectors of `ids` in the graph are deleted; it stays as it is."""
        rows = np.flatnonzero(np.isin(self._graph_ids, ids))
        if not len(rows):
            return
        with open(self._folder / VOID_ROWS, "ab", opener=open_private) as file:
            file.truncate(file.tell() // 8 * 8)  # what was half written
            file.write(rows.astype("<i8").tobytes())
        self._graph_ids[rows] = VOID
        self._void += len(rows)

    def _merge(self) -> None:
        """Add the tail to the graph, in a new file; each step can be done again after a crash."""
        ids, units = self._tail.ids(), self._tail.vectors()
        first = len(self._graph_ids)
        graph = self._restore(view=False) if first else self._index_class(
            ndim=self._dimensions, metric="ip", dtype="f16", connectivity=CONNECTIVITY,
            expansion_add=ADDED, expansion_search=SEARCHED,
        )  # fmt: skip
        graph.add(np.arange(first, first + len(ids), dtype=np.uint64), units, threads=1)
        with open(self._folder / GRAPH_IDS, "ab", opener=open_private) as file:
            file.truncate(8 * first)
            file.write(ids.astype("<i8").tobytes())
            file.flush()
            os.fsync(file.fileno())
        new = self._folder / f"{GRAPH}.new"
        new.unlink(missing_ok=True)
        make_private_file(new)
        graph.save(str(new))
        seal(new, self._folder / GRAPH_IDS, 8 * (first + len(ids)))
        os.replace(new, self._folder / GRAPH)
        _checked[self._folder] = _state(self._folder)
        (self._folder / TAIL_FILE).unlink()
        self._load()


def _state(folder: Path) -> list[int]:
    """Return what changes when another process writes the graph or its ids."""
    state: list[int] = []
    for name in (GRAPH, GRAPH_IDS):
        with suppress(FileNotFoundError):
            found = (folder / name).stat()
            state += [found.st_ino, found.st_size, found.st_mtime_ns]
    return state


def _record(dimensions: int) -> np.dtype[Any]:
    return np.dtype([("key", "<i8"), ("vector", "<f4", (dimensions,))])  # the key is the id and 1; 0 is none


def _delete_files(folder: Path) -> None:
    """Delete the store's files; the tail first, which must not outlive the graph, or older vectors would be found."""
    for name in (TAIL_FILE, GRAPH, GRAPH_IDS, VOID_ROWS, f"{GRAPH}.new"):
        (folder / name).unlink(missing_ok=True)

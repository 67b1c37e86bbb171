"""Chroma as the index: embedded in this process, with its files in one folder, or on a server.

Chroma holds ids, vectors and small metadata, and no text. This module works around its faults.
Two processes in one folder corrupt each other's index without an error, so the folder is locked. Chroma hangs after a
fork, so a child gets an error. The default distance is not the cosine. Deleted vectors stay in the files, so `clear`
deletes the files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinymem.errors import ClosedError, InputError, StorageError, TinymemError
from tinymem.protocols import Ids, Metadata, Vectors
from tinymem.stores.chroma.files import DATABASE, FORMAT, MARK, wipe
from tinymem.stores.chroma.server import collection_of, connect, disconnect
from tinymem.stores.files import NewFiles, lock_folder, make_private_folder
from tinymem.stores.locks import leave_to_parent

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from filelock import BaseFileLock

__all__ = ["ChromaStore"]

# Chroma's defaults (100, 100, 16) miss 3 of 100 neighbours, and 16 of 10,000 vectors do not find themselves. With these
# values it is 1 and 2. An ef_construction of 200 finds .5 more of 100 neighbours, and takes 1.6 times as long to build.
HNSW = {"space": "cosine", "ef_construction": 100, "ef_search": 200, "max_neighbors": 32}
COLLECTION = "tinymem"  # the name of the one in a folder
ENDING = 5.0  # seconds that the process of a program that was killed may go on
_DECIMALS = 6  # Chroma's float32 distances are good to about six decimals, and equal vectors must tie


class ChromaStore:
    """An approximate index (HNSW, cosine) in Chroma, 1 to 2 ms a query. Any number of threads may use one.

    Args:
        path: A folder. Chroma runs in this process, and keeps its files there.
        server: The URL of a server that keeps the vectors instead. Each `path` has a collection of its own there, whose
            name is in the file `collection.txt`.

    Raises:
        StorageError: Chroma fails, another store, here or in another process, has the folder open, tinymem did not
            make the collection, or the server does not answer within 5 seconds, or later takes more than 30 for a
            request.
        InputError: `server` is not the URL of a server.

    Beside each vector stands metadata, by which `collection.get(where={"session": "s1"})` and `query` filter: step (its
    number), type, time (seconds since 1970) and milestone, and where the step has them session, speaker and tool (the
    names of several, separated by ", ").

    `forget` deletes the files, and they are made again of what is left in the background. That holds for a folder
    without other collections; elsewhere, as on a server, only the collection is dropped, and Chroma may keep parts of
    it in its files. Chroma also writes stray memory of its process into new files: in your own process that may be
    vectors that were just forgotten, so a memory that forgets is better opened with the name `"chroma"`.

    >>> embedded = ChromaStore("./memory/chroma")  # doctest: +SKIP
    >>> served = ChromaStore("./memory/chroma", "http://localhost:8000")  # doctest: +SKIP
    """

    def __init__(self, path: Path | str, server: str = "") -> None:
        self._folder, self._server, self._title = Path(path).resolve(), server, COLLECTION
        self._client: ClientAPI | None = None
        self._pid = os.getpid()
        leave_to_parent(self)
        self._guard = threading.RLock()
        self._lock: BaseFileLock | None = None
        self._files: NewFiles | None = None
        self._collection: Any = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_name(cls, argument: str, path: Path) -> ChromaStore:
        """Return the store named `"chroma"`, with its files in `path`, or `"chroma:http://host:8000"`, on a server.

        A server that asks for a token gets the one in the environment, as `docs/stores.md` shows.
        """
        return cls(path, argument)

    @property
    def name(self) -> str:
        """The name of the store: `"chroma"`, or `"chroma:http://host:8000"`."""
        return f"chroma:{self._server}" if self._server else "chroma"

    def upsert(self, ids: Sequence[int], vectors: Vectors, metadata: Sequence[Metadata] | None = None) -> None:
        """Add vectors `(n, dimensions)` under `ids`, or replace those that are there, with their metadata.

        The first vectors decide the dimensions. If an id occurs twice, its last vector counts. Speed is 2,000 to 4,000
        vectors a second.

        Raises:
            InputError: The shapes do not fit, or a number is not finite.
        """
        collection = self._get_collection()
        rows = np.asarray(vectors, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(ids):
            raise InputError(f"{len(ids)} ids need vectors of shape ({len(ids)}, dimensions), not {rows.shape}")
        _check_finite(rows)
        last = {str(int(key)): number for number, key in enumerate(ids)}
        keys, chosen = list(last), list(last.values())
        with self._exclusive(), _translate_errors("add vectors"):
            for part in self._parts(len(last)):
                beside = None if metadata is None else [metadata[number] for number in chosen[part]]
                collection.upsert(ids=keys[part], embeddings=rows[chosen[part]], metadatas=beside)
        self._make_private()

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        """Return ids and cosine similarities of the `k` vectors closest to `vector` `(dimensions,)`, best first.

        Equal similarities are in the order of ids.

        Raises:
            InputError: The shape does not fit, or a number is not finite.
        """
        collection = self._get_collection()
        row = np.asarray(vector, dtype=np.float32)
        if row.ndim != 1:
            raise InputError(f"a query is one vector of shape (dimensions,), not {row.shape}")
        _check_finite(row)
        if k <= 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        with self._exclusive(), _translate_errors("search"):
            found = collection.query(query_embeddings=row[np.newaxis], n_results=k, include=["distances"])
            ids = np.array([int(key) for key in found["ids"][0]], dtype=np.int64)
            similarities = 1 - np.array(found["distances"][0], dtype=np.float64)
        rounded = np.round(similarities, _DECIMALS).astype(np.float32)
        order = np.lexsort((ids, -rounded))
        return ids[order], rounded[order]

    def delete(self, ids: Sequence[int]) -> None:
        """Remove these ids; unknown ids are no error. The vectors stay in Chroma's files until `clear`."""
        collection = self._get_collection()
        keys = [str(int(key)) for key in ids]
        with self._exclusive(), _translate_errors("delete vectors"):
            for part in self._parts(len(keys)):
                collection.delete(ids=keys[part])

    def count(self) -> int:
        """Count the vectors."""
        collection = self._get_collection()
        with self._exclusive(), _translate_errors("count"):
            return int(collection.count())

    def clear(self) -> None:
        """Remove everything, the files too.

        A server, or a folder that holds other collections too, only drops the collection, and may keep parts on disk.
        """
        with self._guard:
            self._get_collection()
            with _translate_errors("clear the collection"):
                if self._server or self._get_client().count_collections() > 1:
                    self._get_client().delete_collection(self._title)
                else:
                    self._disconnect()
                    wipe(self._folder)
                    self._files = None
            self._open()

    def close(self) -> None:
        """Release the folder and the connection; any other call is a ClosedError from then on."""
        if os.getpid() != self._pid:
            return  # both belong to the parent, and Chroma would hang
        with self._guard:
            self._disconnect()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @staticmethod
    def erase(argument: str, path: Path) -> bool:
        """Delete the files of the store `argument` (see `from_name`) in the folder `path` without opening them.

        Opening damaged files could end the process.

        Returns:
            False for a server, which has no files there.

        Raises:
            StorageError: A store has the folder open.
        """
        folder = path.resolve()
        if folder.is_dir() and not argument:
            lock = lock_folder(folder, ENDING)
            try:
                wipe(folder)
            finally:
                lock.release()
        return not argument

    def _open(self) -> None:
        if self._server:
            with _translate_errors(f"reach {self._server}"):
                self._client = self._client or connect(self._server)
            place = self._title = collection_of(self._folder)
        else:
            self._take_folder()
            place = f"{self._folder} (if its files are damaged, delete it: the index is rebuilt from the journal)"
        with _translate_errors(f"open {place}"):
            if not self._server:
                self._client = _embedded_client(self._folder)
            self._collection = _collection(self._get_client(), self._title)
        self._make_private()

    def _take_folder(self) -> None:
        """Lock the folder, and remove what a `clear` that was killed halfway left there."""
        make_private_folder(self._folder)
        self._files = self._files or NewFiles(self._folder)
        self._lock = self._lock or lock_folder(self._folder)
        if not (self._folder / DATABASE).exists():
            wipe(self._folder)

    def _make_private(self) -> None:
        """Make new files readable to this user only, since Chroma creates them with the umask's mode."""
        if self._files is not None:
            self._files.make_private()

    def _get_client(self) -> ClientAPI:
        if self._client is None:
            raise ClosedError("this store was closed: open it again")
        return self._client

    def _get_collection(self) -> Any:
        """Return the collection; an error if this store is closed, or was opened before a fork."""
        if os.getpid() != self._pid:
            raise StorageError(
                "this store was opened before a fork, and Chroma hangs in the child: open it in the child"
            )
        if self._collection is None:
            raise ClosedError("this store was closed: open it again")
        return self._collection

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let one thread at a time use an embedded Chroma."""
        if self._server:
            yield
            return
        with self._guard:
            yield

    def _disconnect(self) -> None:
        if self._client is not None:
            disconnect(self._client)
        self._client, self._collection = None, None

    def _parts(self, size: int) -> Iterator[slice]:
        """Yield slices of 0 to `size` that Chroma takes in one call; it refuses more than about 5,000 records."""
        step = self._get_client().get_max_batch_size() if size else 1
        for start in range(0, size, step):
            yield slice(start, start + step)


@contextmanager
def _translate_errors(doing: str) -> Iterator[None]:
    """Raise InputError or StorageError for errors of Chroma, its database and the network."""
    from chromadb.errors import InvalidArgumentError

    try:
        yield
    except TinymemError:
        raise
    except InvalidArgumentError as error:
        raise InputError(f"Chroma could not {doing}: {error}") from error
    except Exception as error:
        raise StorageError(f"Chroma could not {doing}: {error}") from error


def _collection(client: ClientAPI, title: str) -> Any:
    from chromadb.errors import NotFoundError

    try:
        found: Any = client.get_collection(title, embedding_function=None)
    except NotFoundError:
        made: Any = {"hnsw": HNSW}
        return client.create_collection(title, configuration=made, metadata={MARK: FORMAT}, embedding_function=None)
    if (found.metadata or {}).get(MARK) != FORMAT:
        raise StorageError(f"the collection {title!r} was not made by tinymem, or by another version: remove it")
    return found


_used_by = 0  # the process that first ran Chroma: in its children some of Chroma's threads are gone, and it hangs


def _embedded_client(folder: Path) -> ClientAPI:
    global _used_by
    if _used_by not in (0, os.getpid()):
        raise StorageError(
            "this process was forked off by one that had used Chroma, which hangs in such a child: the index waits for "
            "another process (start children by spawn or forkserver, or before a memory is opened)"
        )
    _used_by = os.getpid()
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    try:
        return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
    except BaseException:  # or Chroma would give out the half-made client from now on
        getattr(SharedSystemClient, "_identifier_to_system", {}).pop(str(folder), None)
        raise


def _check_finite(vectors: Vectors) -> None:
    if not np.isfinite(vectors).all():
        raise InputError("a vector has a number that is not finite (NaN or infinity)")

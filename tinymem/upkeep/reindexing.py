"""Change of a memory's embedder: all passages are embedded again while the memory stays in use."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from tinymem.archive.archive import Archive, saying
from tinymem.archive.embedding import BATCH
from tinymem.archive.folders import open_namespace_journal, to_place
from tinymem.archive.rows import texts_of
from tinymem.archive.snapshots import SnapshotFiles
from tinymem.errors import StorageError
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Journal, VectorStore
from tinymem.protocols.settings import EMBEDDER
from tinymem.recall.query.analysis import embed_texts
from tinymem.registry import DEFAULT_STORE, check_store_spec, embedder_from, to_shared_store
from tinymem.steps.checks import check_callable
from tinymem.steps.progress import Progress, no_progress

__all__ = ["Reindexed", "reindex"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reindexed:
    """The result of `reindex`: the fingerprints of both embedders, and the number of passages.

    `embedded` were embedded by this run; the others by an earlier run that was interrupted.
    """

    before: str
    after: str
    passages: int
    embedded: int


def reindex(
    path: str | Path,
    embedder: str | Embedder | Embeds,
    *,
    namespace: str = "default",
    store: str | VectorStore = DEFAULT_STORE,
    progress: Progress | None = None,
) -> Reindexed:
    """Give the memory at `path` another embedder: all passages are embedded again, and nothing else changes.

    The old vectors are used until all new ones are there; then all are replaced at once, and when this returns, the old
    ones are gone from the files. Until then, any process that has the memory open goes on adding and recalling;
    afterwards its next recall is an EmbedderMismatchError, and it must open the memory again. A killed run is continued
    by the next one, or given up by reindexing with the embedder in use. Until the end the journal holds both vectors
    of a passage. Afterwards, the memory opens with the new embedder when none is given.

    Args:
        path: The memory's folder, or its address in a database.
        embedder: The new embedder, or its name.
        namespace: The namespace that is reindexed.
        store: The store that the memory is opened with.
        progress: Called with the number of passages done, and of all.

    Returns:
        Both fingerprints, and the numbers of passages.

    Raises:
        NotAMemoryError: There is no such memory.
        EmbedderError: The embedder fails.
        StorageError: Another process has reindexed the memory meanwhile, or reads it at the very end, so that old
            vectors are still in its file.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder = tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder, embedder="hashing:64") as memory:
    ...     step = memory.add(MessageStep("user", "The staging server is at 10.0.0.7."))
    >>> reindex(folder, "hashing").embedded
    1
    """
    new = embedder_from(embedder)
    place = to_place(path)
    index = check_store_spec(to_shared_store(store) if isinstance(place, str) else store)
    advance = check_callable("progress", progress) or no_progress
    folder, journal = open_namespace_journal(place, namespace)
    try:
        before = journal.setting(EMBEDDER) or new.fingerprint
        done = _embed(journal, new, before, advance)
        with saying("it is reindexed, but old vectors stay in the memory's files until it is opened again"):
            journal.maintenance.scrub()
        SnapshotFiles(folder, journal).erase()
        passages = journal.counts()["passages"]
        _make_index(folder, journal, new, index)
        return Reindexed(before, new.fingerprint, passages, done)
    finally:
        journal.close()


def _embed(journal: Journal, embedder: Embedder, before: str, progress: Progress) -> int:
    """Embed all passages and replace their vectors; return the number of passages embedded.

    None are where the embedder is the same, as after a move to another server, or half of a reindexing.
    """
    fingerprint = embedder.fingerprint
    count = 0
    total = journal.counts()["passages"]
    while not journal.maintenance.switch(fingerprint, embedder.name):
        last = 0
        while passages := journal.passages(last, BATCH, lacking=fingerprint):
            texts = texts_of(journal, passages)
            if texts:
                vectors = embed_texts(embedder, [*texts.values()])
                if not journal.put_vectors([*texts], vectors, fingerprint, before):
                    now = journal.setting(EMBEDDER)
                    raise StorageError(f"{journal.location}: another process has reindexed it meanwhile, with {now}")
                count += len(texts)
            last = passages[-1].id
            progress(journal.passages_until(last), total)
    return count


def _make_index(folder: Path, journal: Journal, embedder: Embedder, store: str | VectorStore) -> None:
    """Clear the index of old vectors, embed what nobody has embedded yet, and fill the index again."""
    archive = Archive(folder, embedder, store, counter_from(None), journal=journal)
    try:
        archive.index.forget()
        archive.queue.embed_pending()
        archive.indexing.flush()
    except StorageError as error:
        logger.warning("the index keeps its old vectors until the memory is opened again: %s", error)
    finally:
        archive.close()

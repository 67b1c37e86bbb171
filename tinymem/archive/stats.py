"""Statistics of a namespace."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tinymem.archive.archive import Archive
from tinymem.stores.journals import journal_files

__all__ = ["Stats", "stats_of"]


@dataclass(frozen=True)
class Stats:
    """The numbers of a namespace.

    `indexed_passages` are in the vector store, and `unindexed_passages` wait for it: none as long as no step has left
    the window, nor in a small memory whose store is in memory. `embedder_state` is "ready", or what is wrong with the
    embedder since it was last needed; `store_state` is "ready", or why the store could not be written when it was last
    tried.
    """

    namespace: str
    steps: int
    window_steps: int
    archived_steps: int
    waiting_steps: int
    passages: int
    indexed_passages: int
    unindexed_passages: int
    tokens: int
    window_tokens: int
    embedder: str
    embedder_state: str
    store: str
    store_state: str
    bytes_on_disk: int


def stats_of(archive: Archive, namespace: str, store: str) -> Stats:
    """Count the steps, passages and bytes of an archive and of its window."""
    counts = archive.journal.counts()
    indexed = archive.journal.passages_until(archive.index.notes.passage)
    bytes_on_disk = 0 if journal_files(archive.folder) else archive.journal.maintenance.size()  # in a database
    for folder, _, names in os.walk(archive.folder):
        for name in names:
            with suppress(FileNotFoundError):  # since another process took it away meanwhile
                bytes_on_disk += Path(folder, name).stat().st_size
    return Stats(
        namespace=namespace,
        archived_steps=counts["steps"] - counts["window_steps"],
        embedder=archive.queue.embedder.name,
        embedder_state=archive.queue.trouble or "ready",
        indexed_passages=indexed,
        unindexed_passages=counts["passages"] - indexed if archive.index.lacks else 0,
        store=store,
        store_state=archive.index.fault or "ready",
        bytes_on_disk=bytes_on_disk,
        **counts,
    )

"""Statistics of a namespace."""

from __future__ import annotations

from dataclasses import dataclass

from tinymem.archive.archive import Archive

__all__ = ["Stats", "stats_of"]


@dataclass(frozen=True)
class Stats:
    """The numbers of a namespace.

    Tokens are counted on steps as they are sent. `waiting_steps` are not embedded yet. `embedder_state` is "ready", or
    the embedder's failure when it was last used.
    """

    namespace: str
    steps: int
    window_steps: int
    archived_steps: int
    waiting_steps: int
    passages: int
    tokens: int
    window_tokens: int
    embedder: str
    embedder_state: str
    store: str
    bytes_on_disk: int


def stats_of(archive: Archive, namespace: str, store: str) -> Stats:
    """Count the steps, passages and bytes of an archive and of its window."""
    counts = archive.journal.counts()
    files = (file for file in archive.folder.rglob("*") if file.is_file())
    return Stats(
        namespace=namespace,
        archived_steps=counts["steps"] - counts["window_steps"],
        embedder=archive.embedder.name,
        embedder_state=archive.trouble or "ready",
        store=store,
        bytes_on_disk=sum(file.stat().st_size for file in files),
        **counts,
    )

"""The embedder that a memory remembers, and opens with when none is given."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tinymem.archive.folders import open_namespace_journal
from tinymem.errors import EmbedderError, InputError, MissingExtraError, NotAMemoryError
from tinymem.protocols import Embedder, Journal
from tinymem.protocols.settings import EMBEDDER_NAME
from tinymem.registry import DEFAULT_EMBEDDER, embedder_from

__all__ = ["name_at", "remembered_embedder", "remembered_name"]


def remembered_name(journal: Journal) -> str:
    """Return the name of the embedder that made the journal's vectors; the default if there are none yet."""
    return journal.setting(EMBEDDER_NAME) or DEFAULT_EMBEDDER


def name_at(place: str | Path, namespace: str) -> str:
    """Return the name of the embedder of a namespace; the default if there is no such memory yet."""
    try:
        _, journal = open_namespace_journal(place, namespace)
    except NotAMemoryError:
        return DEFAULT_EMBEDDER
    with closing(journal):
        return remembered_name(journal)


def remembered_embedder(name: str) -> Embedder:
    """Return the embedder that a memory remembers by this name.

    Raises:
        InputError: No adapter has that name.
        EmbedderError: The adapter cannot make the embedder, as without a key.
        MissingExtraError: The adapter's packages are not installed.
    """
    advice = "pass embedder=, the one that the memory was written with"
    try:
        return embedder_from(name)
    except MissingExtraError:
        raise
    except (InputError, EmbedderError) as error:
        raise type(error)(f"this memory remembers its embedder as {name!r:.200}: {error}; or {advice}") from error

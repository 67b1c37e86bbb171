"""The embedder that a memory remembers, and opens with when none is given."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tinymem.errors import EmbedderError, InputError, MissingExtraError
from tinymem.protocols import Embedder, Journal
from tinymem.protocols.settings import EMBEDDER_NAME
from tinymem.registry import DEFAULT_EMBEDDER, embedder_from
from tinymem.stores.journals import has_journal, open_journal

__all__ = ["name_in", "remembered_embedder", "remembered_name"]


def remembered_name(journal: Journal) -> str:
    """Return the name of the embedder that made the journal's vectors; the default if there are none yet."""
    return journal.setting(EMBEDDER_NAME) or DEFAULT_EMBEDDER


def name_in(folder: Path) -> str:
    """Return the name of the embedder of the namespace in `folder`; the default if there is no journal yet."""
    if not has_journal(folder):
        return DEFAULT_EMBEDDER
    with closing(open_journal(folder, create=False)) as journal:
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

"""Opening of a memory's place: the folder or the database of a namespace, made if it is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tinymem.archive.folders import namespace_folder, open_shared_journal
from tinymem.errors import new_log_key
from tinymem.protocols import Journal
from tinymem.steps.checks import to_path
from tinymem.stores.journals import is_address
from tinymem.stores.temporary import private_folder
from tinymem.upkeep.forgetting import cleanup_on_failure

__all__ = ["OpenedPlace", "open_place"]


@dataclass(frozen=True)
class OpenedPlace:
    """The place of a namespace.

    Attributes:
        path: The folder of all namespaces; of a database, this host's folder for what is derived from it.
        folder: The folder of this namespace.
        journal: The journal, where it is in a database.
        shown: The place in words.
        logged: The place as warnings have it, which are given once an hour for each.
        remove: Removes the folder of a memory for this process alone; None for any other.
    """

    path: Path
    folder: Path
    journal: Journal | None
    shown: str
    logged: str
    remove: Callable[[], object] | None = None


@contextmanager
def open_place(owner: object, path: str | Path | None, namespace: str, create: bool) -> Iterator[OpenedPlace]:
    """Open the place of a namespace for `owner`; without a `path`, one for as long as the owner lives.

    What was made for it is removed again where the block fails.
    """
    if is_address(path):
        with open_shared_journal(str(path), namespace, create) as (folder, journal):
            yield OpenedPlace(folder, folder, journal, journal.location, journal.location)
        return
    is_private, remove = path is None, None
    if path is None:
        path, remove = private_folder(owner)
    path = to_path("path", path)
    with cleanup_on_failure(path, namespace, remove):
        folder = namespace_folder(path, namespace, create)
        if is_private:
            yield OpenedPlace(path, folder, None, "in this process", new_log_key(), remove)
        else:
            yield OpenedPlace(path, folder, None, f"{path} namespace={namespace!r}", f"{path} {namespace}")

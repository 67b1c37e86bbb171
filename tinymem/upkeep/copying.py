"""A copy of a namespace that may only be read, since opening a memory writes to its folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tinymem.archive.folders import MARKER, folder_name, namespace_folder
from tinymem.errors import StorageError
from tinymem.stores.files import make_private_folder
from tinymem.stores.journals import copy_journal, journal_files

__all__ = ["copy_namespace", "is_read_only"]


def is_read_only(path: Path, namespace: str) -> bool:
    """Return True if the folder of a namespace is there, and may be read but not written."""
    folder = path / folder_name(namespace)
    return folder.is_dir() and not all(
        os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        for place in (folder, *(file for file in journal_files(folder) if file.exists()))
    )


def copy_namespace(path: Path, namespace: str, to: Path) -> None:
    """Copy the journal of a namespace to the memory in the new folder `to`, as it is at one moment.

    What is derived from the journal is not copied.

    Raises:
        StorageError: It cannot be read, or not be copied.
    """
    folder = namespace_folder(path, namespace, create=False)
    try:
        for place in (to, to / folder.name):
            make_private_folder(place)
        shutil.copyfile(path / MARKER, to / MARKER)
        copy_journal(folder, to / folder.name)
    except OSError as error:
        raise StorageError(
            f"{folder} may only be read, and cannot be copied to {to}: {error.strerror or error}"
        ) from error

"""A copy of a namespace that may only be read, since opening a memory writes to its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from tinymem.archive.folders import MARKER, namespace_folder
from tinymem.errors import StorageError
from tinymem.stores.files import make_private_folder
from tinymem.stores.journals import copy_journal

__all__ = ["copy_namespace"]


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

"""The folders of a memory: one with a marker, and in it a folder for each namespace.

A namespace is opened by its exact name only. Its folder's name is the name escaped to ASCII, so that no name leads out
of the memory and none is changed by Unicode normalisation. Its journal keeps the name itself, so that a file system
that takes `Ann` for `ann`, a link, or a renamed folder cannot open one namespace under the name of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from urllib.parse import quote, unquote

from tinymem.errors import InputError, NotAMemoryError, StorageError, undo_on_failure
from tinymem.protocols import Journal
from tinymem.steps.checks import to_path
from tinymem.stores.files import make_private_file, make_private_folder, warn_if_open
from tinymem.stores.journals import has_journal, is_address, open_journal, open_shared, shared_names

__all__ = [
    "INDEX",
    "MARKER",
    "NAMESPACE",
    "check_name",
    "folder_name",
    "namespace_folder",
    "namespaces",
    "open_namespace_journal",
    "open_shared_journal",
    "to_place",
]  # fmt: skip

NAMESPACE = "namespace"  # the name of the namespace that the journal belongs to
MARKER = "tinymem.json"  # marks a folder as a memory
LONGEST = 200  # characters of a folder's name, escapes included
INDEX = "index"  # the folder of the vector store, inside a namespace's folder


def namespace_folder(path: Path, namespace: str, create: bool) -> Path:
    """Return the folder of a namespace, made if `create`; `path` must be a memory, or not exist yet."""
    name = folder_name(namespace)
    folder, marker = path / name, path / MARKER
    try:
        _check_memory(path, marker)
        if create:
            make_private_folder(path)
            if make_private_file(marker):
                marker.write_text('{"format": 1}\n', "utf-8")  # the journal, too, has a format, which is checked
            make_private_folder(folder)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path} cannot be used: {reason}; choose a folder that can be written") from error
    if not has_journal(folder) and not create:
        raise NotAMemoryError(f"there is no memory at {path} with namespace {namespace!r}")
    warn_if_open(folder)
    return folder


@contextmanager
def open_shared_journal(address: str, namespace: str, create: bool) -> Iterator[tuple[Path, Journal]]:
    """Open the journal of a namespace in a database, and make the folder for what this host derives from it.

    The journal is closed if the block fails.
    """
    folder_name(namespace)
    journal, folder = open_shared(address, namespace, create)
    with undo_on_failure(journal.close):
        try:
            make_private_folder(folder)
        except OSError as error:
            advice = "set the variable TINYMEM_CACHE to a folder that can be written"
            raise StorageError(f"{folder} cannot be made: {error.strerror}; {advice}") from error
        yield folder, journal


def open_namespace_journal(place: str | Path, namespace: str, create: bool = False) -> tuple[Path, Journal]:
    """Open the journal of a namespace, in a folder or a database; return it after the folder of what is derived."""
    if is_address(place):
        with open_shared_journal(str(place), namespace, create) as opened:
            return opened
    folder = namespace_folder(Path(place), namespace, create)
    return folder, open_journal(folder, create)


def to_place(value: str | PathLike[str]) -> str | Path:
    """Check the place of a memory: a folder, or the address of a database as it is."""
    return value if isinstance(value, str) and is_address(value) else to_path("path", value)


def namespaces(path: str | Path) -> list[str]:
    """Return the namespaces of the memory at `path`, sorted; none if nothing is there yet.

    Of a database, only those are returned that its user may use.

    Raises:
        NotAMemoryError: The path holds something else.
        StorageError: The path cannot be read, or the server not be reached.

    >>> import tempfile
    >>> namespaces(tempfile.mkdtemp())
    []
    """
    path = to_place(path)
    if isinstance(path, str):
        return shared_names(path)
    try:
        _check_memory(path, path / MARKER)
        names = [folder.name for folder in path.iterdir() if has_journal(folder)] if path.exists() else []
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{path} cannot be read: {reason}; choose a folder that can be") from error
    return sorted(unquote(name) for name in names if _is_folder_name(name))


def check_name(journal: Journal, namespace: str) -> None:
    """Raise StorageError unless the journal belongs to this namespace; a new journal gets the name."""
    if (kept := journal.setting(NAMESPACE)) is None:
        journal.keep({NAMESPACE: namespace}, replace=False)
        kept = journal.setting(NAMESPACE)
    if kept != namespace:
        raise StorageError(
            f"{journal.location} belongs to another namespace than {namespace!r}: a namespace is opened by its exact "
            "name, and its folder cannot be renamed, copied or linked"
        )


def folder_name(namespace: str) -> str:
    """Return the name of a namespace's folder; InputError if the namespace cannot have one."""
    if not namespace or not isinstance(namespace, str):
        raise InputError(f"namespace must be a string that is not empty, not {namespace!r:.80}")
    try:
        name = quote(namespace, safe=" ").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise InputError(f"namespace must be text that can be encoded, not {namespace!r:.80}") from error
    if len(name) > LONGEST:
        raise InputError(f"namespace is too long for a folder's name: {namespace[:40]!r}…")
    return name


def _is_folder_name(name: str) -> bool:
    try:
        return folder_name(unquote(name)) == name
    except InputError:
        return False


def _check_memory(path: Path, marker: Path) -> None:
    # The marker is checked last, since another process may be creating this memory right now.
    if path.exists() and (not path.is_dir() or any(path.iterdir())) and not marker.exists():
        raise NotAMemoryError(f"{path} exists and is not a tinymem memory: choose an empty or a new folder")

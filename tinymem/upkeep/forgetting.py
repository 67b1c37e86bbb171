"""Choice of the steps to forget, by ids and filters, and removal of whole namespaces."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tinymem.archive.archive import Archive
from tinymem.archive.folders import MARKER, check_name, folder_name, namespace_folder, to_place
from tinymem.errors import InputError, NotAMemoryError, StorageError, TinymemError, describe_type, safe_repr
from tinymem.messages.recognition import hash_of, name_hash
from tinymem.steps.checks import check_str
from tinymem.stores.filter import Filter
from tinymem.stores.journals import (
    check_unused,
    erase_shared,
    has_journal,
    has_steps,
    journal_files,
    open_journal,
    open_shared,
)

__all__ = [
    "cleanup_on_failure",
    "find_number",
    "forget_namespace",
    "repeated_by",
    "select_steps",
    "sessions_repeated_by",
]

MOST = 1 << 62  # above every number
NO_LIMITS = Filter()
_NUMBER = re.compile("[0-9]{1,18}")  # a step's number as text
MOST_REPEATED = 64  # steps of other sessions
AT_ONCE = 500  # steps that are read to see which tools they call


def select_steps(archive: Archive, ids: Sequence[str | int], only: Filter) -> list[int]:
    """Return the numbers of the steps with these ids or numbers, and of those that match all filters, if there is any.

    Raises:
        InputError: There is no step with one of the ids.
    """
    for id in ids:
        if not isinstance(id, (str, int)):
            raise InputError(f"ids must be ids or numbers of steps, not {describe_type(id)}")
    named = {id: find_number(archive, id) for id in ids}
    known = archive.journal.steps([*named.values()])
    missing = [id for id, number in named.items() if number not in known]
    if missing:
        raise InputError(f"ids: there is no step {', '.join(map(safe_repr, missing[:3]))}: nothing is forgotten")
    found = archive.journal.matching(only) if only != NO_LIMITS else []
    if only.tool is not None:  # steps that wait for their passages have their tools nowhere else
        found = [*_accepted(archive, found, Filter(tool=only.tool))]
    return sorted({*found, *named.values()})


def _accepted(archive: Archive, numbers: Sequence[int], only: Filter) -> Iterator[int]:
    """Yield the numbers of the steps that a filter accepts, which are read for it."""
    for start in range(0, len(numbers), AT_ONCE):
        for number, step in archive.fetch(numbers[start : start + AT_ONCE]).items():
            if only.accepts(step):
                yield number


def sessions_repeated_by(archive: Archive, session: str) -> list[str]:
    """Return the names of the sessions that hold what a session repeats, as one that was resumed or forked does."""
    rows = archive.journal.messages.find([repeated_by(session)], MOST_REPEATED)
    steps = archive.fetch([row.step for row in rows]).values()
    names = {step.session for step in steps}
    return sorted(name for name in names if name is not None and name != session)


def repeated_by(session: str) -> str:
    """Return the hash by which steps of other sessions are kept that a session repeats."""
    return hash_of(f"repeats {name_hash(session)}")


def find_number(archive: Archive, id: str | int) -> int:
    """Return the number of the step with an id, a number, or a number as text; -1 if there is none."""
    if isinstance(id, str):
        id = id.removeprefix("#")
    if isinstance(id, int):
        return id if not isinstance(id, bool) and 0 <= id < MOST else -1
    name = check_str("id", id)
    by_number = int(name) if _NUMBER.fullmatch(name) else -1
    return archive.journal.numbers([name]).get(name, by_number)


def forget_namespace(path: str | Path, namespace: str) -> None:
    """Remove a namespace of the memory at `path` for good, with its folder; other namespaces are unchanged.

    Raises:
        NotAMemoryError: There is no such memory or namespace.
        StorageError: It is open somewhere, or a file cannot be removed; a second call continues.
    """
    place = to_place(path)
    if isinstance(place, str):
        erase_shared(place, namespace)
        return
    folder = namespace_folder(place, namespace, create=False)
    _check_owner(folder, namespace)
    check_unused(folder)
    try:
        for child in {*folder.iterdir()} - journal_files(folder):
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        for file in journal_files(folder):  # removed last, since a second call needs it to remove the rest
            file.unlink()
        folder.rmdir()
    except OSError as error:
        raise StorageError(f"{folder} cannot be removed: {error.strerror or error}; try again") from error


def _check_owner(folder: Path, namespace: str) -> None:
    """Raise StorageError if a folder is another namespace's, as where a file system takes one name for another."""
    try:
        journal = open_journal(folder, create=False)
    except StorageError:  # damaged, so that nothing says whose it is
        return
    with closing(journal):
        check_name(journal, namespace)


@contextmanager
def cleanup_on_failure(path: str | Path, namespace: str, also: Callable[[], object] | None = None) -> Iterator[None]:
    """Remove a new namespace, with its folders and files, if the block fails, and then call `also`."""
    is_new = _is_used(path, namespace) is None
    missing = [] if isinstance(path, str) else _missing(path, path / folder_name(namespace))
    try:
        yield
    except BaseException:
        with suppress(OSError, ValueError, TinymemError):  # another process has it open, or put something there
            if is_new and _is_used(path, namespace) is False:
                forget_namespace(path, namespace)
            for place in filter(Path.exists, missing):
                if place.is_dir():
                    place.rmdir()
                elif [*place.parent.iterdir()] == [place]:
                    place.unlink()
        if also is not None:
            also()
        raise


def _is_used(path: str | Path, namespace: str) -> bool | None:
    """Return whether a namespace holds a step, or may hold one, or did so in a database; None where there is none."""
    if isinstance(path, Path):
        folder = path / folder_name(namespace)
        try:
            return has_steps(folder) if has_journal(folder) else None
        except OSError:  # the folder cannot be read
            return True
    try:
        with closing(open_shared(path, namespace, create=False)[0]) as journal:
            return journal.next_number() > 1
    except NotAMemoryError:
        return None


def _missing(path: Path, folder: Path) -> list[Path]:
    """Return what a new namespace's `folder` in a memory needs and is not there, what is inside first."""
    try:
        return [place for place in (folder, path / MARKER, path, *path.parents) if not place.exists()]
    except OSError:
        return []

"""Copies of memories at another place: in a folder, or in a database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tinymem.archive.folders import NAMESPACE, namespaces, open_namespace_journal, to_place
from tinymem.archive.rows import FENCE_KEY
from tinymem.errors import InputError, NotAMemoryError
from tinymem.protocols import Journal
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME
from tinymem.steps.checks import check_callable
from tinymem.steps.progress import Progress, no_progress
from tinymem.upkeep.exporting import lines_of
from tinymem.upkeep.forgetting import cleanup_on_failure
from tinymem.upkeep.importing import write_lines

__all__ = ["Migrated", "migrate"]

KEPT_SETTINGS = (FENCE_KEY, EMBEDDER, EMBEDDER_NAME, NAMESPACE)  # that an export has not


@dataclass(frozen=True)
class Migrated:
    """A namespace that is now in both places, and the number of its steps."""

    namespace: str
    steps: int


def migrate(
    source: str | Path, target: str | Path, *, namespace: str | None = None, progress: Progress | None = None
) -> list[Migrated]:
    """Copy a memory from a folder to a database, from a database to a folder, or between two of a kind.

    The copy is made of the lines of an export, while the source may be in use, so its passages are embedded when it is
    opened. The source stays as it is, and the copy has its key, so contexts are the same there. A namespace is copied
    in one transaction: whole or, after an interruption, not at all. Then the same call goes on with the namespaces that
    are not there yet.

    Args:
        source: A folder, or the address of a database.
        target: Another one; the tables of a database are made if there are none.
        namespace: The namespace to copy; all of them unless given.
        progress: Called with the number of steps that are copied, and of all.

    Returns:
        What was copied. A namespace that was there already, the same, is among them.

    Raises:
        NotAMemoryError: There is no such memory.
        InputError: A namespace of that name is in use at the target: it has held a step.
        StorageError: A place cannot be read or written.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder, other = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The staging server is at 10.0.0.7."))
    >>> [(copied.namespace, copied.steps) for copied in migrate(folder, other)]
    [('default', 1)]
    """
    origin = to_place(source)
    place = to_place(target)
    if origin == place:
        raise InputError("source and target must be two places")
    advance = check_callable("progress", progress) or no_progress
    names = [namespace] if namespace is not None else namespaces(origin)
    if not names:
        raise NotAMemoryError("there is no memory at the source")
    return [_copied(origin, place, name, advance) for name in names]


def _copied(source: str | Path, target: str | Path, namespace: str, progress: Progress) -> Migrated:
    with (
        closing(open_namespace_journal(source, namespace)[1]) as original,
        cleanup_on_failure(target, namespace),
        closing(open_namespace_journal(target, namespace, create=True)[1]) as copy,
    ):
        if _identity(copy) != _identity(original):
            with original.reading() as reader, copy.together():
                write_lines(copy, enumerate(lines_of(reader), 1), original.location, progress)
                copy.keep({name: text for name in KEPT_SETTINGS if (text := reader.setting(name))})
        steps = copy.counts()["steps"]
    progress(steps, steps)
    return Migrated(namespace, steps)


def _identity(journal: Journal) -> tuple[str | None, int, int]:
    """Return what two journals have in common only where one is a copy of the other, and neither was changed since."""
    return journal.setting(FENCE_KEY), journal.next_number(), journal.counts()["steps"]

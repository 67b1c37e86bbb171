"""The doctor, which checks the files of a memory, and the rebuilding of its index from the journal."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tinymem.archive.folders import INDEX, namespace_folder, open_namespace_journal, to_place
from tinymem.archive.indexing.index import Index
from tinymem.archive.indexing.process import EndedError, can_start, process
from tinymem.errors import ReadOnlyError, StorageError
from tinymem.recall.files.notes import renew_notes
from tinymem.registry import DEFAULT_STORE, check_store_spec, is_in_memory
from tinymem.steps.checks import check_callable, check_str
from tinymem.steps.progress import Progress, no_progress
from tinymem.stores.journals import open_journal
from tinymem.upkeep.examination.findings import REBUILD, Diagnosis, Finding
from tinymem.upkeep.examination.index import find_faults
from tinymem.upkeep.examination.journal import examine, texts_of

__all__ = ["doctor", "rebuild"]

LONGEST = 600.0  # seconds for reading the index


def doctor(
    path: str | Path,
    namespace: str = "default",
    *,
    store: str = DEFAULT_STORE,
    timeout: float = LONGEST,
) -> Diagnosis:
    """Check the files of a memory: the journal, its full-text index, and the index in `store`.

    The whole journal is read. Nothing is repaired, and no embedder is needed. The memory may be in use, but an index
    that another process holds is a finding, too.

    Args:
        path: The memory's folder, or its address in a database.
        namespace: The namespace that is checked.
        store: The name of the store that the memory is opened with.
        timeout: The seconds after which the check of the index ends. It is read in another process, since a damaged one
            can end the process that reads it, or never answer.

    Returns:
        The findings, none if the memory is sound, and counts of the items that were checked.

    Raises:
        NotAMemoryError: There is no such memory.
        InputError: There is no such store.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder = tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The ladder is behind the shed."))
    >>> diagnosis = doctor(folder)
    >>> diagnosis.sound, diagnosis.counts["steps"]
    (True, 1)
    """
    check_store_spec(check_str("store", store))
    place = to_place(path)
    if isinstance(place, str):
        _, journal = open_namespace_journal(place, namespace)
        counts, findings = examine(lambda: journal)
        return Diagnosis(tuple(findings), counts)
    folder = namespace_folder(place, namespace, create=False)
    counts, findings = examine(lambda: open_journal(folder, create=False), folder / INDEX)
    if "in_index" in counts:
        findings += _of_index(folder, store, timeout)
    return Diagnosis(tuple(findings), counts)


def rebuild(
    path: str | Path, namespace: str = "default", *, store: str = DEFAULT_STORE, progress: Progress | None = None
) -> int:
    """Make the index of a memory again from the vectors in its journal. Nothing is embedded.

    The old index is deleted unread. A full-text index that is damaged or of an earlier version is made again, too. A
    memory from which no step has left the window has no index, and gets none; nor does one in a database. A store in
    memory has nothing to rebuild.

    Args:
        path: The memory's folder, or its address in a database.
        namespace: The namespace whose index is made.
        store: The name of the store that the memory is opened with.
        progress: Called with the number of vectors that are in the new index, and of all.

    Returns:
        The number of vectors in the new index.

    Raises:
        NotAMemoryError: There is no such memory.
        InputError: There is no such store.
        StorageError: Another process holds the index, or the store fails.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder = tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The ladder is behind the shed."))
    >>> rebuild(folder)
    0
    """
    check_store_spec(check_str("store", store))
    advance = check_callable("progress", progress) or no_progress
    place = to_place(path)
    folder, journal = open_namespace_journal(place, namespace)
    with closing(journal):
        if journal.is_read_only:
            raise ReadOnlyError(journal.location)
        journal.maintenance.renew_terms(texts_of)
        renew_notes(journal)
        if isinstance(place, str) or not journal.any_archived() or is_in_memory(store):
            return 0
        index = Index(journal, folder / INDEX, store)
        index.renew(advance)
        index.close()
        return journal.passages_until(index.notes.passage)


def _of_index(folder: Path, store: str, timeout: float) -> list[Finding]:
    """Return the findings about the index from another process, or a finding that this process failed."""
    if not can_start():
        return find_faults(folder, store)
    process.end()  # it may have the index open
    try:
        found: list[Finding] = process.ask(timeout, find_faults, folder, store)
    except TimeoutError:
        return [Finding(f"the index did not answer within {timeout:g} seconds", REBUILD)]
    except EndedError:
        return [Finding("reading the index crashed the process", REBUILD)]
    except StorageError as error:
        return [Finding(f"reading the index failed: {error}", REBUILD)]
    finally:
        process.end()
    return found

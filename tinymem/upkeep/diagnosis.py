"""The doctor of a memory, which counts and checks, and the rebuilding of all that is derived from its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinymem.archive.folders import INDEX, open_namespace_journal, to_place
from tinymem.archive.indexing.child import Child, can_start
from tinymem.archive.indexing.index import LET_GO, Index
from tinymem.archive.indexing.mirror import BATCH, hold_folder, read_notes, vectors_of
from tinymem.archive.rows import fence_key, has_archived, shown_step, stored_dimensions, uncut
from tinymem.errors import FormatError, NotAMemoryError, ReadOnlyError, StorageError, TakenError, TinymemError
from tinymem.protocols import Journal, Vectors, VectorStore
from tinymem.protocols.settings import EMBEDDER
from tinymem.recall.passages import passages_of
from tinymem.recall.snapshot import Snapshot
from tinymem.registry import DEFAULT_STORE, check_store_spec, is_in_memory, store_from
from tinymem.steps.checks import check_callable, check_str
from tinymem.steps.progress import Progress, no_progress
from tinymem.stores.journals import RECOVERY, open_journal
from tinymem.upkeep.exporting import rows_of

__all__ = ["Diagnosis", "Finding", "doctor", "rebuild"]

RESTORE = f"keep a copy of the folder, then restore it from a backup or import an export; without either, {RECOVERY}"
REBUILD = "make again what is derived from the steps: tinymem rebuild"
FLUSH = f"open the memory and flush it, which goes on where it stopped, or {REBUILD}"
AGAIN = "put that right, and run tinymem doctor again"
LONGEST = 600.0  # seconds for reading the index
ALL = 1 << 62  # above every number
SAMPLE = 50  # passages that the index is asked for, the oldest
MOST_LOST = 2  # of them that an approximate index may not find
NEAREST = 20  # vectors that are asked for, of which one must be as near as this
TWIN = 0.999  # a cosine: vectors are kept in half precision, and another passage may have the same words


@dataclass(frozen=True)
class Finding:
    """A fault, and the advice about it."""

    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.problem} -> {self.advice}"


@dataclass(frozen=True)
class Diagnosis:
    """The `findings` about a memory, and the `counts` of the items that were checked.

    The counts are steps, passages that are embedded, terms (passages in the full-text index), dimensions, and in_index
    (passages that the index should hold).

    >>> Diagnosis().sound
    True
    """

    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """True if nothing was found."""
        return not self.findings


def doctor(
    path: str | Path,
    namespace: str = "default",
    *,
    store: str = DEFAULT_STORE,
    timeout: float = LONGEST,
) -> Diagnosis:
    """Check the files of a memory: the journal, its full-text index, and where it is sound, the index in `store`.

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
    place, counts, findings = to_place(path), dict[str, int](), list[Finding]()
    try:
        folder, journal = open_namespace_journal(place, namespace)
        with closing(journal), journal.snapshot():
            findings += _examine(journal, counts)
            if isinstance(place, Path) and has_archived(journal) and not journal.is_read_only:  # stores write
                counts["in_index"] = journal.passages_until(read_notes(folder / INDEX).passage)
    except NotAMemoryError:
        raise
    except StorageError as error:
        findings.append(Finding(str(error), RESTORE if isinstance(error, FormatError) else AGAIN))
    if not findings and "in_index" in counts and not is_in_memory(store):
        findings += [Finding(*each) for each in _examine_index(folder, store, timeout)]
    return Diagnosis(tuple(findings), counts)


def rebuild(
    path: str | Path, namespace: str = "default", *, store: str = DEFAULT_STORE, progress: Progress | None = None
) -> int:
    """Make again what is derived from a memory's steps: where it is damaged, and the index of vectors in any case.

    The old index is deleted unread, and filled from the vectors in the journal. Nothing is embedded, and no step is
    changed. Where passages, their words or vectors do not fit the steps, all of them go, and are made when the memory
    is next opened.
    A memory from which no step has left the window has no index, and gets none; nor does one in a database. A store in
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
        FormatError: A step cannot be read; nothing was changed.
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
        with journal.snapshot():
            unread, fits = _examine_steps(journal)
            fault = journal.maintenance.check_terms().fault
        if unread:
            raise journal.damaged(f"step {unread[0]} cannot be read")
        if fault or not fits:
            journal.maintenance.clear_passages()
        if isinstance(place, str) or not has_archived(journal) or is_in_memory(store):
            return 0
        with closing(Index(journal, folder / INDEX, store)) as index:
            index.renew(advance)
        return journal.passages_until(index.notes.passage)


# -- the journal ------------------------------------------------------------------------------------------------------


def _examine(journal: Journal, counts: dict[str, int]) -> Iterator[Finding]:
    """Yield what is wrong in a journal, and count what it has."""
    unread, fits = _examine_steps(journal)
    terms, fault = journal.maintenance.check_terms()
    found = journal.counts()
    size = stored_dimensions(journal) or 0
    counts.update(steps=found["steps"], passages=found["passages"], terms=terms, dimensions=size)
    faults = journal.maintenance.check_files()
    if journal.setting(EMBEDDER) is None:  # "": none could be reached yet
        faults.append("it is empty, or does not say which embedder its vectors are of")
    if unread:
        faults.append(f"{len(unread)} steps cannot be read, among them #{unread[0]}")
    if faults:
        yield Finding(f"the journal is damaged: {'; '.join(faults)}", RESTORE)
    if fault:
        yield Finding(f"the full-text index is damaged: {fault}", REBUILD)
    if not fits:
        yield Finding("passages or vectors do not fit the steps", REBUILD)


def _examine_steps(journal: Journal) -> tuple[list[int], bool]:
    """Return which steps cannot be read, and whether passages and vectors fit the others."""
    unread, fits = list[int](), _can_be_asked(journal)
    key, waiting = fence_key(journal), next((row.number for row in uncut(journal, 1)), ALL)
    for row in rows_of(journal):
        try:
            step = shown_step(journal, replace(row, view=None))
        except FormatError:
            unread.append(row.number)
            continue
        places = journal.passages(step=row.number)
        ends = dict(enumerate(len(part.text) for part in step.parts()))
        fits &= bool(places) or row.number >= waiting or not passages_of(step, key)
        fits &= all(0 <= place.start <= place.end <= ends.get(place.part, -1) for place in places)
    return unread, fits


def _can_be_asked(journal: Journal) -> bool:
    """Return whether a question can read all embedded passages."""
    snapshot = Snapshot(stored_dimensions(journal) or 0)
    try:
        while rows := journal.passages(snapshot.last_id):
            snapshot = snapshot.with_tail(rows)
    except (ValueError, TypeError, OverflowError):
        return False
    return len(snapshot) == journal.passages_until(ALL) and bool(np.isfinite(snapshot.vectors).all())


# -- the index, in another process, since a damaged one can end the one that reads it ---------------------------------


def _examine_index(folder: Path, store: str, timeout: float) -> Iterable[tuple[str, str]]:
    """Return what another process finds about the index, or that this process failed."""
    if not can_start():
        return compare(str(folder), store)
    child = Child(compare, folder, store)
    if child.runs(timeout):
        child.end(within=0.0)
        return [(f"the index did not answer within {timeout:g} seconds", REBUILD)]
    try:
        found: list[tuple[str, str]] = child.answer()
    except StorageError as error:  # as where the process has crashed
        return [(f"reading the index failed: {error}", REBUILD)]
    return found


def compare(folder: str, name: str) -> list[tuple[str, str]]:
    """Compare the store with this name, in the folder of a namespace, with a sound journal there; the findings."""
    index = Path(folder) / INDEX
    try:
        with (
            hold_folder(index, LET_GO),
            closing(open_journal(Path(folder), create=False, read_only=True)) as journal,
            closing(store_from(name, index)) as store,
        ):
            return [*_differences(journal, store, read_notes(index).passage)]
    except TinymemError as error:
        advice = AGAIN if isinstance(error, TakenError) else REBUILD
        return [(f"the index cannot be read: {error}", advice)]


def _differences(journal: Journal, store: VectorStore, last: int) -> Iterator[tuple[str, str]]:
    """Yield in what a store differs from the journal up to the `last` passage that it has got.

    It does so in numbers, and in vectors, of which some are asked for.
    """
    total, due, count = journal.passages_until(ALL), journal.passages_until(last), store.count()
    if total - due > BATCH:
        yield f"{total - due} passages are not in the index yet", FLUSH
    if not due <= count <= total:
        yield f"the index has {count} vectors, and should have {due}", REBUILD
    rows = [row for row in journal.passages(0, SAMPLE) if row.id <= last]
    lost = sum(not _is_found(store, vector) for vector in vectors_of(rows) if vector.any()) if rows else 0
    if lost > MOST_LOST:
        yield f"for {lost} of {len(rows)} passages the index has not the vectors of the journal", REBUILD


def _is_found(store: VectorStore, vector: Vectors) -> bool:
    _, cosines = store.query(vector / np.linalg.norm(vector), NEAREST)
    return bool((cosines >= TWIN).any())

"""Move of memories from a folder to a database, or back, verified; an interrupted one is continued."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tinymem.archive.folders import check_name, namespace_folder, namespaces, open_namespace_journal, to_place
from tinymem.archive.rows import labels_of, texts_of
from tinymem.errors import InputError, NotAMemoryError, StorageError
from tinymem.protocols import EmbeddedPassage, Journal, PassageRow
from tinymem.protocols.settings import (
    EMBEDDER,
    EMBEDDER_NAME,
    FENCE_KEY,
    MADE,
    MOVING,
    OPEN_CALLS,
    SCRATCHPAD,
)
from tinymem.recall.files.notes import renew_notes
from tinymem.steps.checks import check_callable
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.serialization import load_step
from tinymem.stores.journals import has_journal, is_address, journal_files, migrate_tables, open_journal
from tinymem.upkeep.exporting import lines_of

__all__ = ["Migrated", "migrate"]

STEPS, PASSAGES = 500, 1_000  # that are written at once


@dataclass(frozen=True)
class Migrated:
    """A namespace that is now in both places.

    `checksum` is the SHA-256 of its exported lines and vectors, which is the same in both.
    """

    namespace: str
    steps: int
    passages: int
    checksum: str


def migrate(
    source: str | Path, target: str | Path, *, namespace: str | None = None, progress: Progress | None = None
) -> list[Migrated]:
    """Copy a memory from a folder to a database, from a database to a folder, or between two of a kind.

    Nothing is embedded, and the source stays as it is. The copy has the source's keys, so contexts are the same there;
    an export of either has the same bytes. Until it is whole, the copy cannot be opened. After an interruption, the
    same call goes on where it stopped. Nobody should add to the source meanwhile: what comes after the beginning is not
    in the copy.

    Args:
        source: A folder, or the address of a database.
        target: Another one; the tables of a database are made if there are none.
        namespace: The namespace to copy; all of them unless given.
        progress: Called with the work done and in all: each step and passage counts twice, once copied and once
            compared.

    Returns:
        What was copied. A namespace that is there already, the same, is among them.

    Raises:
        NotAMemoryError: There is no such memory.
        InputError: A namespace of that name is in use at the target: it has held a step.
        StorageError: The copy differs from the source, as when the source lost steps between two calls.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder, other = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The staging server is at 10.0.0.7."))
    >>> [(one.namespace, one.steps) for one in migrate(folder, other)]
    [('default', 1)]
    """
    origin, place = to_place(source), to_place(target)
    if origin == place:
        raise InputError("source and target must be two places")
    advance = check_callable("progress", progress) or no_progress
    names = [namespace] if namespace is not None else namespaces(origin)
    if not names:
        raise NotAMemoryError("there is no memory at the source")
    made = [_migrated(origin, place, name, advance) for name in names]
    if is_address(place):  # a large namespace gets its index, where this user may make one; if not, recall says so
        with suppress(StorageError):
            migrate_tables(str(place))
    return made


def _migrated(source: str | Path, target: str | Path, namespace: str, progress: Progress) -> Migrated:
    with closing(open_namespace_journal(source, namespace)[1]) as original, original.reading() as held:
        check_name(held, namespace)
        with closing(_opened_target(target, namespace)) as made:
            copy = _Copy(held, made, progress)
            copy.begin(namespace)
            copy.add_steps()
            copy.add_passages()
            copy.add_rest()
            return Migrated(namespace, *copy.counts, copy.compared())


def _opened_target(place: str | Path, namespace: str) -> Journal:
    """Open the journal of the copy; a new one in a folder is there only once it is marked as not whole."""
    if isinstance(place, Path):
        folder = namespace_folder(place, namespace, create=True)
        if not has_journal(folder):
            with TemporaryDirectory(dir=folder, prefix="copy-") as making:
                with closing(open_journal(Path(making))) as journal:
                    journal.keep({MOVING: "1"})
                for file in journal_files(Path(making)):
                    file.replace(folder / file.name)
    return open_namespace_journal(place, namespace, create=True)[1]


class _Copy:
    """The copy of a journal that is being made in another one, which `progress` hears of."""

    def __init__(self, held: Journal, made: Journal, progress: Progress) -> None:
        self._held, self._made, self._progress = held, made, progress
        counts = held.counts()
        self.counts = counts["steps"], counts["passages"]
        self._done = 0

    def _advance(self, done: int) -> None:
        self._done += done
        self._progress(min(self._done, 2 * sum(self.counts)), 2 * sum(self.counts))

    def begin(self, namespace: str) -> None:
        """Mark the copy as one that is being made. Raises InputError if something else is there."""
        key, made = self._held.setting(FENCE_KEY), self._made
        with made.together():
            is_empty = made.next_number() == 1 and not (made.setting(SCRATCHPAD) or made.setting(OPEN_CALLS))
            if key is None or (made.setting(FENCE_KEY) != key and not is_empty):
                raise InputError(f"{made.location} is in use: forget that namespace first, or move it elsewhere")
            if made.setting(FENCE_KEY) != key:
                settings = {name: self._held.setting(name) for name in (FENCE_KEY, EMBEDDER, EMBEDDER_NAME)}
                made.keep({MOVING: "1", **{name: text for name, text in settings.items() if text}})
        check_name(made, namespace, is_moving=True)

    @property
    def _is_whole(self) -> bool:
        return not self._made.setting(MOVING)

    def add_steps(self) -> None:
        """Copy the steps that the copy lacks."""
        newest = self._made.newest(1)
        after = newest[0].number if newest else 0
        self._advance(self._made.counts()["steps"])
        while not self._is_whole and (rows := self._held.rows(after, STEPS)):
            self._made.add([replace(row, labels=labels_of(load_step(row.record))) for row in rows])
            after = rows[-1].number
            self._advance(len(rows))

    def add_passages(self) -> None:
        """Copy the passages that the copy lacks, with their vectors and terms."""
        if self._is_whole:
            return
        self._advance(self._made.counts()["passages"])
        for rows in self._batches(self._first_passage()):
            self._put(rows)
            self._advance(len(rows))

    def _first_passage(self) -> int:
        """Return the id of the last passage that the copy has, as the source numbers it; 0 if it has none."""
        for number in range(int(self._made.setting(MADE) or 1) - 1, 0, -1):
            if places := self._held.places(number):
                return places[-1].id
        return 0

    def _batches(self, after: int) -> Iterator[list[EmbeddedPassage]]:
        """Yield the passages behind one, with all those of a step together; those without vectors are the last."""
        batch: list[EmbeddedPassage] = []
        while rows := self._held.passages(after, PASSAGES) or self._held.without_vector(PASSAGES, after):
            after = rows[-1].id
            for _, group in groupby(rows, attrgetter("step")):
                some = list(group)
                if len(batch) >= PASSAGES and batch[-1].step != some[0].step:
                    yield batch
                    batch = []
                batch += some
        if batch:
            yield batch

    def _put(self, rows: list[EmbeddedPassage]) -> None:
        """Copy passages, which are all of their steps; steps in between have none."""
        made, texts = self._made, texts_of(self._held, rows)
        embedder = made.setting(EMBEDDER) or ""
        vectors = [np.frombuffer(row.vector, "<f2") for row in rows if row.vector]
        with made.together():
            if not made.put_passages(
                sorted({row.step for row in rows}), [(row.step, _passage(row, texts[row.id])) for row in rows]
            ):
                raise StorageError(f"{made.location}: another process writes there: run one of them at a time")
            ids = [row.id for row in made.without_vector(len(vectors))]
            made.put_vectors(ids, np.array(vectors, np.float32), embedder, embedder)

    def add_rest(self) -> None:
        """Copy messages, summaries and settings."""
        held, made, last = self._held, self._made, ("", 0)
        while not self._is_whole and (messages := held.messages(last)):
            made.put_messages(messages)
            last = messages[-1][:2]
        if not self._is_whole:
            made.put_summaries(held.summaries())
            made.keep({name: text for name in (OPEN_CALLS, SCRATCHPAD) if (text := held.setting(name)) is not None})
            made.go_on_from(held.next_number())
            renew_notes(made)

    def compared(self) -> str:
        """Return the checksum of both, and let the copy be opened. Raises StorageError if they differ."""
        sums = [_checksum(self._held, self._advance), _checksum(self._made, lambda done: None)]
        fault = self._made.check_terms().fault
        if sums[0] != sums[1] or fault:
            raise StorageError(
                f"{self._made.location} is not the same as {self._held.location}"
                f"{f' ({fault})' if fault else ''}: one of them was changed since; forget the copy, and copy again"
            )
        self._made.keep({MOVING: ""})
        return sums[0]


def _passage(row: EmbeddedPassage, text: str) -> PassageRow:
    return PassageRow(row.part, row.start, row.end, row.kind, row.asks, text, row.identifiers, row.tools)


def _checksum(journal: Journal, advance: Callable[[int], object]) -> str:
    """Return the SHA-256 of the exported lines, and of the passages with their vectors but without their ids."""
    total = sha256()
    with journal.snapshot():
        for line in lines_of(journal, (journal.counts()["steps"], len(journal.summaries()))):
            total.update(line.encode())
            advance(1)
        after = 0
        while rows := journal.passages(after):
            for row in rows:
                what = row.step, row.part, row.start, row.end, row.kind, bool(row.asks), row.tools
                total.update(repr(what).encode() + row.vector + row.identifiers)
            after = rows[-1].id
            advance(len(rows))
    return total.hexdigest()

"""Long-term memory: the journal, its vectors and an index, behind one class.

The journal is the truth. Vectors are made once and kept in it; the vector store can be rebuilt from them without
embedding again. The background thread fills it from the first pruned step on, and `flush` and `close` wait for that.
No question asks it: an exact search of the journal's own vectors is better, and fast.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tinymem.archive.embedding import EmbeddingQueue, checked_embedder
from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.index import Index
from tinymem.archive.indexing.indexing import Indexing
from tinymem.archive.rows import count_rewrites, step_of, texts_in
from tinymem.archive.snapshots import SnapshotFiles
from tinymem.archive.tracking import Tracking
from tinymem.errors import EmbedderMismatchError, StorageError, is_unwritable, undo_on_failure
from tinymem.messages.recognition import NATIVE
from tinymem.messages.tokens import Prices
from tinymem.protocols import ChangeTracker, Embedder, Journal, StepRow, TokenCounter, VectorStore
from tinymem.protocols.settings import EMBEDDER, UNSCRUBBED
from tinymem.recall.selection.corrections import newest_corrections
from tinymem.recall.selection.opened import OpenedSteps
from tinymem.recall.snapshot import Snapshot
from tinymem.steps.content import clean
from tinymem.steps.ids import utc_now
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step, dump_step
from tinymem.steps.types import CORRECTS, corrected_ids, is_milestone
from tinymem.stores.journals import open_journal

__all__ = ["LONGEST_LABEL", "Archive", "label_of", "row_of", "saying"]

logger = logging.getLogger(__name__)

LONGEST_LABEL = 1_000  # characters of a text in metadata that can be asked for
MANY = 1_000  # new passages from which on all are counted, which takes as long as the memory is large
ROWS = 2_000  # passages that are read at once
SCRUB_FAILED = (
    "the steps are deleted, but their text stays in the memory's files until it is opened again, or more is forgotten"
)


class Archive:
    """A namespace's long-term memory in `folder`: a journal, a queue of what is to be embedded, and an index.

    Without an `embedder`, the one that the memory remembers is used. A vector store, or the name of one, is filled by
    the index. A `journal` in a database takes the place of the one in the folder, which then holds nothing but what is
    derived from it. `changes` is a tracker, or its name.
    """

    def __init__(
        self,
        folder: Path,
        embedder: Embedder | None,
        store: str | VectorStore,
        counter: TokenCounter,
        *,
        create: bool = True,
        journal: Journal | None = None,
        changes: str | ChangeTracker | None = None,
    ) -> None:
        embedder = checked_embedder(folder, embedder, journal)
        self.folder, self.counter = folder, counter
        self.prices = Prices(counter, "auto", {NATIVE})  # of steps as they are sent
        self.journal = journal = journal or open_journal(folder, create)
        self.opened = OpenedSteps(counter, self.fetch)
        self._corrections: Mapping[int, int] | None = None  # until they are asked for
        self.files = SnapshotFiles(folder, journal)
        with undo_on_failure(journal.close):
            journal.maintenance.finish_scrub()  # which an earlier process could not
            self.tracking = Tracking(journal, changes)
            self.queue = EmbeddingQueue(journal, embedder, folder, self.tracking)
            self.index = Index(journal, folder / INDEX, store)
            self.indexing = Indexing(journal, self.queue, self.index, folder, self.write_files)
            self.key = self.queue.key
            snapshot = Snapshot(self.queue.dimensions)
            self._snapshot, self._waiting = snapshot, (snapshot, snapshot)  # the second with passages that wait
            self._version = -1  # of the journal, when a question last read it

    # -- in -----------------------------------------------------------------------------------------------------------

    def write(self, steps: Sequence[Step], window: bool, tokens: Sequence[int]) -> dict[str, int]:
        """Write numbered steps to the journal, all or none, in a transaction of the caller.

        Args:
            steps: The steps, with their numbers.
            window: Whether the window shows them.
            tokens: The tokens of each step.

        Returns:
            The position of each step, by its id: the tokens of all steps before it.
        """
        positions: dict[str, int] = {}
        rows, end = [], self.journal.end()
        for step, cost in zip(steps, tokens, strict=True):
            positions[step.id] = end
            rows.append(row_of(step, cost, end, window))
            end += cost
        self.journal.add(rows)
        if window:
            self.prices.note(steps, tokens)
        self.note_corrections(steps)
        self.indexing.note_call(sum(tokens))
        return positions

    def set_milestones(self, numbers: Sequence[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        self.journal.set_milestones(numbers, milestone)
        self.indexing.wake()

    def _texts(self, number: int) -> list[str]:
        """The texts of the passages that a step was cut into."""
        places = self.journal.passages(step=number)
        if places and (step := self.fetch([number]).get(number)):
            return texts_in(self.journal, step, places)
        return []  # nothing was made of it yet, or another process has forgotten it

    # -- out ----------------------------------------------------------------------------------------------------------

    def current(self, progress: Progress = no_progress) -> Snapshot:
        """Return the snapshot of all embedded passages, as the journal has them now. It never changes.

        While the embedder fails, passages that wait for it are included, without vectors. `progress` hears of passages
        that are read from the journal, after each batch.
        """
        with self.journal.snapshot():
            try:
                snapshot = self._follow_journal(progress)
            except (ValueError, TypeError, OverflowError) as error:  # a vector of another length, a text for a number
                raise self.journal.damaged(error) from error
        if self.files.is_due(self._snapshot):
            self.indexing.wake()
        return snapshot

    def write_files(self) -> None:
        """Write the files of the newest snapshot, where that is due, and go on with these. The background does it."""
        if not (self.queue.is_known and self.files.is_due(self._snapshot)):
            return
        with self.journal.snapshot():
            snapshot, embedder = self._snapshot, self.journal.setting(EMBEDDER) or ""
            self.queue.check_embedder()  # another process may have reindexed since a question read the snapshot
            snapshot.filed = len(snapshot)  # also where that fails, or it would be tried again and again
        written = self.files.write(snapshot, embedder)
        with self.journal.snapshot():  # a question may have gone on meanwhile
            if written is not None and self._snapshot.rewrites == written.rewrites:
                self._snapshot = written

    def rules(self) -> list[int]:
        """Return the numbers of the steps in which people gave rules."""
        snapshot = self.current()
        rules: list[int] = snapshot.step[snapshot.rule].tolist()
        return rules

    @property
    def corrections(self) -> Mapping[int, int]:
        """The number of the newest correction of each corrected step, as of when the catalog was read."""
        if self._corrections is None:
            self._corrections = newest_corrections(self.journal.corrections())
        return self._corrections

    def note_corrections(self, steps: Iterable[Step]) -> None:
        """Take in the corrections among steps that were just written, here or elsewhere."""
        if any(CORRECTS in step.metadata for step in steps):
            self._corrections = None

    def _follow_journal(self, progress: Progress) -> Snapshot:
        """Return the snapshot with what the journal has by now, in a transaction, or nothing of it would be one state.

        Raises:
            ValueError, TypeError, OverflowError: The journal is damaged.
        """
        rewrites = count_rewrites(self.journal)
        version = self.journal.version()
        if version != self._version:  # another process has written
            self.queue.check_embedder()
            self._version, self._corrections = version, None
        is_guess = self._snapshot.dimensions != self.queue.dimensions  # before the embedder could be reached
        if rewrites != self._snapshot.rewrites or is_guess:
            self._begin_again(rewrites)
        self._snapshot = self._with_new(self._snapshot, progress)
        return self._with_waiting(self._snapshot) if self.queue.is_failing else self._snapshot

    def _begin_again(self, rewrites: int) -> None:
        """Begin with the files of another state of the journal, if there are any, and drop what was read before."""
        self.opened.clear()
        self._corrections = None
        found, dimensions = None, self.queue.dimensions
        if self.queue.is_known and not self.queue.is_failing:
            found = self.files.load(rewrites, self.journal.setting(EMBEDDER) or "", dimensions)
        if found is None:
            found = Snapshot(dimensions)
            found.filed = self._snapshot.filed  # who opens the memory next writes it, not everybody who forgets
        found.rewrites = rewrites
        self._snapshot = found

    def _with_new(self, snapshot: Snapshot, progress: Progress) -> Snapshot:
        """Return the snapshot with the passages that came since."""
        total = 0
        while rows := self.journal.passages(snapshot.last_id):
            if not total and len(rows) >= MANY:
                total = self.journal.counts()["passages"]
            snapshot = snapshot.with_tail(rows, room=total)
            progress(len(snapshot), total or len(snapshot))
        return snapshot

    def _with_waiting(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the passages that wait for the embedder, too, without vectors."""
        nothing = bytes(2 * snapshot.dimensions)
        before, longer = self._waiting
        if before is not snapshot:
            longer = snapshot
        while rows := self.journal.passages(longer.last_id, ROWS, lacking=self.journal.setting(EMBEDDER) or ""):
            longer = longer.with_tail([row._replace(vector=nothing) for row in rows])
        self._waiting = snapshot, longer
        return longer

    def is_current(self, snapshot: Snapshot) -> bool:
        """Return whether nothing was forgotten, or marked, since a question began."""
        return count_rewrites(self.journal) == snapshot.rewrites

    def has_words(self, words: str) -> bool:
        """Return whether a passage has one of these words."""
        return bool(len(self.journal.search_text(words).ids))

    def fetch(self, numbers: Sequence[int]) -> dict[int, Step]:
        """Return the steps with these numbers."""
        return {n: self.load(record) for n, record in self.journal.steps(numbers).items()}

    def load(self, record: str) -> Step:
        """Return the step of a record in the journal; FormatError if the record is damaged."""
        return step_of(self.journal, record)

    # -- away ---------------------------------------------------------------------------------------------------------

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete steps from the journal, in a transaction of the caller, so that nobody makes passages of them.

        Behind it the caller drops copies, and calls `purge` or leaves that to the background. The journal notes what is
        still in its files, so that a crash in between leaves nothing for long.
        """
        if not self.journal.delete({number: self._texts(number) for number in numbers}):
            raise self.journal.damaged("passages and steps do not match")
        self._corrections = None

    def drop_copies(self) -> None:
        """Drop what was made of deleted steps, in this process and in files."""
        self.opened.clear()
        with saying("the steps are deleted, but what was made of them may still be here"):
            self.files.erase()

    def purge(self) -> None:
        """Leave nothing of what was deleted in the journal's files, nor its vectors in those of the index.

        This may take long, and waits for the process that writes the index, so the memory's lock is free meanwhile.
        """
        self.scrub()
        with saying(
            "the steps are deleted, but the index still has their vectors, and loses them when it is next filled"
        ):
            self.index.forget()
        self.indexing.wake()

    def scrub(self) -> None:
        """Leave nothing in the journal's files of what was deleted."""
        if self.journal.setting(UNSCRUBBED):
            self.index.let_go()  # whose process may be reading
            with saying(SCRUB_FAILED):
                self.journal.maintenance.scrub()

    def close(self) -> None:
        """Embed and index what is left, unless the embedder or the store fails, and release the files."""
        try:
            self.indexing.finish()
        except StorageError as error:  # what opens it with the other embedder, or more space, embeds them
            if not isinstance(error, EmbedderMismatchError) and not is_unwritable(error):
                raise
            logger.warning("closing without embedding the newest steps: %s", error)
        finally:
            self.index.close()
            self.journal.close()


@contextmanager
def saying(done: str) -> Iterator[None]:
    """Raise a StorageError of the block again, behind what is done by now, and what is not."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{done}: {error}") from error


# -- steps as rows -----------------------------------------------------------------------------------------------------


def row_of(step: Step, tokens: int, position: int, window: bool) -> StepRow:
    """Return the row of a numbered step; its `position` is the number of tokens before it."""
    assert step.step_number is not None
    session, speaker = (None if name is None else clean(name) for name in (step.session, step.speaker))
    place = (step.step_number, step.id, step.type, session, speaker, step.timestamp.timestamp(), tokens, position)
    left = None if window else utc_now().timestamp()
    return StepRow(*place, dump_step(step), window, None, is_milestone(step), left, _labels_of(step))


def _labels_of(step: Step) -> list[tuple[str, str]]:
    """Return the metadata of a step that filters may ask for: values that are neither long nor made of others."""
    if not step.metadata:
        return []
    values = [(clean(name), value) for name, value in step.metadata.items() if name != CORRECTS]
    values += [(CORRECTS, id) for id in corrected_ids(step)]
    return [*dict.fromkeys((name, label) for name, value in values if (label := label_of(value)) is not None)]


def label_of(value: object) -> str | None:
    """Return a value as filters compare it; None for one that they cannot."""
    if not isinstance(value, (str, int, float)) or (isinstance(value, str) and len(value) > LONGEST_LABEL):
        return None
    return clean(json.dumps(value, ensure_ascii=False))

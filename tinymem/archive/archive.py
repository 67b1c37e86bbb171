"""Long-term memory: the journal, its vectors and an index, behind one class.

The journal is the truth. Vectors are made once and kept in it; the vector store can be rebuilt from them without
embedding again. The background thread fills it from the first pruned step on, and `flush` and `close` wait for that. A
search asks it only above EXACT_UP_TO passages: up to there, an exact search of the journal's own vectors is faster and
better. Passages that the store lacks are searched exactly.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinymem.archive.catalog.files import CATALOG, CatalogFiles, OutdatedError
from tinymem.archive.embedding import EmbeddingQueue, checked_embedder
from tinymem.archive.folders import INDEX
from tinymem.archive.indexing.index import EXACT_UP_TO, Index
from tinymem.archive.indexing.indexing import Indexing
from tinymem.archive.rows import row_of, step_of
from tinymem.archive.window_rows import read_calls
from tinymem.errors import EmbedderMismatchError, StorageError, is_unwritable
from tinymem.messages.recognition import NATIVE
from tinymem.messages.tokens import Prices
from tinymem.protocols import Embedder, Journal, Slicing, TokenCounter, VectorStore
from tinymem.protocols.settings import FORGOTTEN, OPEN_CALLS, REWRITES, UNSCRUBBED
from tinymem.recall.candidates import Candidates, gather
from tinymem.recall.catalog import Catalog
from tinymem.recall.corrections import newest_corrections
from tinymem.recall.files.changes import Changes
from tinymem.recall.files.notes import NoteTaker
from tinymem.recall.opened import OpenedSteps
from tinymem.recall.passages import slices
from tinymem.recall.query.analysis import Query
from tinymem.recall.slices import Outline, gather_slice
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step
from tinymem.steps.types import corrected_ids
from tinymem.stores.filter import Filter
from tinymem.stores.journals import open_journal
from tinymem.stores.locks import release_when_interrupted

__all__ = ["Archive"]

logger = logging.getLogger(__name__)

IN_SLICES = 20_000  # passages from which on a journal that finds candidates by itself does
IN_MEMORY = 2_000  # passages up to which the catalog is read into memory, and has no files


class Archive:
    """A namespace's long-term memory in `folder`: a journal, a queue of what is to be embedded, and an index.

    Without an `embedder`, the one that the memory remembers is used. `open_store` makes the vector store when it is
    first needed. With `reopens` it makes another one each time, so that an idle store can be closed meanwhile. A store
    that is `in_memory` has no files. A `journal` in a database takes the place of the one in the folder, which
    then holds nothing but what is derived from it.
    """

    def __init__(
        self,
        folder: Path,
        embedder: Embedder | None,
        open_store: Callable[[], VectorStore],
        counter: TokenCounter,
        *,
        create: bool = True,
        exact_up_to: int = EXACT_UP_TO,
        reopens: bool = False,
        in_memory: bool = False,
        journal: Journal | None = None,
    ) -> None:
        embedder = checked_embedder(folder, embedder, journal)
        self.folder, self.counter, self.is_shared = folder, counter, journal is not None
        self.prices = Prices(counter, "auto", {NATIVE})  # of steps as they are sent
        self.journal = journal or open_journal(folder, create)
        self._catalog: Catalog | None = None
        self._rewrites: str | None = None  # the number of the journal's rewrites that the catalog has followed
        self._is_mapped, self.opened, self.changes = False, OpenedSteps(counter), Changes(self.journal)
        self._corrections: Mapping[int, int] | None = None  # until they are asked for
        self.tree: str | Path | None = None  # a folder with the files that recalls are compared with
        self._files = CatalogFiles(folder / CATALOG)
        try:
            self.queue = EmbeddingQueue(self.journal, embedder, folder)
            self.index = Index(
                self.journal,
                folder / INDEX,
                open_store,
                reopens=reopens,
                in_memory=in_memory,
                exact_up_to=sys.maxsize if self.is_shared else exact_up_to,  # or this process would hold all vectors
            )
            self.indexing = Indexing(self.journal, self.queue, self.index, folder)
            self.key = self.queue.key
            self._seen = self.journal.version()
            self._drop_catalog()
        except BaseException:
            self.journal.close()
            raise

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
        rows, taker = [], NoteTaker(self._find_call)
        end = self.journal.end()
        for step, cost in zip(steps, tokens, strict=True):
            positions[step.id] = end
            rows.append(row_of(step, cost, end, window, taker.notes_of(step)))
            end += cost
        self.journal.add(rows)
        self.note_corrections(steps)
        self.indexing.note_call(sum(tokens))
        return positions

    def _find_call(self, id: str) -> ToolCall | None:
        """Return the open call with an id; None if there is none."""
        number = read_calls(self.journal, self.journal.setting(OPEN_CALLS) or "{}", ()).get(id, 0)
        step = self.fetch([number]).get(number)
        calls = step.tool_calls if isinstance(step, ActionStep) else ()
        return next((call for call in calls if call.id == id), None)

    def set_milestones(self, numbers: Sequence[int], milestone: bool) -> None:
        """Mark these steps as milestones, or remove the mark."""
        with self.journal.together():
            self.journal.set_milestones(numbers, milestone)
            self.index.outdate([place.id for number in numbers for place in self.journal.places(number)])
        self._files.set_milestones(self.journal, numbers, milestone)
        self._drop_catalog()
        self.indexing.wake()

    def _texts(self, number: int) -> list[str]:
        """The texts of the passages that a step was cut into."""
        places = self.journal.places(number)
        if places and (step := self.fetch([number]).get(number)):
            with self.checking_parts():
                return slices(step, ((place.part, place.start, place.end) for place in places))
        return []  # nothing was made of it yet, or another process has forgotten it

    # -- out ----------------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The arrays over all embedded passages, as the journal has them now.

        While the embedder fails, passages that wait for it are included, without vectors.
        """
        return self.read_catalog()

    def read_catalog(self, progress: Progress = no_progress) -> Catalog:
        """Return the catalog, and report while its files are made: of a large memory that is opened here first."""
        for use_files in (True, True, True, False):
            with self.journal.snapshot(), suppress(OutdatedError):
                return self._follow_journal(use_files, progress)
        raise AssertionError("no file is used at last, so nothing can be out of date")

    @property
    def corrections(self) -> Mapping[int, int]:
        """The number of the newest correction of each corrected step, as of when the catalog was read."""
        if self._corrections is None:
            self._corrections = newest_corrections(self.journal.corrections())
        return self._corrections

    def note_corrections(self, steps: Iterable[Step]) -> None:
        """Take in the corrections among steps that were just written, here or elsewhere."""
        if any(map(corrected_ids, steps)):
            self._corrections = None

    def holds(self, catalog: Catalog) -> bool:
        """Return whether the catalog is the one that this process uses."""
        return self._catalog is catalog

    @property
    def rewrites(self) -> str | None:
        """The count of what was forgotten or marked before the catalog was read; after another, it is out of date."""
        return self._rewrites

    def _follow_journal(self, use_files: bool, progress: Progress) -> Catalog:
        """Return the catalog as the snapshot of the journal has it. Raises OutdatedError where its files cannot."""
        # Within one snapshot, or another process might reindex the journal halfway through.
        if (version := self.journal.version()) != self._seen:  # another process has written
            self.queue.check_embedder()
            self._seen, self._corrections = version, None
            if self.journal.setting(REWRITES) != self._rewrites:
                self.index.reconsider()
                self._drop_catalog()
        if self._catalog is None or self._is_provisional(self._catalog):
            self._drop_catalog()
        if (outline := self._outline()) is not None:
            self._catalog, self._is_mapped = outline, False
            return outline
        try:
            if use_files and (mapped := self._map_catalog(progress)) is not None:
                self._catalog, self._is_mapped = mapped, True
                return mapped
            catalog, self._catalog = self._catalog, None  # half an extension, which is interrupted, is never read
            if catalog is None or self._is_mapped or isinstance(catalog, Outline):
                catalog, self._is_mapped = Catalog(self.queue.dimensions), False
            while not self.queue.waiting and (rows := self.journal.passages(catalog.last_id)):
                catalog.extend(rows)
            if self.queue.is_failing:
                self.queue.extend_by_waiting(catalog)
            self._catalog = catalog
        except (ValueError, TypeError, OverflowError) as error:  # a vector of another length, a text for a number
            raise self.journal.damaged(error) from error
        return catalog

    def _outline(self) -> Outline | None:
        """Return the outline of a large memory whose journal finds candidates by itself; None for any other."""
        if not isinstance(self.journal, Slicing) or self.queue.is_failing or self.queue.waiting:
            return None
        if (survey := self.journal.survey(IN_SLICES)) is None:
            return None
        if self._files.exist:  # of when it was smaller
            self._files.erase()
        return Outline(survey, self.queue.dimensions)

    def slice(
        self, query: Query, outline: Outline, only: Filter, hidden: Collection[int]
    ) -> tuple[Catalog, Candidates]:
        """Return the part of a large memory that has the candidates, and these."""
        assert isinstance(self.journal, Slicing)
        try:
            return gather_slice(self.journal, query, outline, only, hidden)
        except (ValueError, TypeError, OverflowError) as error:  # as when all are read
            raise self.journal.damaged(error) from error

    def _map_catalog(self, progress: Progress) -> Catalog | None:
        """Return the catalog from its files; None where it must be read into memory.

        That is while it is small, and while the embedder fails, since passages that wait for it are in no file.
        """
        if not self.queue.is_known or self.queue.is_failing or self.queue.waiting:
            return None
        if not self._files.exist and self.journal.last_passage() <= IN_MEMORY:
            return None
        return self._files.catalog(self.journal, self.queue.dimensions, progress)

    def _is_provisional(self, catalog: Catalog) -> bool:
        """Return whether waiting passages of the catalog were embedded, or it was made without the embedder."""
        came = self.queue.waiting and self.queue.waiting.since != self.journal.mark
        guessed = catalog.dimensions != self.queue.dimensions  # before the embedder could be reached
        return bool(came) or guessed

    def _drop_catalog(self) -> None:
        """Discard the catalog, so that it is read again, since the passages or vectors in it have changed."""
        self._catalog, self._rewrites, self._corrections = None, None, None
        self.queue.drop_waiting()
        self.opened.clear()
        self.changes = Changes(self.journal)
        self._rewrites = self.journal.setting(REWRITES)

    def has_words(self, words: str) -> bool:
        """Return whether a passage has one of these words."""
        return bool(len(self.journal.search_text(words, self.queue.waiting)[0]))

    def fetch(self, numbers: Sequence[int]) -> dict[int, Step]:
        """Return the steps with these numbers."""
        return {n: self.load(record) for n, record in self.journal.steps(numbers).items()}

    def load(self, record: str) -> Step:
        """Return the step of a record in the journal; FormatError if the record is damaged."""
        return step_of(self.journal, record)

    @contextmanager
    def checking_parts(self) -> Iterator[None]:
        """Raise FormatError where a passage names a part that its step does not have."""
        try:
            yield
        except IndexError as error:
            raise self.journal.damaged(f"a passage names a part that its step does not have ({error})") from error

    def candidates(self, query: Query, catalog: Catalog, allowed: npt.NDArray[np.bool_]) -> Candidates:
        """Return the passages worth a close look among the `allowed` rows of the catalog.

        They come from the index where the rows are many and the index works, else from an exact search.
        """
        found = self._gather(query, catalog, allowed)
        if not query.names or not found.unseen:
            return found
        names = self.journal.search_text(" ".join(query.names), self.queue.waiting)
        return replace(found, is_strange=names.unseen > 0)

    def _gather(self, query: Query, catalog: Catalog, allowed: npt.NDArray[np.bool_]) -> Candidates:
        among = None if allowed.all() else catalog.id[allowed]
        lexical = self.journal.search_text(query.topic, self.queue.waiting, among)
        if np.count_nonzero(allowed) > self.index.exact_up_to and not self.index.rests:
            self.indexing.wake()
            with self.index.resting_after_failure(), self.index.asking(catalog) as nearest:
                found = gather(query, catalog, lexical, allowed, nearest)
                self.queue.check_embedder()  # another process may have reindexed, and filled the index again
                return found
        return gather(query, catalog, lexical, allowed, None)

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove steps for good: texts, vectors and terms, from the journal and from the index's files."""
        self.delete(numbers)
        self.purge()

    def delete(self, numbers: Sequence[int], instead: Callable[[], object] | None = None) -> None:
        """Remove steps from the journal, as `forget` does; `purge` removes their vectors from the index.

        With `instead`, which writes in the same transaction what takes their place, the background scrubs the journal
        in a quiet moment.
        """
        # The journal notes what its deletion leaves in the index, so that a crash in between leaves no vector for long.
        try:
            before: object = None
            while not self._delete(numbers, instead):
                before = self.queue.changed_since(before)  # somebody has just made passages of these steps
        except BaseException as error:
            is_deleted = False
            with suppress(StorageError):  # this error says more
                is_deleted = not self.journal.steps(numbers)
                self._drop_catalog()
                self._files.forget(self.journal, numbers)
            if is_deleted and isinstance(error, StorageError) and "deleted" not in str(error):
                raise StorageError(
                    f"the steps are deleted, but their text may still be in the files: {error}"
                ) from error
            raise
        try:
            self._drop_catalog()
            self._files.forget(self.journal, numbers)
        except StorageError as error:
            raise StorageError(
                f"the steps are deleted, but what was made of them may still be here: {error}"
            ) from error

    def purge(self) -> None:
        """Remove the vectors of deleted steps from the index's files, and what was left of them in the journal's.

        This may take long, and waits for the thread or process that writes the index, so the memory's lock is free
        meanwhile.
        """
        if self.journal.setting(UNSCRUBBED):
            self.journal.scrub("the steps are deleted", "their text stays")
        try:
            with release_when_interrupted():
                self.index.forget()
        except StorageError as error:
            raise StorageError(
                f"the steps are deleted, but the index still has their vectors, and loses them when it is next filled: "
                f"{error}"
            ) from error
        self.indexing.wake()

    def _delete(self, numbers: Sequence[int], instead: Callable[[], object] | None) -> bool:
        passages = {number: self._texts(number) for number in numbers}
        if instead is None:
            return self.journal.delete(passages)
        with self.journal.together():
            replaced = [place.id for number in numbers for place in self.journal.places(number)]
            forgotten = self.journal.setting(FORGOTTEN) or ""
            if not self.journal.delete(passages):
                return False
            self.journal.keep({FORGOTTEN: forgotten})
            self.index.outdate(replaced)
            instead()
        return True

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

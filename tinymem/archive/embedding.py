"""The embedding half of an archive: it cuts new steps into passages, embeds them, and analyses questions.

While the embedder fails, the memory works without it and catches up later. New steps wait in the journal; their
passages are made in memory, without vectors, so that they are found by their words. A failing embedder is left alone
for a while, so that not every call waits for its time-out.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from tinymem.archive.remembered import remembered_embedder, remembered_name
from tinymem.embedders.resting import Rest
from tinymem.errors import (
    EmbedderError,
    EmbedderMismatchError,
    StorageError,
    TinymemError,
    is_full,
    is_out_of_reach,
    warn_hourly,
    without_content,
)
from tinymem.protocols import EmbeddedPassage, Embedder, Journal, Mark, PassageRow, Vectors, Waiting
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME, REWRITES
from tinymem.recall.catalog import Catalog
from tinymem.recall.passages import passages_of
from tinymem.recall.query.analysis import Blind, Query, analyse, embedded
from tinymem.recall.slices import Outline
from tinymem.registry import DEFAULT_EMBEDDER
from tinymem.steps.step import Step
from tinymem.steps.terminal import many
from tinymem.stores.interrupts import release_when_interrupted
from tinymem.stores.journals import has_journal

__all__ = ["BATCH", "Embedding"]

logger = logging.getLogger(__name__)

BATCH = 256  # passages that are embedded at once
STEPS = 16  # steps that are read at once to be cut into passages
TURN = 5.0  # seconds in which another host may embed what waits, before this one does it too
SLOW = 1.0  # seconds; after a failure that took longer, questions do not try the embedder either

Batch = list[tuple[int, PassageRow]]  # passages with the numbers of their steps


class Embedding(ABC):
    """The part of an archive that uses its embedder."""

    folder: Path
    embedder: Embedder
    journal: Journal
    key: bytes
    _waiting: Waiting | None = None
    _is_full = False  # what is embedded cannot be written

    @abstractmethod
    def load(self, record: str) -> Step:
        """Return the step of a record in the journal."""

    # -- choosing and checking the embedder ---------------------------------------------------------------------------

    def _ready(self, embedder: Embedder | None, journal: Journal | None) -> None:
        """Raise EmbedderError before a memory is created, unless its embedder works, or is only out of reach."""
        self._given, self._embedding = embedder, threading.RLock()
        if not has_journal(self.folder) if journal is None else journal.setting(EMBEDDER) is None:
            self._given = remembered_embedder(DEFAULT_EMBEDDER) if embedder is None else embedder
            try:
                _fingerprint(self._given)
            except EmbedderError as error:
                if not is_out_of_reach(error):
                    raise

    def _take_up(self) -> None:
        """Take the embedder that was given, or that the memory remembers.

        A memory opens with an embedder that fails if it is of the same kind as the one that it was written with, and a
        new one with an embedder that is out of reach. Its fingerprint is compared, or noted, as soon as it works.
        """
        self._is_remembered = self._given is None
        name = remembered_name(self.journal)
        self.embedder = remembered_embedder(name) if self._given is None else self._given
        self._questions, self._documents = Rest(), Rest()
        stored, begun = self.journal.setting(EMBEDDER), time.monotonic()
        try:
            self._fingerprint, self._is_known = _fingerprint(self.embedder), True
        except EmbedderError as error:
            is_same = self.embedder.name.partition(":")[0] == name.partition(":")[0]
            if not (is_same if stored else is_out_of_reach(error)):
                raise
            self._fingerprint, self._is_known = stored or "", False
            for rest in (self._questions, self._documents):
                rest.begin(error, time.monotonic() - begun)
            self._warn()

    def check_embedder(self) -> None:
        """Raise EmbedderMismatchError if the journal's vectors are by now those of another embedder."""
        self._check(self._fingerprint)

    def _check(self, fingerprint: str) -> None:
        if not fingerprint or (stored := self.journal.setting(EMBEDDER) or "") == fingerprint:
            return
        with self.journal.together():
            if stored := self.journal.setting(EMBEDDER) or "":
                raise EmbedderMismatchError(stored, fingerprint, self.embedder.name, self._is_remembered)
            if self.journal.last_passage():
                raise self.journal.damaged("it is not said which embedder the vectors are of")
            self.journal.keep({EMBEDDER: fingerprint, EMBEDDER_NAME: self.embedder.name})  # the first that works

    def _make_sure(self) -> None:
        """Check the fingerprint of an embedder that could not be reached when the memory was opened."""
        if not self._is_known:
            with self._documents.trying():
                fingerprint = _fingerprint(self.embedder)
                self._check(fingerprint)
            self._fingerprint, self._is_known = fingerprint, True

    @property
    def _dimensions(self) -> int:
        return self.embedder.dimensions if self._is_known else self.journal.dimensions() or 1

    # -- steps in -----------------------------------------------------------------------------------------------------

    def embed_pending(
        self, at_least: int = 1, advance: Callable[[int], object] = lambda step: None, once: bool = False
    ) -> int:
        """Make the passages, terms and vectors of new steps, in batches.

        Args:
            at_least: Do nothing while the new steps have fewer tokens.
            advance: Called after each batch with the number of the last step that is done.
            once: Stop after one batch, or more if the last step is longer.

        Returns:
            The number of passages.

        Raises:
            EmbedderError: The embedder fails; `catch_up` does not raise this.
        """
        if self.journal.waiting_tokens() < at_least:
            return 0
        turn = self.journal.turn(0 if once else TURN)  # or one of them would work in vain
        with self._embedding, release_when_interrupted(), turn as is_ours:
            if self.journal.waiting_tokens() < at_least or (once and not is_ours):  # another one has done it, or does
                return 0
            return self._embed_pending(advance, once)

    def _embed_pending(self, advance: Callable[[int], object], once: bool) -> int:
        done, before = 0, None
        self._make_sure()
        mark: Mark | None = None
        while mark is None:
            mark = self.journal.mark
            self.check_embedder()
            for until, passages in self._new_passages(mark):
                vectors = self._vectors([passage.text for _, passage in passages])
                if not self.journal.put_passages(mark, until, passages, vectors, self._fingerprint):
                    mark, before = None, self._changed_since(before)  # another process was faster
                    break
                mark, done = until, done + len(passages)
                advance(mark.step)
                if once and not mark.passages:  # a step is cut into all its passages at once
                    return done
        return done

    def catch_up(self, at_least: int = 1, once: bool = False) -> None:
        """Call `embed_pending` unless it rests; if the embedder fails or the disk is full, warn, and let steps wait."""
        if self._documents.is_on:
            return
        problem = self.trouble
        try:
            self._make_sure()
            self.embed_pending(at_least, once=once)
        except EmbedderError as error:
            self._is_full = False
            if self._documents.took >= SLOW:  # a question would wait as long
                self._questions.begin(error, self._documents.took)
            self._warn()
        except StorageError as error:
            if not is_full(error):
                raise
            self._documents.begin(error, 0.0)
            self._is_full = True
            self._warn()
        else:
            if problem and not self.trouble:
                logger.info("the embedder %s works again, and nothing waits for it", self.embedder.name)

    def _changed_since(self, before: object) -> object:
        """Return the state of the journal; FormatError if it is still `before`, since trying again would not help."""
        state = self.journal.version(), self.journal.setting(REWRITES), self.journal.mark
        if state == before:
            raise self.journal.damaged("passages and steps do not match")
        return state

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, self.embedder.dimensions), np.float32)
        with self._documents.trying():
            made = embedded(self.embedder, texts)
        if self._questions.problem:  # it can be reached again
            self._questions.end()
        return made

    def _new_passages(self, mark: Mark) -> Iterator[tuple[Mark, Batch]]:
        """Yield the passages from `mark` on in batches, each with the mark after it.

        Those of a step are in one batch if they fit.
        """
        batch: Batch = []
        following = mark.step
        while rows := self.journal.rows(following - 1, STEPS):
            for row in rows:
                made = mark.passages if row.number == mark.step else 0
                passages = passages_of(self.load(row.record), self.key)[made:]
                if batch and len(batch) + len(passages) > BATCH:
                    yield Mark(row.number, 0), batch
                    batch = []
                for at, passage in enumerate(passages, made):
                    if len(batch) == BATCH:
                        yield Mark(row.number, at), batch
                        batch = []
                    batch.append((row.number, passage))
                following = row.number + 1
        if following > mark.step:
            yield Mark(following, 0), batch

    # -- while the embedder fails -------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """The embedder's failure and its consequences; "" if it works."""
        waiting = self.journal.counts()["waiting_steps"] if self._questions.problem or self._documents.problem else 0
        if not (self._questions.problem or (self._documents.problem and waiting)):
            return ""
        message = "what is new cannot be written" if self._is_full else "the embedder fails"
        message += ", so words alone must do" if self._questions.problem else ""
        waits = f"; {many(waiting, 'step')} {'waits' if waiting == 1 else 'wait'} to be embedded" if waiting else ""
        return f"{message}{waits}: {self._questions.problem or self._documents.problem}"

    def _warn(self) -> None:
        hint = " (its name is what the memory remembers; embedder= can give another)" if self._is_remembered else ""
        message = "%s%s; the memory goes on without vectors, and catches up once it works"
        warn_hourly(logger, self.folder, message, self.trouble, hint)

    def _extend_by_waiting(self, catalog: Catalog) -> None:
        """Append the passages of waiting steps to the catalog, without vectors."""
        if not self._waiting:
            self._waiting = self.journal.begin_waiting()
        nothing = np.zeros(catalog.dimensions, "<f2").tobytes()
        for until, batch in self._new_passages(self._waiting.until):
            texts = [passage.text for _, passage in batch]
            ids = self.journal.wait(self._waiting, until, texts)
            if not batch:
                continue
            first, last = batch[0][0], batch[-1][0]
            steps = {row.number: row for row in self.journal.rows(first - 1, last - first + 1)}
            rows = []
            for id, (number, p) in zip(ids, batch, strict=True):
                step = steps[number]
                place = (id, number, p.part, p.start, p.end, p.kind, p.asks, nothing)
                who = (step.type, step.session, step.speaker, step.time)
                rows.append(EmbeddedPassage(*place, *who, p.identifiers, p.tools, step.milestone))
            catalog.extend(rows)

    # -- questions ----------------------------------------------------------------------------------------------------

    def question(self, text: str, catalog: Catalog, now: datetime) -> Callable[[], Query]:
        """Return the analysis of a question. It embeds, and the catalog may change meanwhile.

        If the embedder fails, it logs a warning and uses vectors of zeros.
        """
        if isinstance(catalog, Outline):
            known = now, catalog.survey.since, catalog.survey.until, catalog.survey.speakers
        else:
            since, until = (catalog.time.min(), catalog.time.max()) if len(catalog) else (0, 0)
            known = now, since, until, [*catalog.speakers.names]
        blind = Blind(catalog.dimensions)

        def analysed() -> Query:
            if self._is_known and not self._questions.is_on:
                try:
                    with self._questions.trying():
                        return analyse(text, self.embedder, *known)
                except EmbedderError:
                    self._warn()
            return analyse(text, blind, *known)

        return analysed


def _fingerprint(embedder: Embedder) -> str:
    """Return the fingerprint of an embedder; any failure becomes an EmbedderError."""
    try:
        return embedder.fingerprint
    except TinymemError:
        raise
    except Exception as error:
        raise EmbedderError(f"{embedder.name} failed: {without_content(error)}") from error

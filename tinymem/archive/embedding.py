"""The embedder of an archive and its queue: new steps are cut into passages and embedded, and questions analysed.

While the embedder fails, the memory works without it and catches up later. New steps wait in the journal; their
passages are made in memory, without vectors, so that they are found by their words. A failing embedder is left alone
for a while, so that not every call waits for its time-out.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from tinymem.archive.remembered import remembered_embedder, remembered_name
from tinymem.archive.rows import KEY_BYTES, fence_key, step_of
from tinymem.embedders.resting import Backoff
from tinymem.errors import (
    EmbedderError,
    EmbedderMismatchError,
    StorageError,
    TinymemError,
    is_out_of_reach,
    is_unwritable,
    safe_summary,
    warn_hourly,
)
from tinymem.protocols import EmbeddedPassage, Embedder, Journal, Mark, PassageRow, Vectors, Waiting
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME, FENCE_KEY, REWRITES, WATERMARK
from tinymem.recall.passages import passages_of
from tinymem.recall.query.analysis import Blind, Query, analyse, embed_texts
from tinymem.recall.slices import Outline
from tinymem.recall.snapshot import Snapshot
from tinymem.registry import DEFAULT_EMBEDDER
from tinymem.steps.terminal import pluralize
from tinymem.stores.journals import has_journal
from tinymem.stores.locks import release_when_interrupted

__all__ = ["BATCH", "EmbeddingQueue", "checked_embedder"]

logger = logging.getLogger(__name__)

BATCH = 256  # passages that are embedded at once
STEPS = 16  # steps that are read at once to be cut into passages
TURN = 5.0  # seconds in which another host may embed what waits, before this one does it too
SLOW = 1.0  # seconds; after a failure that took longer, questions do not try the embedder either

Batch = list[tuple[int, PassageRow]]  # passages with the numbers of their steps


def checked_embedder(folder: Path, embedder: Embedder | None, journal: Journal | None) -> Embedder | None:
    """Raise EmbedderError before a memory is created, unless its embedder works, or is only out of reach.

    Returns:
        The embedder that was given; for a new memory the default one where none was.
    """
    is_new = not has_journal(folder) if journal is None else journal.setting(EMBEDDER) is None
    if not is_new:
        return embedder
    embedder = remembered_embedder(DEFAULT_EMBEDDER) if embedder is None else embedder
    try:
        _fingerprint(embedder)
    except EmbedderError as error:
        if not is_out_of_reach(error):
            raise
    return embedder


class EmbeddingQueue:
    """The embedder of a memory, and the steps in its journal that wait to be embedded.

    A memory opens with an embedder that fails if it is of the same kind as the one that it was written with, and a new
    one with an embedder that is out of reach. Its fingerprint is compared, or noted, as soon as it works.

    Args:
        journal: The journal, in which a new memory gets its first settings.
        embedder: The embedder; None for the one that the memory remembers.
        folder: The memory's folder, which warnings name.
    """

    def __init__(self, journal: Journal, embedder: Embedder | None, folder: Path) -> None:
        self._journal, self._folder = journal, folder
        self.lock = threading.RLock()  # of who embeds
        self.waiting: Waiting | None = None  # passages of waiting steps that are searched without vectors
        self._is_unwritable = False  # what is embedded cannot be written
        self._is_remembered = embedder is None
        name = remembered_name(journal)
        self.embedder = remembered_embedder(name) if embedder is None else embedder
        self._questions, self._documents = Backoff(), Backoff()
        stored, begun = journal.setting(EMBEDDER), time.monotonic()
        try:
            self._fingerprint, self.is_known = _fingerprint(self.embedder), True
        except EmbedderError as error:
            is_same = self.embedder.name.partition(":")[0] == name.partition(":")[0]
            if not (is_same if stored else is_out_of_reach(error)):
                raise
            self._fingerprint, self.is_known = stored or "", False
            for rest in (self._questions, self._documents):
                rest.begin(error, time.monotonic() - begun)
            self._warn()
        if stored is None:  # of two processes that create a memory at once, the first decides
            settings = {EMBEDDER: self._fingerprint, FENCE_KEY: secrets.token_hex(KEY_BYTES), WATERMARK: "0"}
            journal.keep({**settings, EMBEDDER_NAME: self.embedder.name}, replace=False)
        self.check_embedder()
        self.key = fence_key(journal)

    # -- the embedder -------------------------------------------------------------------------------------------------

    def check_embedder(self) -> None:
        """Raise EmbedderMismatchError if the journal's vectors are by now those of another embedder."""
        self._check(self._fingerprint)

    def _check(self, fingerprint: str) -> None:
        if not fingerprint or (stored := self._journal.setting(EMBEDDER) or "") == fingerprint:
            return
        with self._journal.together():
            if stored := self._journal.setting(EMBEDDER) or "":
                raise EmbedderMismatchError(stored, fingerprint, self.embedder.name, self._is_remembered)
            if self._journal.last_passage():
                raise self._journal.damaged("it is not said which embedder the vectors are of")
            self._journal.keep({EMBEDDER: fingerprint, EMBEDDER_NAME: self.embedder.name})  # the first that works

    def _verify_fingerprint(self) -> None:
        """Check the fingerprint of an embedder that could not be reached when the memory was opened."""
        if not self.is_known:
            with self._documents.trying():
                fingerprint = _fingerprint(self.embedder)
                self._check(fingerprint)
            self._fingerprint, self.is_known = fingerprint, True

    @property
    def dimensions(self) -> int:
        """The dimensions of the vectors, of those in the journal while the embedder cannot be reached."""
        return self.embedder.dimensions if self.is_known else self._journal.dimensions() or 1

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
        if self._journal.waiting_tokens() < at_least:
            return 0
        turn = self._journal.turn(0 if once else TURN)  # or one of them would work in vain
        with self.lock, release_when_interrupted(), turn as is_ours:
            if self._journal.waiting_tokens() < at_least or (once and not is_ours):  # another one has done it, or does
                return 0
            return self._embed_pending(advance, once)

    def _embed_pending(self, advance: Callable[[int], object], once: bool) -> int:
        done, before = 0, None
        self._verify_fingerprint()
        mark: Mark | None = None
        while mark is None:
            mark = self._journal.mark
            self.check_embedder()
            for until, passages in self._new_passages(mark):
                vectors = self._embed([passage.text for _, passage in passages])
                if not self._journal.put_passages(mark, until, passages, vectors, self._fingerprint):
                    mark, before = None, self.changed_since(before)  # another process was faster
                    break
                mark, done = until, done + len(passages)
                advance(mark.step)
                if once and not mark.passages:  # a step is cut into all its passages at once
                    return done
        return done

    def catch_up(self, at_least: int = 1, once: bool = False) -> None:
        """Call `embed_pending` unless it rests; if it fails or nothing can be written, warn, and let steps wait."""
        if self.rests:
            return
        problem = self.trouble
        try:
            self._verify_fingerprint()
            self.embed_pending(at_least, once=once)
        except EmbedderError as error:
            self._is_unwritable = False
            if self._documents.took >= SLOW:  # a question would wait as long
                self._questions.begin(error, self._documents.took)
            self._warn()
        except StorageError as error:
            if not is_unwritable(error):
                raise
            self._documents.begin(error, 0.0)
            self._is_unwritable = True
            self._warn()
        else:
            if problem and not self.trouble:
                logger.info("the embedder %s works again, and nothing waits for it", self.embedder.name)

    def changed_since(self, before: object) -> object:
        """Return the state of the journal; FormatError if it is still `before`, since trying again would not help."""
        state = self._journal.version(), self._journal.setting(REWRITES), self._journal.mark
        if state == before:
            raise self._journal.damaged("passages and steps do not match")
        return state

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        if not texts:
            return np.empty((0, self.embedder.dimensions), np.float32)
        with self._documents.trying():
            made = embed_texts(self.embedder, texts)
        if self._questions.problem:  # it can be reached again
            self._questions.end()
        return made

    def _new_passages(self, mark: Mark) -> Iterator[tuple[Mark, Batch]]:
        """Yield the passages from `mark` on in batches, each with the mark after it.

        Those of a step are in one batch if they fit.
        """
        batch: Batch = []
        following = mark.step
        while rows := self._journal.rows(following - 1, STEPS):
            for row in rows:
                made = mark.passages if row.number == mark.step else 0
                passages = passages_of(step_of(self._journal, row.record), self.key)[made:]
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
    def rests(self) -> bool:
        """True while the embedder is left alone after a failure."""
        return self._documents.is_on

    @property
    def is_failing(self) -> bool:
        """True if documents could not be embedded when that was last tried, so that catalogs have waiting passages."""
        return bool(self._documents.problem)

    @property
    def trouble(self) -> str:
        """The embedder's failure and its consequences; "" if it works."""
        waiting = self._journal.counts()["waiting_steps"] if self._questions.problem or self._documents.problem else 0
        if not (self._questions.problem or (self._documents.problem and waiting)):
            return ""
        message = "what is new cannot be written" if self._is_unwritable else "the embedder fails"
        message += ", so words alone must do" if self._questions.problem else ""
        waits = (
            f"; {pluralize(waiting, 'step')} {'waits' if waiting == 1 else 'wait'} to be embedded" if waiting else ""
        )
        return f"{message}{waits}: {self._questions.problem or self._documents.problem}"

    def _warn(self) -> None:
        is_known_by_name = self._is_remembered and not self._is_unwritable
        hint = " (its name is what the memory remembers; embedder= can give another)" if is_known_by_name else ""
        message = "%s%s; the memory goes on without vectors, and catches up once it works"
        warn_hourly(logger, self._folder, message, self.trouble, hint)

    def with_waiting(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot that has the passages of waiting steps, too, without vectors."""
        if not self.waiting:
            self.waiting = self._journal.begin_waiting()
        nothing = np.zeros(snapshot.dimensions, "<f2").tobytes()
        for until, batch in self._new_passages(self.waiting.until):
            texts = [passage.text for _, passage in batch]
            ids = self._journal.wait(self.waiting, until, texts)
            if not batch:
                continue
            first, last = batch[0][0], batch[-1][0]
            steps = {row.number: row for row in self._journal.rows(first - 1, last - first + 1)}
            rows = []
            for id, (number, p) in zip(ids, batch, strict=True):
                step = steps[number]
                place = (id, number, p.part, p.start, p.end, p.kind, p.asks, nothing)
                who = (step.type, step.session, step.speaker, step.time)
                rows.append(EmbeddedPassage(*place, *who, p.identifiers, p.tools, step.milestone))
            snapshot = snapshot.with_tail(rows)
        return snapshot

    def drop_waiting(self) -> None:
        """Forget the passages of waiting steps, so that they are made again where a catalog needs them."""
        self.waiting = None

    # -- questions ----------------------------------------------------------------------------------------------------

    def question(self, text: str, catalog: Snapshot, now: datetime) -> Query:
        """Return the analysis of a question. If the embedder fails, it logs a warning and uses vectors of zeros."""
        if isinstance(catalog, Outline):
            known = now, catalog.survey.since, catalog.survey.until, catalog.survey.speakers
        else:
            times = catalog.time
            since, until = (times.min(), times.max()) if len(times) else (0, 0)
            known = now, since, until, [*catalog.speakers]
        is_usable = self.is_known and self.embedder.dimensions == catalog.dimensions
        if is_usable and not self._questions.is_on:
            try:
                with self._questions.trying():
                    return analyse(text, self.embedder, *known)
            except EmbedderError:
                self._warn()
        return analyse(text, Blind(catalog.dimensions), *known)


def _fingerprint(embedder: Embedder) -> str:
    """Return the fingerprint of an embedder; any failure becomes an EmbedderError."""
    try:
        return embedder.fingerprint
    except TinymemError:
        raise
    except Exception as error:
        raise EmbedderError(f"{embedder.name} failed: {safe_summary(error)}") from error

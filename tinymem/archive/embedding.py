"""The embedder of an archive and its queue: new steps are cut into passages and embedded, and questions analysed.

New steps are cut, and their words indexed, before the next search and not at each add, which that would make half as
slow again. While the embedder fails, the memory works without it and catches up later: passages wait in the journal
without vectors, and are found by their words. A failing embedder is left alone for a while, so that not every call
waits for its time-out.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from tinymem.archive.folders import open_namespace_journal
from tinymem.archive.rows import (
    FENCE_KEY,
    KEY_BYTES,
    STEPS_READ,
    fence_key,
    step_of,
    stored_dimensions,
    texts_of,
    uncut,
)
from tinymem.archive.tracking import Tracking
from tinymem.embedders.resting import Backoff
from tinymem.errors import (
    EmbedderError,
    EmbedderMismatchError,
    InputError,
    MissingExtraError,
    NotAMemoryError,
    ReadOnlyError,
    StorageError,
    TinymemError,
    is_out_of_reach,
    is_unwritable,
    safe_summary,
    warn_hourly,
)
from tinymem.protocols import EmbeddedPassage, Embedder, Journal, PassageRow, Vectors
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME
from tinymem.recall.passages import passages_of
from tinymem.recall.query.analysis import Query, analyse, embed_texts
from tinymem.recall.snapshot import Snapshot
from tinymem.registry import DEFAULT_EMBEDDER, embedder_from
from tinymem.steps.step import Step
from tinymem.steps.terminal import pluralize
from tinymem.stores.journals import has_journal

__all__ = ["BATCH", "EmbeddingQueue", "checked_embedder", "name_at", "remembered_embedder", "remembered_name"]

logger = logging.getLogger(__name__)

BATCH = 256  # passages that are embedded at once
SLOW = 1.0  # seconds; after a failure that took longer, questions do not try the embedder either


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
        tracking: What takes notes of steps.
    """

    def __init__(self, journal: Journal, embedder: Embedder | None, folder: Path, tracking: Tracking) -> None:
        self._journal, self._folder, self._tracking = journal, folder, tracking
        self.lock = threading.RLock()  # of who embeds
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
            settings = {EMBEDDER: self._fingerprint, FENCE_KEY: secrets.token_hex(KEY_BYTES)}
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
        return self.embedder.dimensions if self.is_known else stored_dimensions(self._journal) or 1

    # -- steps in -----------------------------------------------------------------------------------------------------

    def embed_pending(
        self, at_least: int = 1, advance: Callable[[int], object] = lambda step: None, once: bool = False
    ) -> int:
        """Make the passages, words and vectors of new steps, in batches.

        Args:
            at_least: Embed nothing while the new steps have fewer tokens.
            advance: Called after each batch with the number of the last step in it.
            once: Stop after one batch.

        Returns:
            The number of passages.

        Raises:
            EmbedderError: The embedder fails; `catch_up` does not raise this.
        """
        if self._journal.waiting_tokens() < at_least:
            return 0
        if self._journal.is_read_only:  # before anything is embedded in vain
            raise ReadOnlyError(self._journal.location)
        self.cut_new()
        with self.lock:
            return self._embed_pending(advance, once)

    def cut_new(self) -> None:
        """Make the passages of new steps, index their words, and take notes of what they changed."""
        while rows := uncut(self._journal, STEPS_READ):
            steps: list[Step] = []
            numbers: list[int] = []
            passages: list[tuple[int, PassageRow]] = []
            while rows:
                for row in rows:
                    numbers.append(row.number)
                    step = step_of(self._journal, row.record)
                    steps.append(step)
                    passages += [(row.number, passage) for passage in passages_of(step, self.key)]
                is_last = len(rows) < STEPS_READ or len(passages) >= BATCH
                rows = [] if is_last else self._journal.rows(numbers[-1], STEPS_READ)
            self._journal.put_passages(numbers, passages, self._tracking.notes_of(steps))

    def _embed_pending(self, advance: Callable[[int], object], once: bool) -> int:
        self._verify_fingerprint()
        done = 0
        while rows := self._waiting():
            done += self._embed_batch(texts_of(self._journal, rows))
            advance(rows[-1].step)
            if once:
                break
        return done

    def _waiting(self) -> list[EmbeddedPassage]:
        """Return a batch of passages that wait for a vector, in order: those behind the last one that has one."""
        return self._journal.passages(self._journal.last_passage(), BATCH, lacking=self._fingerprint)

    def _embed_batch(self, texts: Mapping[int, str]) -> int:
        """Embed the passages with these texts, given by their ids; return how many they are."""
        if texts:
            vectors = self._embed([*texts.values()])
            if not self._journal.put_vectors([*texts], vectors, self._fingerprint, self._fingerprint):
                self.check_embedder()  # another process has changed it
        return len(texts)

    def catch_up(self, at_least: int = 1, once: bool = False) -> None:
        """Call `embed_pending` unless it rests; if it fails or nothing can be written, warn, and let steps wait."""
        problem, rests = self.trouble, self.rests
        try:
            if rests or not self.is_known:
                self.cut_new()  # or what is new would be found by nothing
            if not rests:
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

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages."""
        with self._documents.trying():
            made = embed_texts(self.embedder, texts)
        if self._questions.problem:  # it can be reached again
            self._questions.end()
        return made

    # -- while the embedder fails -------------------------------------------------------------------------------------

    @property
    def rests(self) -> bool:
        """True while the embedder is left alone after a failure."""
        return self.is_failing and self._documents.is_on

    @property
    def is_failing(self) -> bool:
        """True if documents could not be embedded when that was last tried, so that catalogs have waiting ones, too."""
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

    # -- questions ----------------------------------------------------------------------------------------------------

    def question(self, text: str, snapshot: Snapshot, now: datetime) -> Query:
        """Return the analysis of a question. If the embedder fails, it logs a warning and uses vectors of zeros."""
        known = now, *snapshot.span, [*snapshot.speakers]
        is_usable = self.is_known and self.embedder.dimensions == snapshot.dimensions
        if is_usable and not (self._questions.problem and self._questions.is_on):
            begun = time.monotonic()
            try:
                query = analyse(text, self.embedder, *known)
            except EmbedderError as error:
                self._questions.begin(error, time.monotonic() - begun)
                self._warn()
            else:
                if self._questions.problem:  # it can be reached again
                    self._questions.end()
                return query
        return analyse(text, None, *known, dimensions=snapshot.dimensions)


def _fingerprint(embedder: Embedder) -> str:
    """Return the fingerprint of an embedder; any failure becomes an EmbedderError."""
    try:
        return embedder.fingerprint
    except TinymemError:
        raise
    except Exception as error:
        raise EmbedderError(f"{embedder.name} failed: {safe_summary(error)}") from error


# -- the embedder that a memory remembers, and opens with when none is given -----------------------------------------


def remembered_name(journal: Journal) -> str:
    """Return the name of the embedder that made the journal's vectors; the default if there are none yet."""
    return journal.setting(EMBEDDER_NAME) or DEFAULT_EMBEDDER


def name_at(place: str | Path, namespace: str) -> str:
    """Return the name of the embedder of a namespace; the default if there is no such memory yet."""
    try:
        _, journal = open_namespace_journal(place, namespace)
    except NotAMemoryError:
        return DEFAULT_EMBEDDER
    with closing(journal):
        return remembered_name(journal)


def remembered_embedder(name: str) -> Embedder:
    """Return the embedder that a memory remembers by this name.

    Raises:
        InputError: No adapter has that name.
        EmbedderError: The adapter cannot make the embedder, as without a key.
        MissingExtraError: The adapter's packages are not installed.
    """
    advice = "pass embedder=, the one that the memory was written with"
    try:
        return embedder_from(name)
    except MissingExtraError:
        raise
    except (InputError, EmbedderError) as error:
        raise type(error)(f"this memory remembers its embedder as {name!r:.200}: {error}; or {advice}") from error

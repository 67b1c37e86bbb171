"""The journal: the durable record of every step of a namespace, and of what is made of them. The source of truth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from tinymem.errors import FormatError
from tinymem.protocols.adapters import Ids, Vectors
from tinymem.protocols.rows import (
    EmbeddedPassage,
    Lexical,
    MessageRow,
    PassageRow,
    StepRow,
    SummaryRow,
    TermCheck,
)
from tinymem.protocols.tracking import StepNote

if TYPE_CHECKING:
    from tinymem.stores.filter import Filter

__all__ = ["Journal", "Maintenance", "MessageRows", "SummaryRows"]


class Journal(Protocol):
    """The journal of one namespace. Any number of threads and processes may use it.

    Where steps of a session are asked for, a `Beginning` stands for all sessions whose names begin with it.

    Each call is a transaction, unless it is made inside `together` or `snapshot`. When `add` has returned, its steps
    survive a killed process and a lost power supply; what is derived from steps survives a killed process at least.

    Errors are those of tinymem: StorageError when the journal cannot be read or written, or somebody else holds it too
    long; FormatError when it is damaged, or of another format; InputError for a value that cannot be stored;
    ClosedError after `close`.
    """

    location: str  # the place of the journal, for messages: a path, or an address without a password
    is_read_only: bool  # whether this user may only read it: what would write raises ReadOnlyError
    messages: MessageRows
    summaries: SummaryRows
    maintenance: Maintenance

    # -- transactions -------------------------------------------------------------------------------------------------

    def together(self) -> AbstractContextManager[None]:
        """Make all writes inside one transaction, while nobody else writes; inside another, be part of that one."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Read one state inside, while others may write."""

    def reading(self) -> AbstractContextManager[Journal]:
        """Give the journal as it is now, as a second one to read from, while others and this one may write."""

    def version(self) -> int:
        """Return a number that changes whenever somebody else, in this process or another, has written."""

    def damaged(self, reason: object) -> FormatError:
        """Return the error that says that the journal is damaged, and what can be done."""

    def close(self) -> None:
        """Release files and connections. Closing twice is no error; a forked child leaves them to its parent."""

    # -- settings, see tinymem.protocols.settings ---------------------------------------------------------------------

    def setting(self, key: str) -> str | None:
        """Return the value that was kept under `key`, or None."""

    def keep(self, settings: Mapping[str, str], replace: bool = True) -> None:
        """Keep values under keys, all or none; unless `replace`, those that are there stay."""

    # -- steps --------------------------------------------------------------------------------------------------------

    def add(self, rows: Sequence[StepRow]) -> None:
        """Write steps, durably, all or none.

        Raises InputError for an id or a number that is there, or a number from before those that passages were made of.
        """

    def next_number(self) -> int:
        """Return the number that the next step gets, from 1 on; never one that was used before."""

    def end(self) -> int:
        """Return the tokens of all steps since the memory began: the position of the next one."""

    def rows(
        self,
        after: int = 0,
        limit: int = 1 << 62,
        *,
        before: int = 1 << 62,
        type: str | None = None,
        session: str | None = None,
        window: bool | None = None,
        newest: bool = False,
        texts: bool = True,
    ) -> list[StepRow]:
        """Return up to `limit` steps with numbers above `after` and below `before`, in order, or the `newest` first.

        If a type or a session is given, only those of it are returned; with `window`, those that are in it, or are not.
        Without `texts` records and views are empty.
        """

    def steps(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the JSON of these steps, by number; those that are not there are left out."""

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the steps with these ids, in the order of numbers; unknown ids are left out."""

    def matching(self, only: Filter) -> list[int]:
        """Return the numbers of the steps that a filter accepts, in order; tools, which passages have, do not count."""

    def corrections(self) -> list[tuple[int, int]]:
        """Return the numbers of the steps that are corrected, each with that of a step that corrects it.

        These are named by their ids in the labels `"corrects"`.
        """

    def counts(self) -> dict[str, int]:
        """Count `steps`, `window_steps`, `waiting_steps`, `passages`, `tokens` and `window_tokens`.

        Passages that are not embedded do not count, and a step waits as long as it has one of them.
        """

    def set_milestones(self, numbers: Iterable[int], milestone: bool) -> None:
        """Make these steps milestones, or none. Counts as a rewrite."""

    # -- the window ---------------------------------------------------------------------------------------------------

    def set_window(
        self, removed: Iterable[int], views: Mapping[int, str | None], changed: Mapping[int, str | None] | None = None
    ) -> list[int]:
        """Take the steps `removed` out of the window, and return the numbers of those that were in it.

        The window then shows `views` (JSON; None: the original) of other steps, in it or not so far, and `changed` of
        those that are in it still.
        """

    # -- passages, their terms and vectors ----------------------------------------------------------------------------

    def put_passages(
        self, steps: Sequence[int], passages: Sequence[tuple[int, PassageRow]], notes: Sequence[StepNote] = ()
    ) -> bool:
        """Keep the passages (number of the step, passage) of the first uncut steps, their words, and notes of these.

        False, and nothing is kept, if somebody else was first, or one of the steps is gone. What a step has stays.
        """

    def passages(
        self, after: int = 0, limit: int = 2_000, *, lacking: str | None = None, step: int | None = None
    ) -> list[EmbeddedPassage]:
        """Return up to `limit` embedded passages with ids above `after`, in order. Ids grow, and are not given again.

        The embedder is the one in use. Passages are embedded in order: those behind the last one wait for it. Instead,
        those are returned that are `lacking` a vector of the embedder with this fingerprint, or all of a `step`; their
        vectors are empty.
        """

    def last_passage(self) -> int:
        """Return the id of the newest embedded passage; 0 if there is none."""

    def passages_until(self, last: int) -> int:
        """Count the embedded passages with ids up to `last`."""

    def waiting_tokens(self) -> int:
        """Return the tokens of the steps from the first one on that is not embedded whole."""

    def put_vectors(self, ids: Sequence[int], vectors: Vectors, embedder: str, in_use: str) -> bool:
        """Keep vectors `(n, dimensions)` of `embedder`, in half precision, but none of passages that are gone.

        Those that are there stay. False, and nothing is kept, if the embedder in use is not that one (a fingerprint).
        """

    # -- full-text search ---------------------------------------------------------------------------------------------

    def search_text(self, query: str, among: Ids | None = None) -> Lexical:
        """Return passages by BM25, best first, on a scale that no query or collection shifts, embedded or not.

        With `among`, ids in ascending order, no others are found.
        """

    # -- notes, see tinymem.protocols.tracking ------------------------------------------------------------------------

    def notes_of(self, steps: Sequence[int]) -> list[StepNote]:
        """Return the notes of these steps, in order."""

    def notes_with(self, keys: Iterable[str]) -> list[StepNote]:
        """Return the notes with these keys, of all steps, in order."""

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def delete(self, passages_of: Mapping[int, Sequence[str]]) -> bool:
        """Remove steps for good, with passages, terms, vectors, and summaries that tell of them.

        `passages_of` has the texts of each step's passages, in order. False, and nothing is removed, if a step has not
        as many passages: another process made or removed some. Counts as a rewrite and a change of the window. Nothing
        is gone from the files until the caller has called `maintenance.scrub`.
        """


class MessageRows(Protocol):
    """The messages that were heard, which may come again; see `tinymem.messages.recognition`."""

    def put(self, rows: Sequence[MessageRow]) -> None:
        """Keep messages that are not there yet; they stay when their step is deleted."""

    def find(self, said: Collection[str], most: int) -> list[MessageRow]:
        """Return the messages with these hashes that are the `most`-th of their hash at most, in no order."""

    def count(self, said: Collection[str]) -> dict[str, int]:
        """Return how many messages there are with each of these hashes; those with none are left out."""

    def page(self, after: tuple[str, int], limit: int) -> list[MessageRow]:
        """Return up to `limit` messages behind one, given by its hash and number, in their order."""


class SummaryRows(Protocol):
    """The summaries of steps that left the window."""

    def all(self) -> list[SummaryRow]:
        """Return all, in order."""

    def put(self, rows: Sequence[SummaryRow]) -> int:
        """Keep summaries, and return how many were kept.

        One of steps that another one tells of is left out: of two processes, the first is heard.
        """


class Maintenance(Protocol):
    """The care of an engine for its tables and files, beside reading and writing steps."""

    def scrub(self) -> None:
        """Leave nothing in the files of what was removed, and give its room back to the disk.

        Raises StorageError while somebody else reads.
        """

    def finish_scrub(self) -> None:
        """Scrub what waits for it, if there is anything, unless somebody reads or writes at this moment."""

    def size(self) -> int:
        """Return the bytes that are in use."""

    def go_on_from(self, number: int) -> None:
        """Give no step that is still to come a number below `number`."""

    def switch(self, embedder: str, name: str) -> bool:
        """Use the vectors of `embedder`, known by `name`, from now on, and delete all others.

        False, and nothing changes, if it is another one than before and some passage has no vector of it.
        """

    def check_files(self) -> list[str]:
        """Return what the engine's own check finds wrong with the files."""

    def check_terms(self) -> TermCheck:
        """Compare the full-text index with the passages."""

    def clear_passages(self) -> None:
        """Remove all passages, with their words, vectors and notes, so that they are made of the steps again."""

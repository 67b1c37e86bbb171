"""Import of an exported file of JSON lines, in whole or not at all; the file is not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.embedding import BATCH
from tinymem.archive.folders import namespace_folder, open_shared_journal, to_place
from tinymem.archive.scratchpad_format import SCRATCHPAD
from tinymem.archive.window_rows import MOST_CALLS, OPEN_CALLS
from tinymem.errors import FormatError, InputError, undo_on_failure
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Journal
from tinymem.recall.files.notes import renew_notes
from tinymem.registry import embedder_from
from tinymem.steps.checks import check_callable, to_path
from tinymem.steps.progress import Progress, no_progress
from tinymem.stores.exact import ExactStore
from tinymem.upkeep.export_format import (
    EpisodeLines,
    Header,
    read_end,
    read_header,
    read_messages,
    read_step,
    scratchpad_of,
)
from tinymem.upkeep.forgetting import cleanup_on_failure
from tinymem.upkeep.lines import parse_json_line, text_lines
from tinymem.window.window import note_calls

__all__ = ["Imported", "check_is_new", "import_memory", "write_lines"]

LONGEST = 128 * 1024 * 1024  # bytes of a line


@dataclass(frozen=True)
class Imported:
    """The number of imported steps and episodes, and of embedded passages; and whether there was a scratchpad."""

    steps: int
    episodes: int
    scratchpad: bool
    embedded: int


def import_memory(
    path: str | Path,
    file: str | Path,
    *,
    namespace: str = "default",
    embedder: str | Embedder | Embeds | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Make a namespace of the memory at `path` from a `file` that `export_memory` wrote, gzip'd or not.

    The file is imported in one transaction: in whole or, if anything is wrong or the process is killed, not at all.
    Then its steps are embedded; if that is interrupted, it continues when the memory is opened again. An export of the
    new memory has the same bytes, except for another embedder in the first line. Vectors, which older files may have,
    are not read. The default embedder is the one that the namespace remembers, and "static" for a new namespace,
    whatever the file says.

    Args:
        path: The memory's folder, made if there is none, or its address in a database.
        file: The file, which is not trusted.
        namespace: A new namespace.
        embedder: The embedder of the namespace, or its name.
        progress: Called with the work done and in all: each step counts twice, once read and once embedded.

    Returns:
        The numbers of imported items.

    Raises:
        InputError: The file cannot be read (file and line are named), or the namespace is in use.
        FormatError: The file has a newer format.
        TinymemError: The memory cannot be opened.
    """
    file = to_path("file", file)
    with closing(_values(file)) as lines:  # closes the file after an error too
        header = _header_of(lines, str(file))
        new = None if embedder is None else embedder_from(embedder)
        advance = check_callable("progress", progress) or no_progress
        place = to_place(path)
        with cleanup_on_failure(place, namespace):
            archive = _archive(place, namespace, new)
            with undo_on_failure(archive.journal.close), archive.journal.together():
                came = _Import(archive.journal, header)
                came.read(lines, str(file), lambda done, _: advance(done, 2 * header.steps))
    try:
        return Imported(came.steps, came.episodes, came.scratchpad, _embed(archive, came, advance))
    finally:
        archive.close()


def check_is_new(journal: Journal) -> None:
    """Raise InputError where a journal holds something, or did so."""
    if journal.next_number() > 1 or journal.setting(SCRATCHPAD) is not None:
        what = f"holds {journal.counts()['steps']} steps, or did so"
        raise InputError(f"{journal.location} is in use ({what}): choose a new namespace, or forget that one first")


def write_lines(journal: Journal, lines: Iterator[tuple[int, Any]], source: str, progress: Progress) -> None:
    """Write the values of an export's lines, with their numbers, to a new journal, inside the caller's transaction.

    Raises:
        InputError: A line makes no sense, or the journal is in use; the line is named as one of `source`.
        FormatError: The lines have a newer format.
    """
    _Import(journal, _header_of(lines, source)).read(lines, source, progress)


def _header_of(lines: Iterator[tuple[int, Any]], source: str) -> Header:
    number, value = next(lines, (1, None))
    with _place(f"{source}, line {number}"):
        return read_header(value)


def _archive(place: str | Path, namespace: str, embedder: Embedder | None) -> Archive:
    """Make the archive of a new namespace; no store is opened here."""
    if isinstance(place, str):
        with open_shared_journal(place, namespace, create=True) as (folder, journal):
            return Archive(folder, embedder, ExactStore(), counter_from(None), journal=journal)
    return Archive(namespace_folder(place, namespace, create=True), embedder, ExactStore(), counter_from(None))


def _values(file: Path) -> Generator[tuple[int, Any], None, None]:
    """Yield the values of the lines, with their numbers."""
    for number, text in text_lines(file, LONGEST):
        yield number, parse_json_line(text, file, number)


@contextmanager
def _place(place: str) -> Iterator[None]:
    """Raise errors again with their place."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{place}: {error}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{place}: {error}") from error


def _embed(archive: Archive, came: _Import, progress: Progress) -> int:
    """Embed the steps, and return the number of their passages."""
    span = max(came.last, 1)

    def advance(step: int) -> None:
        share = min(max(step - 1, 0) / span, 1)
        progress(came.steps + round(share * came.steps), 2 * came.steps)

    done = archive.queue.embed_pending(advance=advance)
    advance(came.last + 1)
    return done


class _Import:
    """A writer of lines into a journal, inside the caller's transaction."""

    def __init__(self, journal: Journal, header: Header) -> None:
        check_is_new(journal)
        self.steps = self.episodes = self.last = 0
        self.scratchpad = self._ended = False
        self._journal = journal
        self._header = header
        self._summaries = EpisodeLines()
        self._open_calls: dict[str, int] = {}

    def read(self, lines: Iterator[tuple[int, Any]], source: str, progress: Progress) -> None:
        """Write all lines, which errors name as those of `source`."""
        number = 1
        for number, value in lines:
            with _place(f"{source}, line {number}"):
                self._take(value)
            if number % BATCH == 0:
                progress(self.steps, self._header.steps)
        with _place(f"{source}, line {number}"):
            if not self._ended:
                raise InputError("the file is cut off: its last line, with the counts, is missing")
            self._close()

    def _take(self, value: Any) -> None:
        if self._ended:
            raise InputError("nothing may follow the end")
        takes: dict[str, Callable[[Any], None]] = {
            "step": self._step,
            "episode": self._episode,
            "scratchpad": self._scratchpad,
            "messages": self._messages,
            "end": self._end,
        }
        kinds = [kind for kind in takes if isinstance(value, dict) and kind in value]
        if len(kinds) != 1:
            raise InputError(f"a line must be an object with one of {', '.join(takes)}")
        takes[kinds[0]](value)

    def _step(self, value: Mapping[str, Any]) -> None:
        step, row = read_step(value)
        if row.number <= self.last:
            raise InputError(f"the number {row.number} is not above the one before it")
        self._journal.add([row])
        self.steps += 1
        self.last = row.number
        note_calls(step, self._open_calls)
        while len(self._open_calls) > MOST_CALLS:
            del self._open_calls[next(iter(self._open_calls))]

    def _messages(self, value: Mapping[str, Any]) -> None:
        self._journal.messages.put(read_messages(value))

    def _episode(self, value: Mapping[str, Any]) -> None:
        self.episodes += 1
        row = self._summaries.read(value)
        if row is None:
            return
        if row.last > self.last:
            raise InputError(f"the episode of steps {row.first} to {row.last} covers steps that are missing")
        self._journal.summaries.put([row])

    def _scratchpad(self, value: Mapping[str, Any]) -> None:
        text = scratchpad_of(value)
        if self.scratchpad:
            raise InputError("there is more than one scratchpad")
        self._journal.keep({SCRATCHPAD: text})
        self.scratchpad = True

    def _end(self, value: Mapping[str, Any]) -> None:
        steps, episodes = read_end(value)
        if (steps, episodes) != (self.steps, self.episodes) or self._header.steps != self.steps:
            raise InputError(
                f"lines are missing: {self.steps} of {steps} steps, {self.episodes} of {episodes} episodes are there"
            )
        self._ended = True

    def _close(self) -> None:
        if self._header.next_number <= self.last:
            raise InputError(f"next_number must be above {self.last}, the number of the last step")
        self._journal.go_on_from(self._header.next_number)
        self._journal.keep({OPEN_CALLS: json.dumps(self._open_calls)})
        renew_notes(self._journal)

"""Import of an exported file of JSON lines, in whole or not at all; the file is not trusted."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinymem.archive.archive import Archive, row_of
from tinymem.archive.embedding import BATCH
from tinymem.archive.folders import namespace_folder
from tinymem.errors import FormatError, InputError
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Mark, PassageRow, StepRow, TokenIds, Vectors
from tinymem.protocols.settings import OPEN_CALLS, SCRATCHPAD
from tinymem.recall.passages import passages_of
from tinymem.registry import embedder_from
from tinymem.steps.checks import a_callable, a_path
from tinymem.stores.exact import ExactStore
from tinymem.upkeep.export_format import (
    Episodes,
    Header,
    StepLine,
    read_calls,
    read_end,
    read_header,
    read_step,
    scratchpad_of,
)
from tinymem.upkeep.forgetting import undone_on_failure
from tinymem.upkeep.lines import parsed, text_lines
from tinymem.upkeep.progress import Progress, unseen

__all__ = ["Imported", "import_memory"]

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
    append: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Make a namespace of the memory at `path` from a `file` that `export_memory` wrote, gzip'd or not.

    Either all of it comes in, in one transaction, or nothing does, whatever is wrong with the file, and even if this
    is killed. Then it is embedded, and if that ends early, the next one that opens the memory goes on with it. Exported
    again, the memory gives the same bytes, but for the embedder that the first line names if it is another one. Vectors
    in the file are taken when its fingerprint is that of `embedder`; unless one is given, that is the one that the
    namespace remembers, and "static" for a new one, whatever the file says.

    Args:
        path: The memory's folder, made if there is none.
        file: The file; who wrote it is not trusted.
        namespace: A new namespace, unless `append`.
        embedder: The embedder of the namespace, or its name.
        append: Put the steps behind those that are there, under new numbers, in the archive and not in the window; the
            scratchpad is taken only where there was none.
        progress: Called with what is done, and of how much: each step counts twice, once read and once embedded.

    Returns:
        The numbers of what came in.

    Raises:
        InputError: The file cannot be read (file and line are named), or the namespace is in use.
        FormatError: The file has a newer format.
        TinymemError: Whatever opening a memory raises.
    """
    file = a_path("file", file)
    with closing(_values(file)) as lines:  # the file is closed whatever is wrong with it
        number, value = next(lines, (1, None))
        with _place(f"{file}, line {number}"):
            header = read_header(value)
        new = None if embedder is None else embedder_from(embedder)
        advance, place = a_callable("progress", progress) or unseen, a_path("path", path)
        with undone_on_failure(place, namespace):
            folder = namespace_folder(place, namespace, create=True)
            archive = Archive(folder, new, ExactStore, counter_from(None))  # no store is opened here
            try:
                with archive.journal.together():
                    came = _Import(archive, header, append, namespace)
                    came.read(lines, file, advance)
            except BaseException:
                archive.journal.close()
                raise
    try:
        return Imported(came.steps, came.episodes, came.scratchpad, _embed(archive, came, advance))
    finally:
        archive.close()


def _values(file: Path) -> Generator[tuple[int, Any], None, None]:
    """The values of the lines, with their numbers."""
    for number, text in text_lines(file, LONGEST):
        yield number, parsed(text, file, number)


@contextmanager
def _place(place: str) -> Iterator[None]:
    """Whatever is wrong, as an error that says where."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{place}: {error}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{place}: {error}") from error


def _embed(archive: Archive, came: _Import, progress: Progress) -> int:
    """Embed what has no vectors yet; how many passages that were."""
    span = max(came.last - came.first, 0) + 1

    def advance(step: int) -> None:
        share = min(max(step - came.first, 0) / span, 1)
        progress(came.steps + round(share * came.steps), 2 * came.steps)

    done = archive.embed_pending(advance=advance)
    advance(came.last + 1)
    return done


class _Import:
    """Writes what lines say into a journal; everything happens in the caller's transaction."""

    def __init__(self, archive: Archive, header: Header, append: bool, namespace: str) -> None:
        journal = archive.journal
        held = journal.next_number() - 1
        if not append and (held or journal.setting(SCRATCHPAD) is not None):
            what = f"holds {journal.counts()['steps']} steps, or did so"
            raise InputError(f"namespace {namespace!r} is in use ({what}): choose a new one, or append")
        self.steps = self.episodes = 0
        self.scratchpad = self._had_scratchpad = self._ended = False
        self.first, self.last = held + 1, held
        self._archive, self._journal, self._header, self._append = archive, journal, header, append
        self._shift, self._position = held, journal.end()
        self._summaries = Episodes()
        fits = header.fingerprint == archive.embedder.fingerprint and not journal.counts()["waiting_steps"]
        self._made = _Made(archive) if fits else None

    def read(self, lines: Iterator[tuple[int, Any]], file: Path, progress: Progress) -> None:
        """Take in all lines."""
        number = 1
        for number, value in lines:
            with _place(f"{file}, line {number}"):
                self._take(value)
            if number % BATCH == 0:
                progress(self.steps, 2 * self._header.steps)
        with _place(f"{file}, line {number}"):
            if not self._ended:
                raise InputError("the file is cut off: the line that tells its end is missing")
            self._close()

    def _take(self, value: Any) -> None:
        if self._ended:
            raise InputError("nothing may stand behind the end")
        takes = {
            "step": self._step,
            "episode": self._episode,
            "open_calls": self._open_calls,
            "scratchpad": self._scratchpad,
            "end": self._end,
        }
        kinds = [kind for kind in takes if isinstance(value, dict) and kind in value]
        if len(kinds) != 1:
            raise InputError(f"a line must be an object with one of {', '.join(takes)}")
        takes[kinds[0]](value)

    def _step(self, value: Mapping[str, Any]) -> None:
        line = read_step(value)
        number = line.row.number + self._shift
        if number <= self.last:
            raise InputError(f"the number {line.row.number} does not follow on the one before it")
        row = self._appended(line, number) if self._append else line.row
        self._journal.add([row])
        if self._made is not None and not self._made.take(number, line):
            self._made = None  # what comes behind it must be embedded after it
        self.steps, self.last = self.steps + 1, number

    def _appended(self, line: StepLine, number: int) -> StepRow:
        step = line.step.evolve(step_number=number)
        row = row_of(step, line.row.tokens, line.row.position + self._position, window=False)
        return replace(row, milestone=line.row.milestone)

    def _episode(self, value: Mapping[str, Any]) -> None:
        self.episodes += 1
        if (row := self._summaries.read(value)) is None:
            return
        if row.last + self._shift > self.last:
            raise InputError(f"the episode of steps {row.first} to {row.last} tells of steps that are not there")
        self._journal.put_summaries([row._replace(first=row.first + self._shift, last=row.last + self._shift)])

    def _open_calls(self, value: Mapping[str, Any]) -> None:
        calls = read_calls(value, self.last - self._shift)
        if not self._append:  # an old one's late results go into the window of the memory that asked for them
            self._journal.keep({OPEN_CALLS: json.dumps(calls)})

    def _scratchpad(self, value: Mapping[str, Any]) -> None:
        text = scratchpad_of(value)
        if self._had_scratchpad:
            raise InputError("there is a scratchpad before this one")
        self._had_scratchpad = True
        if self._journal.setting(SCRATCHPAD) is None:
            self._journal.keep({SCRATCHPAD: text})
            self.scratchpad = True

    def _end(self, value: Mapping[str, Any]) -> None:
        expected, held = read_end(value), (self.steps, self.episodes)
        if expected != held or self._header.steps != self.steps:
            raise InputError(
                f"lines are missing: {held[0]} of {expected[0]} steps, {held[1]} of {expected[1]} episodes are there"
            )
        self._ended = True

    def _close(self) -> None:
        next_number = self._header.next_number + self._shift
        if next_number <= self.last:
            raise InputError(f"next_number must be above {self.last - self._shift}, the number of the last step")
        self._journal.go_on_from(next_number)
        if self._made is not None:
            self._made.write()


class _Made:
    """Vectors that come with the steps, on their way into the journal, as long as every step brings its own."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._until = archive.journal.mark
        self._passages: list[tuple[int, PassageRow]] = []
        self._vectors: list[Vectors] = []
        self._tokens: list[TokenIds] = []

    def take(self, number: int, line: StepLine) -> bool:
        """Take a step's vectors; False, and those before are written, when it brings none that fit its passages."""
        passages = passages_of(line.step, self._archive.key)
        if line.made is None or len(line.made[0]) != len(passages):
            self.write()
            return False
        vectors, tokens = line.made
        self._check(vectors, tokens)
        self._passages += [(number, passage) for passage in passages]
        self._vectors += [*vectors]
        self._tokens += tokens
        self._until = Mark(number + 1, 0)
        if len(self._passages) >= BATCH:
            self.write()
        return True

    def _check(self, vectors: Vectors, tokens: list[TokenIds]) -> None:
        dimensions, vocabulary = self._archive.embedder.dimensions, len(self._archive.token_embedder.token_table)
        if len(vectors) and vectors.shape[1] != dimensions:
            raise InputError(
                f"vectors of {self._archive.embedder.name} have {dimensions} dimensions, not {vectors.shape[1]}"
            )
        if any(len(ids) and ids.max() >= vocabulary for ids in tokens):
            raise InputError(f"token ids must be below {vocabulary}")

    def write(self) -> None:
        """Write what was taken."""
        journal, dimensions = self._archive.journal, self._archive.embedder.dimensions
        vectors = np.array(self._vectors, np.float32).reshape(len(self._vectors), dimensions)
        journal.put_passages(journal.mark, self._until, self._passages, vectors, self._tokens)
        self._passages, self._vectors, self._tokens = [], [], []

"""Import of an exported file of JSON lines, in whole or not at all; the file is not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.embedding import BATCH
from tinymem.archive.folders import namespace_folder, open_shared_journal, to_place
from tinymem.archive.rows import row_of
from tinymem.archive.scratchpad_format import SCRATCHPAD, read_dump
from tinymem.archive.window_rows import read_calls
from tinymem.errors import FormatError, InputError, safe_repr, undo_on_failure
from tinymem.messages.tokens import EstimatingCounter, count_message, counter_from
from tinymem.protocols import Embedder, Embeds, Journal, MessageRow, SummaryRow
from tinymem.recall.files.notes import NoteTaker
from tinymem.registry import embedder_from
from tinymem.steps.checks import check_callable, to_path
from tinymem.steps.content import check_content, clean
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.serialization import dump_step
from tinymem.steps.step import Step
from tinymem.steps.types import ROLES
from tinymem.stores.exact import ExactStore
from tinymem.upkeep.exporting import FORMAT, SETTINGS
from tinymem.upkeep.forgetting import cleanup_on_failure
from tinymem.upkeep.lines import byte_lines

__all__ = ["Imported", "import_memory", "write_lines"]

LONGEST = 128 * 1024 * 1024  # bytes of a line
MOST = 1 << 53  # the largest number that every JSON reader can hold


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
    Then its steps are embedded; if that is interrupted, it continues when the memory is opened again. The default
    embedder is the one that the namespace remembers, and "static" for a new namespace, whatever the file says.

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
        new = None if embedder is None else embedder_from(embedder)
        advance = check_callable("progress", progress) or no_progress
        place = to_place(path)
        with cleanup_on_failure(place, namespace):
            archive = _archive(place, namespace, new)
            with undo_on_failure(archive.journal.close), archive.journal.together():
                came = write_lines(
                    archive.journal, lines, str(file), lambda done, total: advance(done, 2 * (total or 0))
                )
    try:
        steps, last = came.steps, max(came.last, 1)
        count = archive.queue.embed_pending(advance=lambda step: advance(steps + steps * step // last, 2 * steps))
        advance(2 * steps, 2 * steps)
        return Imported(steps, came.episodes, came.scratchpad, count)
    finally:
        archive.close()


def _check_is_new(journal: Journal) -> None:
    """Raise InputError where a journal holds something, or did so."""
    if journal.next_number() > 1 or journal.setting(SCRATCHPAD) is not None:
        what = f"holds {journal.counts()['steps']} steps, or did so"
        raise InputError(f"{journal.location} is in use ({what}): choose a new namespace, or forget that one first")


def write_lines(journal: Journal, lines: Iterator[tuple[int, Any]], source: str, progress: Progress) -> _Import:
    """Write the values of an export's lines, with their numbers, to a new journal, inside the caller's transaction.

    Raises:
        InputError: A line makes no sense, or the journal is in use; the line is named as one of `source`.
        FormatError: The lines have a newer format.
    """
    _check_is_new(journal)
    number, header = next(lines, (1, None))
    with _place(source, number):
        came = _Import(journal, header)
    for number, value in lines:
        with _place(source, number):
            came.take(value)
        if number % BATCH == 0:
            progress(came.steps, came.total)
    if not came.has_ended:
        raise InputError(f"{source}, line {number}: the file is cut off: its last line is missing")
    return came


def _archive(place: str | Path, namespace: str, embedder: Embedder | None) -> Archive:
    """Make the archive of a new namespace; no store is opened here."""
    if isinstance(place, str):
        with open_shared_journal(place, namespace, create=True) as (folder, journal):
            return Archive(folder, embedder, ExactStore(), counter_from(None), journal=journal)
    return Archive(namespace_folder(place, namespace, create=True), embedder, ExactStore(), counter_from(None))


def _values(file: Path) -> Generator[tuple[int, Any], None, None]:
    """Yield the values of the lines that are not blank, with their numbers."""
    for number, line in byte_lines(file, LONGEST):
        if line is None or line.strip():
            with _place(str(file), number):
                value = _parsed(line)
            yield number, value


def _parsed(line: bytes | None) -> Any:
    if line is None:
        raise InputError(f"the line is longer than {LONGEST} bytes")
    return json.loads(line.decode("utf-8-sig"))


@contextmanager
def _place(source: str, number: int) -> Iterator[None]:
    """Raise errors again with their place."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{source}, line {number}: {error}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{source}, line {number}: {error}") from error


class _Import:
    """An export as far as it is written to a journal; `header` is the value of its first line."""

    def __init__(self, journal: Journal, header: Any) -> None:
        if not isinstance(header, Mapping) or not isinstance(version := header.get("tinymem_export"), int):
            raise InputError("this is not the export of a memory: its first line must be an object with tinymem_export")
        if version > FORMAT:
            raise FormatError(f"the export has format {version}, this version reads {FORMAT}: upgrade tinymem")
        self.total, self._next_number = _typed((header.get("steps"), header.get("next_number")), int, int)
        self.steps = self.episodes = self.last = 0
        self.scratchpad = self.has_ended = False
        self._journal, self._notes = journal, NoteTaker()

    def take(self, value: Any) -> None:
        """Write what a line has."""
        takes: dict[str, Callable[[Any], None]] = {
            "messages": self._take_messages,
            "episode": self._take_episode,
            "settings": self._take_settings,
            "end": self._take_end,
        }
        kind = next((kind for kind in ("step", *takes) if isinstance(value, Mapping) and kind in value), None)
        if kind is None or self.has_ended:
            raise InputError(f"a line must be an object with one of step, {', '.join(takes)}, and the last has end")
        if kind == "step":
            self._take_step(**value)
        else:
            takes[kind](value[kind])

    def _take_step(
        self,
        step: Any,
        tokens: Any = None,
        position: Any = None,
        window: Any = False,
        milestone: Any = False,
        archived: Any = None,
        view: Any = None,
    ) -> None:
        read = _read_step(step)
        number = read.step_number or 0
        if number <= self.last:
            raise InputError(f"the number {number} is not above the one before it")
        cost, start = _typed((tokens, position), int, int)
        row = row_of(read, cost, start, bool(window), self._notes.notes_of(read))
        if view is not None:
            shown = _read_step(view)
            if not window or (shown.id, shown.step_number) != (read.id, number):
                raise InputError("a view must be of a step in the window, and have its id and number")
            row = replace(row, view=dump_step(shown))
        left = None if window or archived is None else float(archived)
        self._journal.add([replace(row, archived=left, milestone=bool(milestone))])
        self.steps += 1
        self.last = number

    def _take_messages(self, rows: Sequence[Sequence[Any]]) -> None:
        self._journal.messages.put([MessageRow(*_typed(row, str, int, int, bool)) for row in rows])

    def _take_episode(self, value: Mapping[str, Any]) -> None:
        row = SummaryRow(**value)
        _typed((row.first, row.last, row.session or "", row.text), int, int, str, str)
        if not row.first <= row.last <= self.last:
            raise InputError(f"an episode of steps {row.first} to {row.last} covers steps that are missing")
        session = None if row.session is None else clean(row.session)
        self._journal.summaries.put([row._replace(session=session, text=clean(row.text))])
        self.episodes += 1

    def _take_settings(self, value: Mapping[str, Any]) -> None:
        texts = {name: json.dumps(value[name], separators=(",", ":")) for name in SETTINGS if name in value}
        for name, text in texts.items():
            if name == SCRATCHPAD:
                self.scratchpad = bool(read_dump(text))
            else:
                read_calls(self._journal, text, ())
        self._journal.keep(texts)

    def _take_end(self, value: Mapping[str, Any]) -> None:
        if value["steps"] != self.steps:
            raise InputError(f"lines are missing: {self.steps} of {value['steps']!r:.20} steps are there")
        self._journal.go_on_from(max(self._next_number, self.last + 1))
        self.has_ended = True


def _read_step(record: Any) -> Step:
    """Return the step of a record; InputError for an overlay whose messages cannot be counted or sent."""
    step = Step.from_dict(record)
    step.to_messages(style="observation")
    for message in step.to_messages(style="tools"):
        calls, answered = message.get("tool_calls") or [], message.get("tool_call_id")
        has_ids = isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls)
        has_ids = has_ids and all(isinstance(call.get("id"), str) for call in calls)
        if not has_ids or message.get("role") not in ROLES or not isinstance(answered, (str, NoneType)):
            raise InputError(f"a message of the step cannot be sent: {safe_repr(message)}")
        check_content(message.get("content"), "content")
        count_message(message, EstimatingCounter())
    return step


def _typed(values: Sequence[Any], *types: type) -> list[Any]:
    """Return values that are of these types, whole numbers from 0 on; InputError for others."""
    is_small = all(0 <= value < MOST for value in values if type(value) is int)
    if [*map(type, values)] != [*types] or not is_small:
        raise InputError(f"{safe_repr(values)} must be {', '.join(kind.__name__ for kind in types)}, none below 0")
    return [*values]

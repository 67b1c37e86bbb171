"""Export of a memory to a file of JSON lines; `tinymem.upkeep.export_format` has their format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TextIO

from tinymem.archive.folders import open_namespace_journal, to_place
from tinymem.archive.scratchpad_format import SCRATCHPAD
from tinymem.errors import FormatError, InputError, StepError, StorageError, safe_repr
from tinymem.protocols import Journal, StepRow
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME
from tinymem.steps.checks import check_callable
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.serialization import load_step
from tinymem.stores.files import open_private
from tinymem.upkeep.export_format import FORMAT, Header, step_line, to_line

__all__ = ["Exported", "export_journal", "export_memory", "lines_of"]

AT_ONCE = 64  # steps that are read at once


@dataclass(frozen=True)
class Exported:
    """The numbers of steps and episodes that were written."""

    steps: int
    episodes: int


def export_memory(
    path: str | Path,
    file: str | Path | TextIO,
    *,
    namespace: str = "default",
    progress: Progress | None = None,
) -> Exported:
    """Write the memory at `path` to `file`, a path or a text stream, as lines of ASCII JSON.

    The file has all that was added: steps with their numbers, the window, milestones, summaries of episodes and the
    scratchpad. Derived data is left out, vectors too: an import embeds. The key of the fences is never exported. No
    embedder is needed. Other processes may go on adding: the file has the memory as it was at the beginning. Only a
    small part of it is held at once.

    Args:
        path: The memory's folder, or its address in a database.
        file: A path, whose file is replaced, or a text stream.
        namespace: The namespace that is written.
        progress: Called with the number of steps that are written, and of all.

    Returns:
        The numbers of steps and episodes.

    Raises:
        NotAMemoryError: There is no such memory.
        FormatError: It is damaged.
        StorageError: The file cannot be written; `import_memory` refuses an incomplete file.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> from tinymem.upkeep import import_memory
    >>> folder = tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The staging server is at 10.0.0.7."))
    >>> export_memory(folder, f"{folder}.jsonl").steps
    1
    >>> import_memory(folder, f"{folder}.jsonl", namespace="copy").steps
    1
    """
    _, journal = open_namespace_journal(to_place(path), namespace)
    with closing(journal):
        return export_journal(journal, file, progress)


def export_journal(journal: Journal, file: str | Path | TextIO, progress: Progress | None = None) -> Exported:
    """Write the present contents of a journal; see `export_memory`."""
    advance = check_callable("progress", progress) or no_progress
    with journal.reading() as reader, _opened(file) as stream:
        counts = reader.counts()["steps"], len(reader.summaries.all())
        for done, line in enumerate(lines_of(reader, counts)):
            stream.write(line)
            if done % AT_ONCE == 0:
                advance(min(done, counts[0]), counts[0])
        advance(counts[0], counts[0])
    return Exported(*counts)


@contextmanager
def _opened(file: str | Path | TextIO) -> Iterator[TextIO]:
    """Open the stream to write to; errors of a file become StorageError, those of a given stream stay as they are."""
    if not isinstance(file, (str, PathLike)):
        if not callable(getattr(file, "write", None)):
            raise InputError(f"file must be a path, or a text stream to write to, not {safe_repr(file)}")
        yield file
        return
    try:
        with open(file, "w", encoding="ascii", newline="\n", opener=open_private) as stream:
            yield stream
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"{file} cannot be written: {reason}; choose another, or make room") from error


def lines_of(journal: Journal, counts: tuple[int, int]) -> Iterator[str]:
    """Yield all lines, in order; `counts` are those of steps and summaries.

    JSON that the journal keeps, of steps and of the scratchpad, is copied as it is.
    """
    fingerprint = journal.setting(EMBEDDER) or ""
    header = Header(journal.setting(EMBEDDER_NAME), fingerprint, journal.next_number(), counts[0])
    yield to_line({"tinymem_export": FORMAT, **vars(header)})
    after = 0
    while rows := journal.rows(after, AT_ONCE):
        for row in rows:
            _check(journal, row)
            yield step_line(row)
        after = rows[-1].number
    last = "", 0
    while messages := journal.messages.page(last, AT_ONCE):
        yield to_line({"messages": messages})
        last = messages[-1][:2]
    for summary in journal.summaries.all():
        yield to_line({"episode": summary._asdict()})
    scratchpad = journal.setting(SCRATCHPAD)
    if scratchpad is not None:
        yield f'{{"scratchpad":{scratchpad}}}\n'
    yield to_line({"end": {"steps": counts[0], "episodes": counts[1]}})


def _check(journal: Journal, row: StepRow) -> None:
    """Raise FormatError for a damaged record, since its line would be damaged too."""
    try:
        if row.view is not None:
            load_step(row.view)
        load_step(row.record)
    except (StepError, FormatError) as error:
        raise FormatError(f"{journal.location} is damaged: step {row.number}: {error}") from error

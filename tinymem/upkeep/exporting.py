"""Export of a memory to lines of JSON.

::

    {"tinymem_export":2,"embedder":"static","next_number":4,"steps":3}
    {"step":{...},"tokens":12,"position":0,"archived":1764.5,"window":false,"milestone":false,"view":null}
    {"step":{...},"tokens":80,"position":12,"archived":null,"window":true,"milestone":false,"view":{...}}
    {"messages":[["90aa...",1,2,true]]}
    {"episode":{"first":1,"last":2,"session":null,"text":"..."}}
    {"settings":{"scratchpad":{...},"open_calls":{...}}}
    {"end":{"steps":3}}

Steps come oldest first, each as `Step.to_dict` gives it, and as the window shows it if that is another `view`. `tokens`
is what a step costs when sent, `position` what all before it did; `archived` is the time when it left the window, in
seconds. Messages are those of `tinymem.messages.recognition`. All is ASCII. Not in it are the key of the fences, and
what is made of the steps: passages, their vectors and words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from tinymem.archive.folders import open_namespace_journal, to_place
from tinymem.archive.rows import OPEN_CALLS, step_of
from tinymem.archive.scratchpad_format import SCRATCHPAD
from tinymem.errors import InputError, StorageError, safe_repr, undo_on_failure
from tinymem.protocols import Journal, StepRow
from tinymem.protocols.settings import EMBEDDER_NAME
from tinymem.steps.checks import check_callable, to_path
from tinymem.steps.progress import Progress, no_progress
from tinymem.stores.files import open_private

__all__ = ["FORMAT", "SETTINGS", "Exported", "export_journal", "export_memory", "lines_of", "rows_of"]

FORMAT = 2
AT_ONCE = 64  # steps that are read at once
SETTINGS = (SCRATCHPAD, OPEN_CALLS)  # whose texts are JSON


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
        StorageError: The file cannot be written; one that was there stays as it was.

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
        steps, episodes = reader.counts()["steps"], len(reader.summaries.all())
        for done, line in enumerate(lines_of(reader)):
            stream.write(line)
            if done % AT_ONCE == 0:
                advance(min(done, steps), steps)
        advance(steps, steps)
    return Exported(steps, episodes)


@contextmanager
def _opened(file: str | Path | TextIO) -> Iterator[TextIO]:
    """Open the stream to write to, which is given, or a new file that takes the place of another once it is whole."""
    if not isinstance(file, (str, PathLike)):
        if not hasattr(file, "write"):
            raise InputError(f"file must be a path, or a text stream to write to, not {safe_repr(file)}")
        yield file
        return
    target = to_path("file", file)
    try:
        if target.exists() and not target.is_file():  # a device has no place to take
            raise StorageError(f"{target} cannot be written: it is no file; choose another, or give a stream")
        fresh = target.with_name(f"{target.name}.new")
        with undo_on_failure(lambda: fresh.unlink(missing_ok=True)):
            with open(fresh, "w", encoding="ascii", newline="\n", opener=open_private) as stream:
                yield stream
            if target.exists():
                fresh.chmod(target.stat().st_mode)
            fresh.replace(target)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise StorageError(f"{target} cannot be written: {error}; choose another, or make room") from error


def lines_of(journal: Journal) -> Iterator[str]:
    """Yield all lines, in order; FormatError for a step that is damaged."""
    for value in _values_of(journal):
        yield json.dumps(value, separators=(",", ":")) + "\n"


def _values_of(journal: Journal) -> Iterator[dict[str, Any]]:
    steps = journal.counts()["steps"]
    header = {"embedder": journal.setting(EMBEDDER_NAME), "next_number": journal.next_number(), "steps": steps}
    yield {"tinymem_export": FORMAT, **header}
    yield from (_line_of(journal, row) for row in rows_of(journal))
    last = "", 0
    while messages := journal.messages.page(last, AT_ONCE):
        yield {"messages": messages}
        last = messages[-1][:2]
    for summary in journal.summaries.all():
        yield {"episode": summary._asdict()}
    settings = {name: journal.setting(name) for name in SETTINGS}
    yield {"settings": {name: json.loads(text) for name, text in settings.items() if text}}
    yield {"end": {"steps": steps}}


def rows_of(journal: Journal) -> Iterator[StepRow]:
    """Yield all steps, of which only some are held at once."""
    after = 0
    while rows := journal.rows(after, AT_ONCE):
        yield from rows
        after = rows[-1].number


def _line_of(journal: Journal, row: StepRow) -> dict[str, Any]:
    return {
        "step": step_of(journal, row.record).to_dict(),
        "tokens": row.tokens,
        "position": row.position,
        "archived": row.archived,
        "window": bool(row.window),
        "milestone": bool(row.milestone),
        "view": None if row.view is None else step_of(journal, row.view).to_dict(),
    }

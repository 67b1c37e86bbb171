"""Import of an exported file of JSON lines, in whole or not at all; the file is not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinymem.archive.archive import Archive, row_of
from tinymem.archive.embedding import BATCH
from tinymem.archive.folders import open_namespace_journal, to_place
from tinymem.archive.rows import read_calls
from tinymem.archive.scratchpad_format import SCRATCHPAD, read_dump
from tinymem.errors import FormatError, InputError, safe_repr, undo_on_failure
from tinymem.messages.tokens import EstimatingCounter, count_message, counter_from
from tinymem.protocols import Embedder, Embeds, Journal, MessageRow, StepRow, SummaryRow
from tinymem.registry import embedder_from
from tinymem.steps.checks import check_callable, check_choice, check_strings, to_path
from tinymem.steps.content import check_content, clean
from tinymem.steps.progress import Progress, no_progress
from tinymem.steps.step import Step, dump_step
from tinymem.steps.types import ROLES
from tinymem.upkeep.exporting import FORMAT, SETTINGS
from tinymem.upkeep.forgetting import cleanup_on_failure
from tinymem.upkeep.lines import byte_lines

__all__ = ["Imported", "import_memory", "write_lines"]

MESSAGE = [str, int, int, bool]  # the types of its fields
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
    Then its steps are embedded; if that is interrupted, it continues when the memory is opened again. The default
    embedder is the one that the namespace remembers, and "static" for a new namespace, whatever the file says.

    Args:
        path: The memory's folder, made if there is none, or its address in a database.
        file: The file, which is not trusted.
        namespace: A new namespace.
        embedder: The embedder of the namespace, or its name.
        progress: Called with the number of steps that are read, and of all; then of those that are embedded.

    Returns:
        The numbers of imported items.

    Raises:
        InputError: The file cannot be read (file and line are named), or the namespace is in use.
        FormatError: The file has a newer format.
        TinymemError: The memory cannot be opened.
    """
    new = None if embedder is None else embedder_from(embedder)
    advance = check_callable("progress", progress) or no_progress
    place = to_place(path)
    with closing(byte_lines(to_path("file", file), LONGEST)) as lines, cleanup_on_failure(place, namespace):
        folder, journal = open_namespace_journal(place, namespace, create=True)
        with undo_on_failure(journal.close):
            archive = Archive(folder, new, "exact", counter_from(None), journal=journal)
            with journal.together():
                write_lines(journal, lines, str(file), advance)
    try:
        steps, last = journal.counts()["steps"], journal.next_number()
        embedded = archive.queue.embed_pending(advance=lambda step: advance(steps * step // last, steps))
        advance(steps, steps)
        return Imported(steps, len(journal.summaries.all()), journal.setting(SCRATCHPAD) is not None, embedded)
    finally:
        archive.close()


def write_lines(
    journal: Journal, lines: Iterable[tuple[int, str | bytes | None]], source: str, progress: Progress
) -> None:
    """Write an export's lines, with their numbers, to a new journal, inside the caller's transaction.

    Raises:
        InputError: A line makes no sense, or the journal is in use; the line is named as one of `source`.
        FormatError: The lines have a newer format.
    """
    if journal.next_number() > 1 or journal.setting(SCRATCHPAD) is not None:
        raise InputError(
            f"{journal.location} is in use (holds {journal.counts()['steps']} steps, or did so): choose a new "
            "namespace, or forget that one first"
        )
    number, line, steps = 1, None, 0
    for number, text in lines:
        with _place(source, number):
            if text is None:
                raise InputError(f"the line is longer than {LONGEST} bytes")
            line = json.loads(text)
            if number == 1:
                steps = _begin(journal, line)
            else:
                _write_line(journal, line)
        if number % BATCH == 0:
            progress(min(number - 1, steps), steps)  # the first line is no step
    with _place(source, number):
        if line != {"end": {"steps": journal.counts()["steps"]}}:
            raise InputError("the file is cut off: its last line, or some steps, are missing")


@contextmanager
def _place(source: str, number: int) -> Iterator[None]:
    """Raise errors again with their place."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{source}, line {number}: {error}") from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{source}, line {number}: {error}") from error


def _begin(journal: Journal, line: Any) -> int:
    """Reserve the numbers of the steps that are to come, and return how many these are."""
    match line:
        case {"tinymem_export": int(version)} if version > FORMAT:
            raise FormatError(f"the export has format {version}, this version reads {FORMAT}: upgrade tinymem")
        case {"tinymem_export": int(), "steps": int(steps), "next_number": int(next_number)}:
            journal.maintenance.go_on_from(next_number)
            return steps
    raise InputError("this is not the export of a memory: its first line must be an object with tinymem_export")


def _write_line(journal: Journal, line: Any) -> None:
    """Write what a line has."""
    match line:
        case {"step": _} if row := _read_row(line):
            journal.add([row])
        case {"messages": [*rows]} if all([*map(type, row)] == MESSAGE for row in rows):
            journal.messages.put([*map(MessageRow._make, rows)])
        case {
            "episode": {"first": int(first), "last": int(last), "session": str() | None as session, "text": str(text)}
        } if 0 < first <= last:
            journal.summaries.put([SummaryRow(first, last, session and clean(session), clean(text))])
        case {"settings": {**settings}}:
            texts = {name: json.dumps(settings[name]) for name in SETTINGS if name in settings}
            if SCRATCHPAD in texts:
                read_dump(texts[SCRATCHPAD])
            journal.keep(texts)
            read_calls(journal)
        case {"end": _}:
            pass
        case _:
            raise InputError(f"this is no line of an export: {safe_repr(line)}")


def _read_row(line: Any) -> StepRow | None:
    """Return the row of a step, with its view if it has one; None where the line has not what a row needs."""
    match line:
        case {"step": record, "tokens": int(tokens), "position": int(position), "archived": left,
              "window": bool(window), "milestone": bool(milestone),
              "view": view} if min(tokens, position) >= 0:  # fmt: skip
            row = row_of(_read_step(record), tokens, position, window)
        case _:
            return None
    shown = None if view is None else _read_step(view)
    if shown is not None and (not window or (shown.id, shown.step_number) != (row.id, row.number)):
        raise InputError("a view must be of a step in the window, and have its id and number")
    text = None if shown is None else dump_step(shown)
    return replace(row, milestone=milestone, archived=None if window else float(left), view=text)


def _read_step(record: Any) -> Step:
    """Return the step of a record, whose messages must be ones that can be counted and sent."""
    step = Step.from_dict(record)
    if (step.step_number or 0) < 1:
        raise InputError("the step has no number")
    for message in step.to_messages(style="tools"):
        calls = message.get("tool_calls") or ()
        check_content(message.get("content"), "content")
        check_choice("role", message.get("role", ""), *ROLES)
        check_strings("ids of calls", [message.get("tool_call_id") or "", *(call["id"] for call in calls)])
        count_message(message, EstimatingCounter())
    return step

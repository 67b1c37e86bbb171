"""The transcripts that hooks name: what is new in them is added, those of sessions that were killed included."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError
from tinymem.runs.growing import ingest_growing
from tinymem.runs.values import text_in

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["LATE", "add_transcript", "note_begun", "note_ended", "read_on", "transcript_of"]

UNENDED = "unended"  # the files of sessions that began and did not end, as JSON, until a later session has read them on
LATE = "written late"  # of an event: its agent writes the file behind the hook, so it is read on when another begins
UNREAD = "unread"  # what was said of files that cannot be read
FILES_MOST = 50  # files of sessions that did not end,
UNENDED_AGE = 86_400.0  # and the seconds without a change after one
STRANGE = ("message that is not understood", "line of type")  # how kinds of lines of other formats are called
SUBAGENTS_MOST = 500  # files of a session's subagents that are looked at


def transcript_of(event: Mapping[str, Any], must: bool = True) -> Path | None:
    """Return the file that an event names; None where it says that there is none, as for a session that is not kept.

    Raises:
        InputError: It does not say, and `must`.
    """
    given = text_in(event, "agent_transcript_path") or text_in(event, "transcript_path")
    if given:
        return Path(given).expanduser()
    if must and "transcript_path" not in event:
        raise InputError("standard input has no transcript_path")
    return None


def add_transcript(memory: HierarchicalMemory, file: Path, session: str) -> str:
    """Add what is new in the transcript of a session, and return what is wrong with it, once; "" for nothing.

    A last line that is still being written is left for the next time. A file of which nothing was ever understood is of
    another format.
    """
    done = ingest_growing(memory, file)
    fault, is_strange = done.error, any(kind.startswith(STRANGE) for kind in done.left_out)
    if not fault and is_strange and not done.steps + done.known and not any(memory.history(session or None)):
        fault = f"nothing is kept of {file}: its format is not known"
    return fault if fault and _note(memory, UNREAD, fault) else ""


def _add_subagents(memory: HierarchicalMemory, file: Path) -> None:
    """Add what is new in the transcripts of a session's subagents, which lie in a folder of its name."""
    for found in islice((file.with_suffix("") / "subagents").glob("*.jsonl"), SUBAGENTS_MOST):
        ingest_growing(memory, found)


def note_begun(memory: HierarchicalMemory, file: Path) -> None:
    """Note that a session has begun, so that a later one reads it on if nobody tells its end."""
    _note(memory, UNENDED, str(file))


def note_ended(memory: HierarchicalMemory, file: Path, is_late: bool) -> None:
    """Note that a session has ended, and add what its subagents said; one that is written later is read on."""
    _add_subagents(memory, file)
    _keep(memory, UNENDED, [known for known in _kept(memory, UNENDED) if is_late or known != str(file)])


def read_on(memory: HierarchicalMemory) -> None:
    """Read the sessions on that were killed: nothing else tells what they said last."""
    kept = list[str]()
    for file in map(Path, _kept(memory, UNENDED)):
        with suppress(InputError, OSError, ValueError):  # ValueError: a path with NUL
            age = time.time() - file.stat().st_mtime
            kept += [str(file)] if age < UNENDED_AGE else []
            ingest_growing(memory, file)
            _add_subagents(memory, file)
    _keep(memory, UNENDED, kept)


def _note(memory: HierarchicalMemory, setting: str, text: str) -> bool:
    """Keep a file, or what was said of one, in a setting, and return whether it was not there."""
    known = _kept(memory, setting)
    _keep(memory, setting, [*dict.fromkeys([*known, text])])
    return text not in known


def _kept(memory: HierarchicalMemory, setting: str) -> list[str]:
    found: list[str] = json.loads(memory.long_term.journal.setting(setting) or "[]")
    return found


def _keep(memory: HierarchicalMemory, setting: str, texts: Sequence[str]) -> None:
    """Keep the newest of such texts, where they are others than before."""
    if texts != _kept(memory, setting):
        memory.long_term.journal.keep({setting: json.dumps(texts[-FILES_MOST:])})

"""Session files that grow: each is read from its last prompt on, a place that the memory keeps.

What was added already is known by the ids of its lines. Where a line needs one before that prompt, or the bytes that
were read are not as they were, the file is read whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinymem.errors import InputError
from tinymem.memory.context.fitting import as_message
from tinymem.runs.ingest import Ingested, add_run, ingest_files
from tinymem.runs.lines import json_values, read_values
from tinymem.runs.readers import APART, runs_of
from tinymem.runs.transcripts import BEGINS, Transcript, is_event
from tinymem.runs.values import value_in

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["WatchedFolder", "ingest_growing"]

TRANSCRIPT = "read to "  # and a hash of a file's path: from where the session file is read, as JSON
PATTERN = "*.jsonl"
LOOKED_AT = 100  # lines of a file, to know what it is
KNOWN_BY = 4_096  # bytes, by whose hash it is known that a file is as it was


@dataclass(frozen=True)
class ReadPlace:
    """The place from which a session file is read.

    Attributes:
        offset: The bytes before it.
        lines: The lines before it.
        end: The bytes that were read already.
        digest: A hash of the last of them.
    """

    offset: int = 0
    lines: int = 0
    end: int = 0
    digest: str = ""


def ingest_growing(memory: HierarchicalMemory, file: Path) -> Ingested:
    """Add what is new in a file as `ingest_files` does; a session file is read from the last prompt on.

    A last line that is still being written waits. Where a person went back to an earlier prompt, what was said behind
    that and was added before stays in the session; what is said instead follows.
    """
    try:
        place, unread = _unread(memory, file)
    except (OSError, ValueError):  # ValueError: a path with NUL
        place, unread = ReadPlace(), b""
    written = unread[: unread.rfind(b"\n") + 1]
    if not place.end and not _is_session(unread):
        (done,) = ingest_files(memory, [file])
        return done if written == unread else replace(done, error=None)
    done = Ingested(str(file))
    if place.offset + len(written) > place.end:
        try:
            _read_on(memory, file, place, written, done)
        except InputError as error:
            done.error = str(error)
    return done


def _read_on(memory: HierarchicalMemory, file: Path, place: ReadPlace, unread: bytes, done: Ingested) -> None:
    """Add what is new in the bytes behind a place, and keep that of the last prompt in them."""
    done.left_out = Counter()
    lines = enumerate(unread.split(b"\n"), place.lines + 1)
    values = chain(_head(file) if place.offset else (), read_values(lines, done.left_out))
    transcript = Transcript(file, values, done.left_out)
    runs = [*runs_of(transcript)]
    is_marked = all(all(run.marks) for run in runs)
    if place.offset and (transcript.is_apart or done.left_out[APART] or not is_marked):
        unread = file.read_bytes()[: place.offset + len(unread)]
        _read_on(memory, file, replace(place, offset=0, lines=0), unread, done)
        return
    for run in runs:
        if place.end and is_marked:
            run = replace(run, steps=[*map(as_message, run.steps)], goes_on=True)
        add_run(memory, run, done)
    done.known = 0 if place.end else done.known  # of what was read again
    memory.long_term.journal.keep({_key(file): json.dumps(asdict(_place_of(transcript.begin, place, unread)))})


def _place_of(line: int, place: ReadPlace, unread: bytes) -> ReadPlace:
    """Return the place of a line, by its number, in the bytes behind another place."""
    before = max(line - 1 - place.lines, 0)
    again = unread.split(b"\n", before)[-1]
    end = place.offset + len(unread)
    return ReadPlace(end - len(again), place.lines + before, end, _digest(again))


class WatchedFolder:
    """A folder with files of JSON lines, in it or in folders below.

    Only the memory knows what was added: a new object, or a process that starts again, adds nothing twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._named: dict[Path, set[str]] = {}  # what was reported: types of lines that are left out, and errors

    def changes(self, memory: HierarchicalMemory) -> Iterator[Ingested]:
        """Read the files that changed since the last call; yield the outcome of each that gave something new.

        Each type of lines that are left out is named once for each file, and so is each error.
        """
        for file in sorted(self._folder.rglob(PATTERN)):
            try:
                now = file.stat()
            except OSError:  # it was moved away
                continue
            stamp = (now.st_ino, now.st_size, now.st_mtime_ns)
            if not now.st_size or not file.is_file() or self._seen.get(file) == stamp:
                continue
            self._seen[file] = stamp
            done = ingest_growing(memory, file)
            named = self._named.setdefault(file, set())
            done.left_out = Counter({kind: count for kind, count in done.left_out.items() if kind not in named})
            done.error = None if done.error in named else done.error
            named.update(done.left_out, [str(done.error)])
            if done.steps or done.error or (done.left_out and not done.known):
                yield done


# -- places as the memory keeps them ----------------------------------------------------------------------------------


def _unread(memory: HierarchicalMemory, file: Path) -> tuple[ReadPlace, bytes]:
    """Return the place that was kept of a file, if what was read there is as it was, and the bytes behind it."""
    place = ReadPlace(**json.loads(memory.long_term.journal.setting(_key(file)) or "{}"))
    with file.open("rb") as stream:
        stream.seek(place.offset)
        unread = stream.read()
        if place.end and place.digest != _digest(unread[: place.end - place.offset]):
            stream.seek(0)
            place, unread = ReadPlace(), stream.read()
    return place, unread


def _is_session(begin: bytes) -> bool:
    """Return True for a file of events, by its first value."""
    values = chain.from_iterable(json_values(line)[0] for line in begin.split(b"\n", LOOKED_AT)[:LOOKED_AT])
    return is_event(next(values, None))


def _head(file: Path) -> list[tuple[int, Any]]:
    """Return the first line of a file with its number, where it names the session; none where it does not."""
    with file.open("rb") as stream:
        values = json_values(stream.readline())[0]
    return [(1, value) for value in values if value_in(value, "type") in BEGINS]


def _key(file: Path) -> str:
    return f"{TRANSCRIPT}{sha256(str(file.resolve()).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _digest(read: bytes) -> str:
    """Return a hash of the last of the bytes that were read."""
    return sha256(read[-KNOWN_BY:]).hexdigest()

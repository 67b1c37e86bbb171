"""Session files that grow: each is read on from where its last reading ended, a place that the memory keeps.

Steps are durable before the place behind them is kept, so a process that is killed between the two reads some lines
again, whose messages are known. Where the bytes before a place are not those that were read, the file is read whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from io import BufferedReader, BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tinymem.errors import InputError
from tinymem.runs.ingest import Ingested, add_run, ingest_files, is_being_written, is_json
from tinymem.runs.lines import LONGEST, json_values, read_values
from tinymem.runs.readers import MALFORMED, Run, runs_of
from tinymem.runs.transcripts import DAMAGED, Transcript, is_event
from tinymem.upkeep.lines import byte_lines

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["WatchedFolder", "ingest_growing"]

TRANSCRIPT = "transcript "  # and a hash of a file's path: how far the session file was read, as JSON
PATTERN = "*.jsonl"
LOOKED_AT = 100  # lines of a file, to know what it is
KNOWN_BY = 4_096  # bytes before a place, by whose hash it is known


@dataclass(frozen=True)
class ReadPlace:
    """The place up to which a session file was read.

    Attributes:
        offset: The bytes before it.
        lines: The lines before it.
        digest: A hash of the last of these bytes.
        transcript: What reading goes on with.
    """

    offset: int = 0
    lines: int = 0
    digest: str = ""
    transcript: Mapping[str, Any] = field(default_factory=dict)


def ingest_growing(memory: HierarchicalMemory, file: Path) -> Ingested:
    """Add what is new in a file as `ingest_files` does; of a session file, only what comes behind its place is read.

    A last line that is still being written waits. Where a person went back to an earlier prompt, and what was said
    behind that was added before, this stays, and what is said instead is a session of its own: `SESSION/ID`, with the
    beginning of the id of its first line.
    """
    try:
        with file.open("rb") as stream:
            found = _kept(memory, file, stream) or _begin(file, stream)
            unread = stream.read() if found else b""
    except (OSError, ValueError):  # ValueError: a path with NUL
        found = None
    if found is None:
        (done,) = ingest_files(memory, [file])
        return _without_last(done) if is_being_written(file) else done
    done, (place, before) = Ingested(str(file)), found
    end = unread.rfind(b"\n") + 1
    try:
        if end:
            behind = _add(memory, file, place, unread[:end], done)
            place = replace(behind, digest=_digest(before + unread[:end]))
            memory.long_term.journal.keep({_key(file): json.dumps(asdict(place))})
        if is_json(unread[end:]):
            _add(memory, file, place, unread[end:], done)
    except InputError as error:
        done.error = str(error)
    return done


def _without_last(done: Ingested) -> Ingested:
    """Return an outcome less the damage of a last line that is still being written."""
    if done.error is not None:
        return replace(done, error=None)
    left = Counter(done.skipped) - Counter([DAMAGED])
    return replace(done, skipped=dict(left), damaged=done.damaged[:-1])


def _add(memory: HierarchicalMemory, file: Path, place: ReadPlace, unread: bytes, done: Ingested) -> ReadPlace:
    """Add the messages in the bytes behind a place, and return the place behind them."""
    transcript = Transcript(file.stem, place.transcript)
    runs = [*_runs(file, unread, place.lines, transcript)]
    begin = place
    if transcript.went_back:
        with file.open("rb") as stream:
            unread = stream.read(place.offset + len(unread))
        begin, branches = ReadPlace(), place.transcript["branches"]
        kept = {"known": place.lines, "left": branches["left"], "begun": branches["begun"]}
        transcript = Transcript(file.stem, {"branches": kept})
        runs = [*_runs(file, unread, 0, transcript)]
    try:
        for run in runs:
            add_run(memory, run, done)
    finally:
        done.leave_out(transcript.skipped, transcript.damaged)
        for run in runs:
            done.leave_out({MALFORMED: run.skipped.get(MALFORMED, 0)}, run.damaged if MALFORMED in run.skipped else [])
    lines = begin.lines + unread.count(b"\n")
    return ReadPlace(begin.offset + len(unread), lines, "", transcript.kept())


def _runs(file: Path, unread: bytes, before: int, transcript: Transcript) -> Iterator[Run]:
    """Read the bytes behind `before` lines of a session file."""
    lines = byte_lines(file, LONGEST, BufferedReader(BytesIO(unread)), before)
    damaged: list[str] = []
    try:
        yield from runs_of(file, read_values(lines, damaged), transcript)
    finally:
        lines.close()
        transcript.damaged += damaged
        transcript.skipped += Counter({DAMAGED: len(damaged)})


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
            done.skipped = {name: count for name, count in done.skipped.items() if name not in named}
            done.error = None if done.error in named else done.error
            named.update(done.skipped, [str(done.error)])
            if done.steps or done.error or (done.skipped and not done.known):
                yield done


# -- places as the memory keeps them ----------------------------------------------------------------------------------


def _kept(memory: HierarchicalMemory, file: Path, stream: BinaryIO) -> tuple[ReadPlace, bytes] | None:
    """Go to the place that was kept of a file, if all before it is as it was; return it with the bytes before it."""
    try:
        place = ReadPlace(**json.loads(memory.long_term.journal.setting(_key(file)) or ""))
    except (TypeError, ValueError):  # none, or one of another version
        return None
    stream.seek(max(0, place.offset - KNOWN_BY))
    before = stream.read(min(place.offset, KNOWN_BY))
    return (place, before) if place.digest == _digest(before) else None


def _begin(file: Path, stream: BinaryIO) -> tuple[ReadPlace, bytes] | None:
    """Go to the beginning of a session file, and return it; None for another kind of file."""
    stream.seek(0)
    values = chain.from_iterable(json_values(line)[0] for line in islice(stream, LOOKED_AT))
    is_session = is_event(next(values, None))
    stream.seek(0)
    return (ReadPlace(), b"") if is_session else None


def _key(file: Path) -> str:
    return f"{TRANSCRIPT}{sha256(str(file.resolve()).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _digest(before: bytes) -> str:
    """Return a hash of the last of the bytes before a place."""
    return sha256(before[-KNOWN_BY:]).hexdigest()

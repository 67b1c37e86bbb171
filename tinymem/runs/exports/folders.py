"""Exports that are more than one file of JSON: zip archives and folders of ChatGPT, Claude.ai and Slack.

An archive is not trusted: how many files it has and how long each may become is limited before anything is unpacked.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from tinymem.errors import InputError
from tinymem.runs.exports import Conversation, conversations_of
from tinymem.runs.exports.chatgpt import CHATGPT
from tinymem.runs.exports.claude import CLAUDE, read_memories, read_projects
from tinymem.runs.exports.cursor import read_cursor
from tinymem.runs.exports.slack import Names, read_channel
from tinymem.runs.values import mappings_in

__all__ = ["conversations_in", "is_export"]

SQLITE = b"SQLite format 3\0"  # the first bytes of a database
LARGEST = 1 << 30  # bytes of one file
ALWAYS, RATIO = 16 << 20, 40  # bytes that a file of an archive may become, and how many times its own more
MOST = 100_000  # files
NAMED = 40  # files that are not read and named each
DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError, EOFError, OSError,
          ValueError, IndexError, OverflowError)  # fmt: skip
ABOUT = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json")  # Slack's lists of names
HIDDEN = re.compile(r"(^|/)(\.|__MACOSX)")  # in the name of a file
BEGINNING = re.compile(r"(^|/)(users|conversations[^/]*)\.json\Z")  # of an export
Files = Mapping[str, Callable[[], bytes]]  # by their paths in the export, with what reads each


def is_export(path: Path) -> bool:
    """Return True for a folder, a zip archive or a database."""
    try:
        if path.is_dir():
            return True
        if path.is_fifo():  # what is read of it is gone
            return False
        with path.open("rb") as stream:
            begin = stream.read(len(SQLITE))
        return begin == SQLITE or (begin[:2] == b"PK" and zipfile.is_zipfile(path))
    except DAMAGE:  # ValueError: a path with NUL
        return False


def conversations_in(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of an export.

    Raises:
        InputError: It is none that is known, or is damaged.
    """
    if path.is_dir() or zipfile.is_zipfile(path):
        with _files_of(path) as files:
            yield from _read(files, path)
    else:
        yield from read_cursor(path)


# -- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _files_of(path: Path) -> Iterator[Files]:
    """Give the files of a folder or an archive, below the folder that the export is in."""
    if path.is_dir():
        yield _without_folder(dict(_files_in_folder(path)))
        return
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    with archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        _check_count(len(infos), path)
        yield _without_folder({info.filename: _unpacker(archive, info, path) for info in infos})


def _files_in_folder(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    count = 0
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        count += len(names)
        _check_count(count, path)
        for name in names:
            file = Path(folder) / name
            if file.is_file():
                yield file.relative_to(path).as_posix(), _reader(file, path)


def _check_count(count: int, path: Path) -> None:
    if count > MOST:
        raise InputError(f"{path} has {count:,} files, more than {MOST:,}: give the export's own folder")


def _without_folder(files: Files) -> Files:
    """Return the files by their paths below the folder that the export begins in, as some archives have one."""
    kept = {name: read for name, read in files.items() if not HIDDEN.search(name)}
    begins = [PurePosixPath(name).parent for name in kept if BEGINNING.search(name)]
    root = min(begins, key=lambda folder: (len(folder.parts), str(folder)), default=None)
    if root is None or not root.parts:
        return kept
    return {name.removeprefix(f"{root}/"): read for name, read in kept.items() if name.startswith(f"{root}/")}


def _reader(file: Path, path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            with file.open("rb") as stream:
                return _bounded(stream, LARGEST, path, file.name)
        except OSError as error:
            raise InputError(f"{path}, {file.name} cannot be read: {error.strerror or error}") from error

    return read


def _unpacker(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Callable[[], bytes]:
    most = min(max(ALWAYS, RATIO * info.compress_size), LARGEST)

    def unpack() -> bytes:
        if info.file_size > most:
            raise InputError(f"{path}, {info.filename}: becomes {info.file_size:,} bytes, more than {most:,}: unpack "
                             "it, and give the folder")  # fmt: skip
        try:
            with archive.open(info) as stream:
                return _bounded(stream, most, path, info.filename)
        except DAMAGE as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}, {info.filename} cannot be read: {error}") from error

    return unpack


def _bounded(stream: Any, most: int, path: Path, name: str) -> bytes:
    data: bytes = stream.read(most + 1)
    if len(data) > most:
        raise InputError(f"{path}, {name}: is longer than {most:,} bytes")
    return data


# -- ChatGPT, Claude.ai and Slack -------------------------------------------------------------------------------------


def _read(files: Files, path: Path) -> Iterator[Conversation]:
    """Read an export; files that are not read are counted with its first conversation."""
    tops = sorted(name for name in files if "/" not in name and name.endswith(".json"))
    chats = [name for name in tops if name.startswith("conversations")]
    if chats:
        found, known = _of_chats(files, path, chats), {*chats, "memories.json", "projects.json"}
    elif "users.json" in files:
        found, known = _of_slack(files, path), {*ABOUT, *_days(files)}
    else:
        wanted = "conversations.json (ChatGPT, Claude.ai) or users.json (Slack)"
        raise InputError(f"{path} is no export that is known: it should have {wanted}")
    unread = _unread(name for name in files if name not in known)
    for conversation in found:
        conversation.skipped.update(unread)
        unread = Counter()
        yield conversation


def _unread(names: Iterator[str]) -> Counter[str]:
    """Count files that are not read: by their names, or those in a folder together."""
    count = Counter(name if "/" not in name else f"{name.partition('/')[0]}/" for name in names)
    named = Counter({f"file that was not read ({name[:80]})": count[name] for name in sorted(count)[:NAMED]})
    return named + Counter({"file that was not read": count.total() - named.total()})


def _of_chats(files: Files, path: Path, names: list[str]) -> Iterator[Conversation]:
    program = CLAUDE if "projects.json" in files else CHATGPT
    for name in names:
        value = _value(files, name, path)
        found = iter(()) if value == [] else conversations_of(value, PurePosixPath(name).stem)
        if found is None:
            raise InputError(f"{path}, {name}: has no conversations of ChatGPT or Claude.ai")
        for conversation in found:
            program = CLAUDE if conversation.session.startswith(CLAUDE) else program
            yield conversation
    if "projects.json" in files:
        yield from read_projects(_value(files, "projects.json", path))
    if "memories.json" in files:
        yield read_memories(_value(files, "memories.json", path), program)


def _days(files: Files) -> list[str]:
    return sorted(name for name in files if name.count("/") == 1 and name.endswith(".json"))


def _of_slack(files: Files, path: Path) -> Iterator[Conversation]:
    """Read the channels; a day that is damaged costs that day."""
    about = {name: _value(files, name, path) for name in ABOUT if name in files}
    listed = [channel for name in ABOUT[1:] for channel in mappings_in(about, name)]
    names, left = Names(about["users.json"], listed), Counter[str]()
    channels: dict[str, list[str]] = {}
    for day in _days(files):
        channels.setdefault(day.partition("/")[0], []).append(day)
    for channel, days in channels.items():
        entries: list[Any] = []
        for day in days:
            try:
                entries += _list_in(files, day, path)
            except InputError:
                left[f"file that is damaged ({day[:80]})"] += 1
        conversation = read_channel(entries, names, f"slack/{channel[:200]}")
        conversation.skipped.update(left)
        left = conversation.skipped
        if conversation.messages:
            left = Counter()
            yield conversation
    if left:
        yield Conversation("slack", [], left)


def _list_in(files: Files, name: str, path: Path) -> list[Any]:
    value = _value(files, name, path)
    if not isinstance(value, list):
        raise InputError(f"{path}, {name}: should be a list")
    return value


def _value(files: Files, name: str, path: Path) -> Any:
    try:
        return json.loads(files[name]())
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, {name}: not valid JSON: {error}") from error

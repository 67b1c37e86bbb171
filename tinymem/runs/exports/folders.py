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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from pathlib import Path, PurePosixPath
from typing import Any

from tinymem.errors import InputError
from tinymem.runs.exports import ExportedChat, conversations_of
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
Opener = Callable[[], Any]  # of a stream of bytes


@dataclass(frozen=True)
class _Files:
    """The files of an export by their paths in it: what opens each, and the bytes that it may have."""

    path: Path
    openers: Mapping[str, Opener]
    most: Mapping[str, int]

    def read(self, name: str) -> Any:
        """Return the value of a file of JSON."""
        most = self.most[name]
        try:
            with self.openers[name]() as stream:
                data = stream.read(most + 1)
        except DAMAGE as error:
            raise InputError(f"{self.path}, {name} cannot be read: {error}") from error
        if len(data) > most:
            raise InputError(f"{self.path}, {name}: becomes more than {most:,} bytes: unpack it, and give the folder")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path}, {name}: not valid JSON: {error}") from error

    def values(self, name: str) -> list[Any]:
        """Return the values in a file with a list of them."""
        found = self.read(name)
        if not isinstance(found, list):
            raise InputError(f"{self.path}, {name}: should be a list")
        return found


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


def conversations_in(path: Path) -> Iterator[ExportedChat]:
    """Yield the conversations of an export.

    Raises:
        InputError: It is none that is known, or is damaged.
    """
    if path.is_dir() or zipfile.is_zipfile(path):
        with _files_of(path) as files:
            yield from _read(files)
    else:
        yield from read_cursor(path)


# -- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _files_of(path: Path) -> Iterator[_Files]:
    """Give the files of a folder or an archive, below the folder that the export is in."""
    if path.is_dir():
        opened = {name: partial((path / name).open, "rb") for name in _names_in(path)}
        yield _without_folder(_Files(path, opened, dict.fromkeys(opened, LARGEST)))
        return
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    with archive:
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        _check_count(len(infos), path)
        most = {name: min(max(ALWAYS, RATIO * info.compress_size), LARGEST) for name, info in infos.items()}
        yield _without_folder(_Files(path, {name: partial(archive.open, info) for name, info in infos.items()}, most))


def _names_in(path: Path) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        count += len(names)
        _check_count(count, path)
        files = [Path(folder, name) for name in names]
        yield from (file.relative_to(path).as_posix() for file in files if file.is_file())


def _check_count(count: int, path: Path) -> None:
    if count > MOST:
        raise InputError(f"{path} has {count:,} files, more than {MOST:,}: give the export's own folder")


def _without_folder(files: _Files) -> _Files:
    """Return the files by their paths below the folder that the export begins in, as some archives have one."""
    names = [name for name in files.openers if not HIDDEN.search(name)]
    begins = [PurePosixPath(name).parent for name in names if BEGINNING.search(name)]
    root = min(begins, key=lambda folder: (len(folder.parts), str(folder)), default=PurePosixPath())
    above = f"{root}/" if root.parts else ""
    inside = {name.removeprefix(above): name for name in names if name.startswith(above)}
    openers = {name: files.openers[whole] for name, whole in inside.items()}
    return _Files(files.path, openers, {name: files.most[whole] for name, whole in inside.items()})


# -- ChatGPT, Claude.ai and Slack -------------------------------------------------------------------------------------


def _read(files: _Files) -> Iterator[ExportedChat]:
    """Read an export; files that are not read are counted with its first conversation."""
    chats = sorted(name for name in files.openers if name.startswith("conversations") and BEGINNING.match(name))
    if chats:
        found, known = _of_chats(files, chats), {*chats, "memories.json", "projects.json"}
    elif "users.json" in files.openers:
        found, known = _of_slack(files), {*ABOUT, *_days(files)}
    else:
        wanted = "conversations.json (ChatGPT, Claude.ai) or users.json (Slack)"
        raise InputError(f"{files.path} is no export that is known: it should have {wanted}")
    unread = _unread(files.openers.keys() - known)
    for conversation in found:
        conversation.skipped.update(unread)
        unread = Counter()
        yield conversation


def _unread(names: Iterable[str]) -> Counter[str]:
    """Count files that are not read: by their names, or those in a folder together."""
    count = Counter(name if "/" not in name else f"{name.partition('/')[0]}/" for name in names)
    named = Counter({f"file that was not read ({name[:80]})": count[name] for name in sorted(count)[:NAMED]})
    return named + Counter({"file that was not read": count.total() - named.total()})


def _of_chats(files: _Files, names: list[str]) -> Iterator[ExportedChat]:
    program = CLAUDE if "projects.json" in files.openers else CHATGPT
    for name in names:
        value = files.read(name)
        found = iter(()) if value == [] else conversations_of(value, PurePosixPath(name).stem)
        if found is None:
            raise InputError(f"{files.path}, {name}: has no conversations of ChatGPT or Claude.ai")
        for conversation in found:
            program = CLAUDE if conversation.session.startswith(CLAUDE) else program
            yield conversation
    if "projects.json" in files.openers:
        yield from read_projects(files.read("projects.json"))
    if "memories.json" in files.openers:
        yield read_memories(files.read("memories.json"), program)


def _days(files: _Files) -> list[str]:
    return sorted(name for name in files.openers if name.count("/") == 1 and name.endswith(".json"))


def _of_slack(files: _Files) -> Iterator[ExportedChat]:
    """Read the channels; a day that is damaged costs that day."""
    about = {name: files.read(name) for name in ABOUT if name in files.openers}
    listed = chain.from_iterable(mappings_in(about, name) for name in ABOUT[1:])
    names, left = Names(about["users.json"], [*listed]), Counter[str]()
    for channel, days in groupby(_days(files), key=lambda day: day.partition("/")[0]):
        entries: list[Any] = []
        for day in days:
            try:
                entries += files.values(day)
            except InputError:
                left[f"file that is damaged ({day[:80]})"] += 1
        conversation = read_channel(entries, names, f"slack/{channel[:200]}")
        conversation.skipped.update(left)
        left = conversation.skipped
        if conversation.messages:
            left = Counter()
            yield conversation
    if left:
        yield ExportedChat("slack", [], left)

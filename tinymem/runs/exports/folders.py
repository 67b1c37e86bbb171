"""Exports that are more than one file of JSON: zip archives and folders of ChatGPT, Claude.ai and Slack.

An archive is not trusted: how many files it has, and how many bytes they may become in all, is limited, and no link is
followed that leads out of it.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from typing import Any

from tinymem.errors import InputError
from tinymem.runs.exports import ExportedChat, conversations_of
from tinymem.runs.exports.chatgpt import CHATGPT
from tinymem.runs.exports.claude import CLAUDE, read_memories, read_projects
from tinymem.runs.exports.cursor import read_cursor
from tinymem.runs.exports.slack import Names, read_channel
from tinymem.runs.values import mappings_in

__all__ = ["conversations_in", "files_below", "holds_export", "is_export", "unread"]

SQLITE = b"SQLite format 3\0"  # the first bytes of a database
LARGEST = 1 << 30  # bytes of all files of an export
ALWAYS, RATIO = 16 << 20, 40  # bytes that an archive may become in all, or so many times its own if that is more
MOST = 100_000  # files
NAMED = 40  # files that are not read and named each
DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError, EOFError, OSError,
          ValueError, IndexError, OverflowError)  # fmt: skip
ABOUT = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json")  # Slack's lists of names
HIDDEN = re.compile(r"(^|/)(\.|__MACOSX)")  # in the name of a file
BEGINNING = re.compile(r"(^|/)(users|conversations[^/]*)\.json\Z")  # of an export
Opener = Callable[[], Any]  # of a stream of bytes


class _Files:
    """The files of an export by their paths in it.

    Attributes:
        path: That of the export.
        openers: What opens each file.
        links: Names of links that are not followed.
        left: The bytes that may yet be read; less than none after too many.
    """

    def __init__(self, path: Path, openers: Mapping[str, Opener], links: Sequence[str], most: int) -> None:
        names = [name for name in openers if not HIDDEN.search(name)]
        if len(names) > MOST:
            raise InputError(f"{path} has {len(names):,} files, more than {MOST:,}: give the export's own folder")
        begins = [PurePosixPath(name).parent for name in names if BEGINNING.search(name)]
        root = min(begins, key=lambda folder: (len(folder.parts), str(folder)), default=PurePosixPath())
        above = f"{root}/" if root.parts else ""  # some archives have a folder around the export
        self.path, self.links, self.left, self._most = path, links, most, most
        self.openers = {name.removeprefix(above): openers[name] for name in names if name.startswith(above)}

    def read(self, name: str) -> Any:
        """Return the value of a file of JSON."""
        try:
            with self.openers[name]() as stream:
                data = stream.read(self.left + 1)
        except DAMAGE as error:
            raise InputError(f"{self.path}, {name} cannot be read: {error}") from error
        self.left -= len(data)
        if self.left < 0:
            advice = "unpack it, and give the folder, or fewer files at once"
            raise InputError(f"{self.path}, up to {name}: becomes more than {self._most:,} bytes: {advice}")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path}, {name}: not valid JSON: {error}") from error


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
        names, links = files_below(path)
        yield _Files(path, {name: partial((path / name).open, "rb") for name in names}, links, LARGEST)
        return
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    with archive:
        infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        links = [name for name, info in infos.items() if S_ISLNK(info.external_attr >> 16)]
        openers = {name: partial(archive.open, infos[name]) for name in infos.keys() - {*links}}
        yield _Files(path, openers, links, min(max(ALWAYS, RATIO * path.stat().st_size), LARGEST))


def files_below(path: Path) -> tuple[list[str], list[str]]:
    """Return the files in a folder and below by their paths in it, and the links that lead out of it."""
    root, files, links = os.path.realpath(path), list[str](), list[str]()
    for folder, folders, names in os.walk(path):
        for file in (Path(folder, name) for name in (*names, *folders)):
            name = file.relative_to(path).as_posix()
            if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(root):
                links.append(name)
            elif file.is_file():
                files.append(name)
    return sorted(files), links


def holds_export(names: Collection[str]) -> bool:
    """Return True for the files of an export of ChatGPT, Claude.ai or Slack."""
    return any(map(_is_chats, names)) or ("users.json" in names and bool(_days(names)))


def unread(names: Iterable[str], links: Iterable[str]) -> Counter[str]:
    """Count files that are not read: by their names, or those in a folder together."""
    seen = [name for name in names if not HIDDEN.search(name)]
    count = Counter(name if "/" not in name else f"{name.partition('/')[0]}/" for name in seen)
    named = Counter({f"file that was not read ({name[:80]})": count[name] for name in sorted(count)[:NAMED]})
    outward = Counter(f"link that was not followed ({name[:80]})" for name in sorted(links)[:NAMED])
    return named + outward + Counter({"file that was not read": count.total() - named.total()})


# -- ChatGPT, Claude.ai and Slack -------------------------------------------------------------------------------------


def _read(files: _Files) -> Iterator[ExportedChat]:
    """Read an export; files that are not read are counted with its first conversation."""
    if not holds_export(files.openers):
        wanted = "conversations.json (ChatGPT, Claude.ai), or users.json and a folder for each channel (Slack)"
        raise InputError(f"{files.path} is no export that is known: it should have {wanted}")
    if chats := sorted(filter(_is_chats, files.openers)):
        found, known = _of_chats(files, chats), {*chats, "memories.json", "projects.json"}
    else:
        found, known = _of_slack(files), {*ABOUT, *_days(files.openers)}
    left = unread(files.openers.keys() - known, files.links)
    for conversation in found:
        conversation.skipped.update(left)
        left = Counter()
        yield conversation
    if left:
        yield ExportedChat(files.path.name, [], left)


def _is_chats(name: str) -> bool:
    return name.startswith("conversations") and BEGINNING.match(name) is not None


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


def _days(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.count("/") == 1 and name.endswith(".json"))


def _of_slack(files: _Files) -> Iterator[ExportedChat]:
    """Read the channels; a day that is damaged costs that day."""
    about = {name: files.read(name) for name in ABOUT if name in files.openers}
    listed = chain.from_iterable(mappings_in(about, name) for name in ABOUT[1:])
    names, left = Names(about["users.json"], [*listed]), Counter[str]()
    for channel, days in groupby(_days(files.openers), key=lambda day: day.partition("/")[0]):
        entries: list[Any] = []
        for day in days:
            try:
                values = files.read(day)
                values = values if isinstance(values, list) else [values]
                said = mappings_in(values)
                entries += said
                left += Counter({"entry without a message": len(values) - len(said)})
            except InputError:
                if files.left < 0:
                    raise
                left[f"file that is damaged ({day[:80]})"] += 1
        conversation = read_channel(entries, names, f"slack/{channel[:200]}")
        conversation.skipped.update(left)
        left = conversation.skipped
        if conversation.messages:
            left = Counter()
            yield conversation
    if left:
        yield ExportedChat("slack", [], left)

"""Exports that are more than one file of JSON: zip archives and folders of ChatGPT, Claude.ai and Slack.

An archive is not trusted: nothing of it is unpacked, and how many bytes its files of JSON may become in all is limited.
No link is followed.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tinymem.errors import InputError
from tinymem.runs.exports import ExportedChat, conversations_of
from tinymem.runs.exports.claude import read_memories, read_projects
from tinymem.runs.exports.slack import Names, read_channel
from tinymem.runs.values import mappings_in

__all__ = ["conversations_in", "files_below", "holds_export", "is_export", "unread"]

LARGEST = 1 << 30  # bytes of JSON that an archive may become in all
DAMAGE = (zipfile.BadZipFile, RuntimeError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, IndexError,
          OverflowError)  # fmt: skip
LISTS = ("channels.json", "groups.json", "dms.json", "mpims.json")  # Slack's channels
_HIDDEN = re.compile(r"(^|/)(\.|__MACOSX)")  # in the name of a file
_BEGINNING = re.compile(r"((?:.*/)?)(?:users|conversations[^/]*)\.json")  # of an export
_CHATS = re.compile(r"conversations[^/]*\.json")
_DAY = re.compile(r"[^/]+/[^/]+\.json")


class _Files(NamedTuple):
    """The files of an export: its path, their names, what gives their bytes, and the links beside them."""

    path: Path
    names: Collection[str]
    bytes_of: Callable[[str], bytes]
    links: Collection[str] = ()

    def read(self, name: str) -> Any:
        """Return the value of a file of JSON."""
        try:
            return json.loads(self.bytes_of(name))
        except DAMAGE as error:
            raise InputError(f"{self.path}, {name} cannot be read as JSON: {error}") from error


def is_export(path: Path) -> bool:
    """Return True for a folder or a zip archive."""
    return os.path.isdir(path) or (os.path.isfile(path) and zipfile.is_zipfile(path))


def conversations_in(path: Path) -> Iterator[ExportedChat]:
    """Yield the conversations of an export; files that are not read are counted with the first one.

    Raises:
        InputError: It is none that is known, or is damaged.
    """
    with _files_of(path) as files:
        if not holds_export(files.names):
            wanted = "conversations.json (ChatGPT, Claude.ai), or users.json and a folder for each channel (Slack)"
            raise InputError(f"{path} is no export that is known: it should have {wanted}")
        if chats := sorted(filter(_CHATS.fullmatch, files.names)):
            found, known = _of_chats(files, chats), {*chats, "memories.json", "projects.json"}
        else:
            days = sorted(filter(_DAY.fullmatch, files.names))
            found, known = _of_slack(files, days), {*days, *LISTS, "users.json"}
        first = next(found, None) or ExportedChat(path.name)
        first.skipped.update(unread({*files.names} - known, files.links))
        yield first
        yield from found


@contextmanager
def _files_of(path: Path) -> Iterator[_Files]:
    """Give the files of a folder or an archive, from the folder on that the export is in."""
    if path.is_dir():
        names, links = files_below(path)
        begin, below = _below(names)
        yield _Files(path, below, lambda name: (path / begin / name).read_bytes(), links)
        return
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    with archive:
        sizes = {info.filename: info.file_size for info in archive.infolist() if not info.is_dir()}
        if sum(size for name, size in sizes.items() if name.endswith(".json")) > LARGEST:
            raise InputError(f"{path} becomes more than {LARGEST:,} bytes: unpack it, and give the folder")
        begin, below = _below(sizes)
        yield _Files(path, below, lambda name: archive.read(begin + name))


def files_below(path: Path) -> tuple[list[str], list[str]]:
    """Return the files in a folder and below by their paths in it, and the links, none of which is followed."""
    files: list[str] = []
    links: list[str] = []
    for folder, folders, names in os.walk(path):
        for file in (Path(folder, name) for name in (*names, *folders)):
            if file.is_symlink():
                links.append(str(file))
            elif file.is_file():
                files.append(file.relative_to(path).as_posix())
    return sorted(files), links


def _below(names: Iterable[str]) -> tuple[str, list[str]]:
    """Return the folder that an export is in, "" or with a slash, and the names of the files below it."""
    shown = [name for name in names if not _HIDDEN.search(name)]
    begins = [found[1] for found in map(_BEGINNING.fullmatch, shown) if found]
    begin = min(begins, key=lambda folder: (folder.count("/"), folder), default="")
    return begin, [name.removeprefix(begin) for name in shown if name.startswith(begin)]


def holds_export(names: Collection[str]) -> bool:
    """Return True for the files of an export of ChatGPT, Claude.ai or Slack."""
    return any(map(_CHATS.fullmatch, names)) or ("users.json" in names and any(map(_DAY.fullmatch, names)))


def unread(names: Iterable[str], links: Collection[str]) -> Counter[str]:
    """Count files that are not read, by the ends of their names, and links that are not followed."""
    shown = (name for name in names if not _HIDDEN.search(name))
    count = Counter(f"file that was not read ({Path(name).suffix[:20] or 'no suffix'})" for name in shown)
    return count + Counter({"link that was not followed": len(links)})


def _of_chats(files: _Files, names: Iterable[str]) -> Iterator[ExportedChat]:
    for name in names:
        value = files.read(name)
        found = conversations_of(value, name)
        if found is None and value != []:
            raise InputError(f"{files.path}, {name}: has no conversations of ChatGPT or Claude.ai")
        yield from found or ()
    if "projects.json" in files.names:
        yield from read_projects(files.read("projects.json"))
    if "memories.json" in files.names:
        yield read_memories(files.read("memories.json"))


def _of_slack(files: _Files, days: Iterable[str]) -> Iterator[ExportedChat]:
    """Read the channels; a day that is damaged costs that day."""
    channels: list[Any] = []
    for name in LISTS:
        channels += mappings_in(files.read(name)) if name in files.names else []
    names = Names(files.read("users.json"), channels)
    for channel, its_days in groupby(days, key=lambda day: day.partition("/")[0]):
        entries: list[Any] = []
        damaged: list[str] = []
        for day in its_days:
            try:
                said = files.read(day)
                entries += said if isinstance(said, list) else [said]
            except InputError:
                damaged.append(f"file that is damaged ({day[:80]})")
        conversation = read_channel(entries, names, f"slack/{channel[:200]}")
        conversation.skipped.update(damaged)
        yield conversation

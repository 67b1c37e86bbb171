"""Exports that are more than one file of JSON: zip archives and folders of ChatGPT, Claude.ai and Slack.

An archive is not trusted: how many bytes its files of JSON may become in all is limited, and no link is followed that
leads out of it.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, groupby
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tinymem.errors import InputError
from tinymem.runs.exports import ExportedChat, conversations_of
from tinymem.runs.exports.chatgpt import CHATGPT
from tinymem.runs.exports.claude import CLAUDE, read_memories, read_projects
from tinymem.runs.exports.slack import Names, read_channel
from tinymem.runs.values import mappings_in

__all__ = ["conversations_in", "files_below", "holds_export", "is_export", "unread"]

LARGEST = 1 << 30  # bytes of JSON that an archive may become in all
NAMED = 40  # files that are not read and named each
DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, lzma.LZMAError, EOFError, OSError,
          ValueError, IndexError, OverflowError)  # fmt: skip
ABOUT = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json")  # Slack's lists of names
HIDDEN = re.compile(r"(^|/)(\.|__MACOSX)")  # in the name of a file
BEGINNING = re.compile(r"(^|/)(users|conversations[^/]*)\.json\Z")  # of an export


class _Files(NamedTuple):
    """The files of an export: its path, the folder that they are in, and their names there."""

    path: Path
    folder: Path
    names: Collection[str]
    links: Collection[str]
    others: Collection[str] = ()  # that stay in the archive

    def read(self, name: str) -> Any:
        """Return the value of a file of JSON."""
        try:
            return json.loads((self.folder / name).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{self.path}, {name} cannot be read as JSON: {error}") from error


def is_export(path: Path) -> bool:
    """Return True for a folder or a zip archive."""
    try:
        if path.is_dir():
            return True
        if path.is_fifo():  # what is read of it is gone
            return False
        with path.open("rb") as stream:
            is_archive = stream.read(2) == b"PK"
        return is_archive and zipfile.is_zipfile(path)
    except DAMAGE:  # ValueError: a path with NUL
        return False


def conversations_in(path: Path) -> Iterator[ExportedChat]:
    """Yield the conversations of an export.

    Raises:
        InputError: It is none that is known, or is damaged.
    """
    with _files_of(path) as files:
        yield from _read(files)


# -- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _files_of(path: Path) -> Iterator[_Files]:
    """Give the files of a folder or an archive, below the folder that the export is in."""
    if path.is_dir():
        yield _found(path, path)
        return
    with TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                others = _unpack(archive, folder)
        except DAMAGE as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        yield _found(path, Path(folder))._replace(others=others)


def _unpack(archive: zipfile.ZipFile, folder: str) -> list[str]:
    """Unpack the files of JSON, less those that are damaged; return the names of the other files."""
    files = [info for info in archive.infolist() if not info.is_dir()]
    wanted = [info for info in files if info.filename.endswith(".json") and not HIDDEN.search(info.filename)]
    if sum(info.file_size for info in wanted) > LARGEST:
        raise InputError(f"it becomes more than {LARGEST:,} bytes: unpack it, and give the folder")
    for info in wanted:
        with suppress(*DAMAGE):
            archive.extract(info, folder)
    return [info.filename for info in files if info not in wanted]


def _found(path: Path, folder: Path) -> _Files:
    """Return the files of an export, which may have a folder around it."""
    names, links = files_below(folder)
    begins = [PurePosixPath(name).parent for name in names if BEGINNING.search(name) and not HIDDEN.search(name)]
    root = min(begins, key=lambda above: (len(above.parts), str(above)), default=PurePosixPath())
    inside = [PurePosixPath(name) for name in names if not HIDDEN.search(name)]
    below = [str(name.relative_to(root)) for name in inside if name.is_relative_to(root)]
    return _Files(path, folder / root, below, links)


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
    """Count files that are not read, the first ones by their names."""
    left = sorted(name for name in names if not HIDDEN.search(name))
    count = Counter(f"file that was not read ({name[:80]})" for name in left[:NAMED])
    count.update(f"link that was not followed ({name[:80]})" for name in sorted(links)[:NAMED])
    return count + Counter({"file that was not read": len(left[NAMED:])})


# -- ChatGPT, Claude.ai and Slack -------------------------------------------------------------------------------------


def _read(files: _Files) -> Iterator[ExportedChat]:
    """Read an export; files that are not read are counted with its first conversation."""
    if not holds_export(files.names):
        wanted = "conversations.json (ChatGPT, Claude.ai), or users.json and a folder for each channel (Slack)"
        raise InputError(f"{files.path} is no export that is known: it should have {wanted}")
    if chats := sorted(filter(_is_chats, files.names)):
        found, known = _of_chats(files, chats), {*chats, "memories.json", "projects.json"}
    else:
        found, known = _of_slack(files), {*ABOUT, *_days(files.names)}
    left = unread({*files.names, *files.others} - known, files.links)
    for conversation in found:
        conversation.skipped.update(left)
        left = Counter()
        yield conversation
    if left:
        yield ExportedChat(files.path.name, [], left)


def _is_chats(name: str) -> bool:
    return name.startswith("conversations") and BEGINNING.match(name) is not None


def _of_chats(files: _Files, names: list[str]) -> Iterator[ExportedChat]:
    program = CLAUDE if "projects.json" in files.names else CHATGPT
    for name in names:
        value = files.read(name)
        found = iter(()) if value == [] else conversations_of(value, PurePosixPath(name).stem)
        if found is None:
            raise InputError(f"{files.path}, {name}: has no conversations of ChatGPT or Claude.ai")
        for conversation in found:
            program = CLAUDE if conversation.session.startswith(CLAUDE) else program
            yield conversation
    if "projects.json" in files.names:
        yield from read_projects(files.read("projects.json"))
    if "memories.json" in files.names:
        yield read_memories(files.read("memories.json"), program)


def _days(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.count("/") == 1 and name.endswith(".json"))


def _of_slack(files: _Files) -> Iterator[ExportedChat]:
    """Read the channels; a day that is damaged costs that day."""
    about = {name: files.read(name) for name in ABOUT if name in files.names}
    listed = chain.from_iterable(mappings_in(about, name) for name in ABOUT[1:])
    names, left = Names(about["users.json"], [*listed]), Counter[str]()
    for channel, days in groupby(_days(files.names), key=lambda day: day.partition("/")[0]):
        entries: list[Any] = []
        for day in days:
            try:
                values = files.read(day)
                values = values if isinstance(values, list) else [values]
                said = mappings_in(values)
                entries += said
                left += Counter({"entry without a message": len(values) - len(said)})
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

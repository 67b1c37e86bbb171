"""Files below /memories as steps of a memory: a step for each version of a file, of which recall finds the newest.

They answer as the files of Anthropic's own memory tool do (`BetaLocalFilesystemMemoryTool`), word for word.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Any, NamedTuple

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, FILE, MessageStep

__all__ = ["FileError", "FileVersion", "MemoryFiles"]

ROOT = "/memories"
ATTEMPTS = 1_000  # at an edit, each after another process was faster
DEEP = 2  # levels of folders that are listed
FOLDER_SIZE = 4_096  # bytes that a folder has, as on most file systems
WIDTH, MOST_LINES = 6, 999_999  # digits of a line's number, and lines of a file that is shown
AROUND = 2  # lines shown on either side of an edit
UNITS = "BKMG"


class FileError(Exception):
    """An operation that cannot be done, in words for the model."""


class _OutdatedError(Exception):
    """Somebody else wrote a file after it was read."""


class FileVersion(NamedTuple):
    """A version of a file, or of a folder, which has no text: the step that it is, and what the file is known by."""

    step: Step
    file: str
    path: str  # below the root
    number: int  # from 1 on
    is_folder: bool

    @property
    def text(self) -> str:
        """The content of the file."""
        return self.step.content if isinstance(self.step, MessageStep) and isinstance(self.step.content, str) else ""


def _again_if_outdated(edit: Callable[..., str]) -> Callable[..., str]:
    """Do an edit again from the beginning while others are faster."""

    @wraps(edit)
    def edited(*args: Any) -> str:
        for _ in range(ATTEMPTS):
            with suppress(_OutdatedError):
                return edit(*args)
        raise FileError("It could not be written, since others write there all the time. Try again, or another path.")

    return edited


@dataclass(frozen=True)
class MemoryFiles:
    """The files of one session of a memory. Any number of processes may use them.

    A version has an id that follows from the version before it: of two processes that edit a file at once, the second
    one fails, reads again and edits what the first one wrote.
    """

    memory: HierarchicalMemory
    session: str

    # -- reading ------------------------------------------------------------------------------------------------------

    def _versions(self) -> Iterator[FileVersion]:
        """Yield all versions of all files and folders, in the order in which they were written."""
        for step in self.memory.history(self.session):
            about = step.metadata.get(FILE)
            if isinstance(about, Mapping):
                yield FileVersion(step, about["id"], about["path"], about["version"], about["folder"])

    def _newest(self) -> dict[str, FileVersion]:
        """Return the newest version of every file and folder, by its path below the root."""
        newest = {version.file: version for version in self._versions()}
        return {version.path: version for version in newest.values()}

    def view(self, path: str, lines: Sequence[int] | None = None) -> str:
        """Return the lines of a file with their numbers, or what is in a folder, two levels deep."""
        place, files = self._place(path), self._newest()
        if place in files and not files[place].is_folder:
            return _numbered(path, files[place].text, lines)
        if place and place not in files:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        head = f"Here're the files and directories up to {DEEP} levels deep in {path}, excluding hidden items:"
        rows = [(_size(FOLDER_SIZE), path), *((size, f"{path}/{name}") for size, name in _listed(files, place))]
        return "\n".join([head, *map("\t".join, rows)])

    # -- writing ------------------------------------------------------------------------------------------------------

    @_again_if_outdated
    def create(self, path: str, text: str) -> str:
        """Make a new file, and the folders it lies in."""
        place, files = self._place(path), self._newest()
        self._make_folders(posixpath.dirname(place), files)
        if not place or place in files:
            raise FileError(f"File {path} already exists")
        self._write(self._new(place, text, files))
        return f"File created successfully at: {path}"

    @_again_if_outdated
    def replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that the file has once."""
        version = self._file(path)
        text = version.text
        places = [*_occurrences(text, old)] if text.count(old) != 1 else [text.find(old)]
        if not places:
            raise FileError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        if len(places) > 1:
            numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
            raise FileError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
                "Please ensure it is unique"
            )
        changed = text.replace(old, new)
        self._write(self._following(version, changed))
        line = text.count("\n", 0, places[0])
        shown = _lines(changed.split("\n"), max(0, line - AROUND), line + AROUND + 1)
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([head, *shown])

    @_again_if_outdated
    def insert(self, path: str, place: int, text: str) -> str:
        """Insert lines behind line `place`; 0 is the beginning."""
        version = self._file(path)
        lines = version.text.removesuffix("\n").split("\n") if version.text else []
        if not 0 <= place <= len(lines):
            raise FileError(
                f"Invalid `insert_line` parameter: {place}. It should be within the range [0, {len(lines)}]."
            )
        changed = "\n".join([*lines[:place], text.rstrip("\n"), *lines[place:]])
        self._write(self._following(version, changed if changed.endswith("\n") else f"{changed}\n"))
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Forget a file, or a folder with all in it: every version, for good."""
        place, files = self._place(path), self._newest()
        if not place:
            raise FileError(f"Cannot delete the {ROOT} directory itself")
        if place not in files:
            raise FileError(f"The path {path} does not exist")
        gone = {version.file for version in files.values() if _is_in(version.path, place)}
        self.memory.forget([version.step.id for version in self._versions() if version.file in gone])
        return f"Successfully deleted {path}"

    @_again_if_outdated
    def rename(self, old: str, new: str) -> str:
        """Move a file or a folder; nothing may be at the other place."""
        place, other, files = self._place(old), self._place(new), self._newest()
        if not place:
            raise FileError(f"Cannot rename the {ROOT} directory itself")
        if not other or other in files:
            raise FileError(f"The destination {new} already exists")
        folder = posixpath.dirname(other)
        if folder in files and place not in files:
            raise FileError(f"The path {old} does not exist")
        self._make_folders(folder, files)
        if place not in files:  # it may be one of the folders
            raise FileError(f"The path {old} does not exist")
        if _is_in(other, place):
            raise FileError(f"Cannot rename {old} to {new}, which lies in it")
        moved = [version for version in files.values() if _is_in(version.path, place)]
        self._write(*(self._following(each, each.text, other + each.path[len(place) :]) for each in moved))
        return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        """Forget all files, every version, for good."""
        self.memory.forget(session=self.session)
        return "All memory cleared"

    # -- inside -------------------------------------------------------------------------------------------------------

    def _place(self, path: str) -> str:
        """Return where a path leads, as it is written down: each name as the memory's redaction leaves it."""
        names = map(self._redacted, _place(path).split("/"))
        return self._redacted("/".join(names))

    def _redacted(self, text: str) -> str:
        return self.memory.apply_redaction(MessageStep("user", text)).text

    def _file(self, path: str) -> FileVersion:
        place = self._place(path)
        version = self._newest().get(place)
        if place and version is None:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        if version is None or version.is_folder:
            raise FileError(f"The path {path} is not a file.")
        return version

    def _make_folders(self, place: str, files: dict[str, FileVersion]) -> None:
        """Make a folder and those that it lies in; FileError where one of them is a file."""
        folders = [place, *_parents(place)][::-1] if place else []
        new = [self._new(folder, "", files, is_folder=True) for folder in folders if folder not in files]
        for folder in folders:
            if folder in files and not files[folder].is_folder:
                raise FileError(f"Not a directory: {ROOT}/{folder}")
        files.update((version.path, version) for version in new)
        self.memory.archive([version.step for version in new], on_conflict="skip")

    def _write(self, *versions: FileVersion) -> None:
        """Write versions, all or none."""
        try:
            self.memory.archive([version.step for version in versions])
        except InputError:
            raise _OutdatedError from None

    def _new(self, place: str, text: str, files: Mapping[str, FileVersion], is_folder: bool = False) -> FileVersion:
        """Return the first version of a file; what was there before, and was moved, has the ids before its own."""
        known = {version.file for version in files.values()}
        ids = (_id(self.session, place, str(is_folder), str(attempt)) for attempt in count())
        file = next(id for id in ids if id not in known)
        return self._version(file, file, place, text, 1, is_folder)

    def _following(self, before: FileVersion, text: str, place: str | None = None) -> FileVersion:
        """Return the version that follows another one, at another place if one is given."""
        id, path = _id(before.step.id), before.path if place is None else place
        more = {CORRECTS: [before.step.id]}
        return self._version(id, before.file, path, text, before.number + 1, before.is_folder, more)

    def _version(
        self,
        id: str,
        file: str,
        place: str,
        text: str,
        number: int,
        is_folder: bool,
        more: Mapping[str, Any] | None = None,
    ) -> FileVersion:
        path = f"{ROOT}/{place}"
        about = {"id": file, "path": place, "version": number, "folder": is_folder}
        metadata = {FILE: about, "path": path, **(more or {})}
        step = MessageStep("assistant", text, id=id, session=self.session, speaker=path, metadata=metadata)
        return FileVersion(step, file, place, number, is_folder)


def _parents(place: str) -> Iterator[str]:
    while place := posixpath.dirname(place):
        yield place


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:22]


def _place(path: str) -> str:
    """Return where a path leads, below the root; "" is the root itself."""
    if not path.startswith(ROOT):
        raise FileError(f"Path must start with {ROOT}, got: {path}")
    if "\0" in path:
        raise FileError("Path must have no null character")
    place = posixpath.normpath(posixpath.join(ROOT, path[len(ROOT) :].lstrip("/")))
    if not _is_in(place, ROOT):
        raise FileError(f"Path {path} would escape {ROOT} directory")
    return place[len(ROOT) + 1 :]


def _is_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder}/")


def _listed(
    files: Mapping[str, FileVersion], folder: str, above: str = "", depth: int = 1
) -> Iterator[tuple[str, str]]:
    """Yield size and name of what is in a folder, each with what is in it, hidden items left out."""
    for path in sorted(files):
        name = posixpath.basename(path)
        if posixpath.dirname(path) != folder or not name or name.startswith("."):
            continue
        if not files[path].is_folder:
            yield _size(len(files[path].text.encode("utf-8", "surrogatepass"))), above + name
            continue
        yield _size(FOLDER_SIZE), f"{above}{name}/"
        if depth < DEEP:
            yield from _listed(files, path, f"{above}{name}/", depth + 1)


def _size(size: int) -> str:
    """Write a number of bytes as `ls -h` does: 512B, 1.5K, 4K."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    amount = size / 1024**power
    return f"{int(amount)}{UNITS[power]}" if amount == int(amount) else f"{amount:.1f}{UNITS[power]}"


def _numbered(path: str, text: str, lines: Sequence[int] | None) -> str:
    every = text.split("\n")
    if len(every) > MOST_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of {MOST_LINES:,} lines.")
    first, last = lines if lines and len(lines) == 2 else (1, -1)
    shown = _lines(every, max(1, first) - 1, len(every) if last == -1 else last)
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(shown)


def _lines(lines: Sequence[str], start: int, stop: int) -> list[str]:
    """Return the lines of a slice with their numbers."""
    return [f"{number:>{WIDTH}}\t{line}" for number, line in enumerate(lines[start:stop], start + 1)]


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    place = text.find(wanted)
    while place >= 0:
        yield place
        place = text.find(wanted, place + 1)

"""Files below /memories as steps of a memory: a step for each version of a file, of which recall finds the newest.

They answer as the files of Anthropic's own memory tool do (`BetaLocalFilesystemMemoryTool`), word for word.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from typing import NamedTuple

from tinymem.errors import InputError
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.steps.step import Step
from tinymem.steps.types import CORRECTS, FILE, MessageStep

__all__ = ["FileError", "Files", "Version"]

ROOT = "/memories"
ATTEMPTS = 1_000  # at an edit, each after another process was faster
DEEP = 2  # levels of folders that are listed
FOLDER_SIZE = 4_096  # bytes that a folder has, as on most file systems
WIDTH, MOST_LINES = 6, 999_999  # digits of a line's number, and lines of a file that is shown
AROUND = 2  # lines shown on either side of an edit
UNITS = "BKMG"


class FileError(Exception):
    """An operation that cannot be done, in words for the model."""


class Version(NamedTuple):
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


@dataclass(frozen=True)
class Files:
    """The files of one session of a memory. Any number of processes may use them.

    A version has an id that follows from the version before it: of two processes that edit a file at once, the second
    one fails, reads again and edits what the first one wrote.
    """

    memory: HierarchicalMemory
    session: str

    # -- reading ------------------------------------------------------------------------------------------------------

    def _versions(self) -> Iterator[Version]:
        """Yield all versions of all files and folders, in the order in which they were written."""
        for step in self.memory.history(self.session):
            if isinstance(own := step.metadata.get(FILE), Mapping):
                yield Version(step, str(own["id"]), str(own["path"]), int(own["version"]), bool(own["folder"]))

    def _all(self) -> dict[str, Version]:
        """Return the newest version of every file and folder, by its path below the root."""
        newest = {version.file: version for version in self._versions()}
        return {version.path: version for version in newest.values()}

    def view(self, path: str, lines: Sequence[int] | None = None) -> str:
        """Return the lines of a file with their numbers, or what is in a folder, two levels deep."""
        place, files = self._place(path), self._all()
        if place in files and not files[place].is_folder:
            return _numbered(path, files[place].text, lines)
        if place and place not in files:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        head = f"Here're the files and directories up to {DEEP} levels deep in {path}, excluding hidden items:"
        rows = [f"{_size(FOLDER_SIZE)}\t{path}", *(f"{size}\t{path}/{name}" for size, name in _listed(files, place))]
        return "\n".join([head, *rows])

    # -- writing ------------------------------------------------------------------------------------------------------

    def create(self, path: str, text: str) -> str:
        """Make a new file, and the folders it lies in."""
        attempts = _attempts()
        while True:
            next(attempts)
            place, files = self._place(path), self._all()
            self._make_folders(posixpath.dirname(place), files)
            if not place or place in files:
                raise FileError(f"File {path} already exists")
            if self._is_written([self._new(place, text, files)]):
                return f"File created successfully at: {path}"

    def replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that the file has once."""
        attempts = _attempts()
        while True:
            next(attempts)
            version = self._file(path)
            text = version.text
            if (times := text.count(old)) == 0:
                raise FileError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if times > 1:
                numbers = ", ".join(str(text.count("\n", 0, at) + 1) for at in _occurrences(text, old))
                raise FileError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
                    "Please ensure it is unique"
                )
            changed = text.replace(old, new)
            if self._is_written([self._following(version, changed)]):
                break
        lines, at = changed.split("\n"), text.count("\n", 0, text.find(old))
        first = max(0, at - AROUND)
        shown = [_line(first + i, line) for i, line in enumerate(lines[first : at + AROUND + 1])]
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([head, *shown])

    def insert(self, path: str, at: int, text: str) -> str:
        """Insert lines behind line `at`; 0 is the beginning."""
        attempts = _attempts()
        while True:
            next(attempts)
            version = self._file(path)
            lines = version.text.split("\n")
            lines = lines[:-1] if lines[-1] == "" else lines
            if not 0 <= at <= len(lines):
                raise FileError(
                    f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}]."
                )
            changed = "\n".join([*lines[:at], text.rstrip("\n"), *lines[at:]])
            if self._is_written([self._following(version, changed if changed.endswith("\n") else f"{changed}\n")]):
                return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Forget a file, or a folder with all in it: every version, for good."""
        place, files = self._place(path), self._all()
        if not place:
            raise FileError(f"Cannot delete the {ROOT} directory itself")
        if place not in files:
            raise FileError(f"The path {path} does not exist")
        gone = {one.file for one in files.values() if _is_in(one.path, place)}
        self.memory.forget([one.step.id for one in self._versions() if one.file in gone])
        return f"Successfully deleted {path}"

    def rename(self, old: str, new: str) -> str:
        """Move a file or a folder; nothing may be at the other place."""
        attempts = _attempts()
        while True:
            next(attempts)
            place, other, files = self._place(old), self._place(new), self._all()
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
            moved = [one for one in files.values() if _is_in(one.path, place)]
            if self._is_written([self._following(one, one.text, other + one.path[len(place) :]) for one in moved]):
                return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        """Forget all files, every version, for good."""
        self.memory.forget(session=self.session)
        return "All memory cleared"

    # -- inside -------------------------------------------------------------------------------------------------------

    def _place(self, path: str) -> str:
        """Return where a path leads, as it is written down: each name as the memory's redaction leaves it."""
        names = [self._redacted(name) for name in _place(path).split("/")]
        return self._redacted("/".join(names))

    def _redacted(self, text: str) -> str:
        return self.memory.apply_redaction(MessageStep("user", text)).text

    def _file(self, path: str) -> Version:
        place = self._place(path)
        version = self._all().get(place)
        if place and version is None:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        if version is None or version.is_folder:
            raise FileError(f"The path {path} is not a file.")
        return version

    def _make_folders(self, place: str, files: dict[str, Version]) -> None:
        """Make a folder and those that it lies in; FileError where one of them is a file."""
        parts = place.split("/") if place else []
        new: list[Version] = []
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            if folder not in files:
                new.append(self._new(folder, "", files, is_folder=True))
                files[folder] = new[-1]
            elif not files[folder].is_folder:
                raise FileError(f"Not a directory: {ROOT}/{folder}")
        self.memory.archive([one.step for one in new], on_conflict="skip")

    def _is_written(self, versions: Sequence[Version]) -> bool:
        """Write versions, all or none; False where somebody else has written one of them since."""
        try:
            self.memory.archive([one.step for one in versions])
        except InputError:
            return False
        return True

    def _new(self, place: str, text: str, files: Mapping[str, Version], is_folder: bool = False) -> Version:
        """Return the first version of a file; what was there before, and was moved, has the ids before its own."""
        known = {one.file for one in files.values()}
        ids = (_id(self.session, place, str(is_folder), str(at)) for at in count())
        return self._version(next(id for id in ids if id not in known), place, text, 1, is_folder)

    def _following(self, before: Version, text: str, place: str | None = None) -> Version:
        """Return the version that follows another one, at another place if one is given."""
        path = before.path if place is None else place
        return self._version(before.file, path, text, before.number + 1, before.is_folder, before)

    def _version(
        self, file: str, place: str, text: str, number: int, is_folder: bool, before: Version | None = None
    ) -> Version:
        path = f"{ROOT}/{place}"
        own = {"id": file, "path": place, "version": number, "folder": is_folder}
        id, more = (_id(before.step.id), {CORRECTS: [before.step.id]}) if before else (file, {})
        metadata = {FILE: own, "path": path, **more}
        step = MessageStep("assistant", text, id=id, session=self.session, speaker=path, metadata=metadata)
        return Version(step, file, place, number, is_folder)


def _attempts() -> Iterator[None]:
    yield from repeat(None, ATTEMPTS)
    raise FileError("It could not be written, since others write there all the time. Try again, or another path.")


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


def _listed(files: Mapping[str, Version], folder: str, above: str = "", depth: int = 1) -> Iterator[tuple[str, str]]:
    """Yield size and name of what is in a folder, each with what is in it, hidden items left out."""
    inside = f"{folder}/" if folder else ""
    names = sorted(name[len(inside) :] for name in files if name.startswith(inside) and "/" not in name[len(inside) :])
    for name in (name for name in names if name and not name.startswith(".")):
        version = files[inside + name]
        if not version.is_folder:
            yield _size(len(version.text.encode("utf-8", "surrogatepass"))), above + name
            continue
        yield _size(FOLDER_SIZE), f"{above}{name}/"
        if depth < DEEP:
            yield from _listed(files, inside + name, f"{above}{name}/", depth + 1)


def _size(size: int) -> str:
    """Write a number of bytes as `ls -h` does: 512B, 1.5K, 4K."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    amount = size / 1024**power
    return f"{int(amount)}{UNITS[power]}" if amount == int(amount) else f"{amount:.1f}{UNITS[power]}"


def _numbered(path: str, text: str, lines: Sequence[int] | None) -> str:
    every = text.split("\n")
    if len(every) > MOST_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of {MOST_LINES:,} lines.")
    first, shown = 0, every
    if lines and len(lines) == 2:
        first = max(1, lines[0]) - 1
        shown = every[first : len(every) if lines[1] == -1 else lines[1]]
    rows = [_line(first + i, line) for i, line in enumerate(shown)]
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(rows)


def _line(place: int, text: str) -> str:
    return f"{place + 1:>{WIDTH}}\t{text}"


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + 1)

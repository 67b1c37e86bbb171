"""An act on a file, as a call, a command or a patch did it."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from tinymem.coding.lines import code_lines, shown_codes
from tinymem.protocols import StepNote
from tinymem.steps.content import clean

__all__ = [
    "EDITED", "PREFIX", "READ", "RESET", "SCOPE", "SEEN", "WROTE", "Act", "FileNote", "acts_of_patch", "edit",
    "folders_of", "full_path", "in_scope", "read", "reset", "scope_of", "told_elsewhere", "write",
]  # fmt: skip

SCOPE = "in://"  # how the path of a file in its session begins, and no other
HASH = 8  # bytes of the hash of a session
PREFIX = len(SCOPE) + 2 * HASH + 1  # characters before a path there
MANY = 8  # copies of a line that go at once, where an edit was made in all places
# Some lines were shown, all were shown, some were changed, it was made of these, something made it nobody knows what
SEEN, READ, EDITED, WROTE, RESET = range(5)
_HEAD = Struct("<III")  # of packed notes: call, kind, bytes of lines
_DRIVE = re.compile(r"([A-Za-z]):(?=/)")
_PATCHED = re.compile(r"(?m)^(?:\*\*\* (Add|Update|Delete) File: |(?:--- \S.*\n)?(\+\+\+) (?:b/)?)(.+?)(?:\t.*)?$")
_MOVED = re.compile(r"(?m)^\*\*\* Move to: (.+)$")


class Act(NamedTuple):
    """An act of a call on the file at `path`: "" stands for all files, a folder for all in it.

    `lines` are codes of lines that stand in it afterwards, all of them for READ and WROTE; `gone`, of those that went.
    """

    path: str
    kind: int
    lines: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


class FileNote(NamedTuple):
    """A note of what the call at a place of a step did to a file: hashes of lines in it and of lines that are gone.

    A note of how a command ended has the hash of its end for a path and, where it passed, its text for lines.
    """

    step: int
    place: int
    call: int
    path: str
    kind: int
    lines: bytes
    gone: bytes

    @classmethod
    def of(cls, note: StepNote) -> FileNote:
        """Return the note that was packed."""
        call, kind, length = _HEAD.unpack_from(note.data)
        end = _HEAD.size + length
        return cls(note.step, note.place, call, note.key, kind, note.data[_HEAD.size : end], note.data[end:])

    def packed(self) -> StepNote:
        """Return the note as a journal keeps it."""
        head = _HEAD.pack(self.call, self.kind, len(self.lines))
        return StepNote(self.step, self.place, self.path, head + self.lines + self.gone)


def folders_of(paths: Iterable[str]) -> list[str]:
    """Return these paths with those of all folders around them, "" for all files.

    >>> folders_of(["/a/b.py"])
    ['', '/a', '/a/b.py']
    """
    found = {""}
    for path in paths:
        found.update(path[: match.start()] for match in re.finditer("/|$", path))
    return sorted(found)


def scope_of(session: str | None, server: str = "") -> str:
    """Return what stands before the paths of a session and a server: what others do says nothing of their files."""
    name = f"{clean(session or '')}\0{server}"
    return SCOPE + blake2b(name.encode("utf-8", "replace"), digest_size=HASH).hexdigest()


def in_scope(act: Act, scope: str) -> Act:
    """Return an act with the path that its file has among those of all sessions."""
    return act._replace(path=f"{scope}/{act.path}" if act.path else scope)


def told_elsewhere(act: Act) -> Act:
    """Return what an act tells of the file that has its path in another session, which may be the same one.

    That is what it took away or put there itself; all else only names the file.
    """
    if act.kind == WROTE and act.lines:
        return act._replace(kind=READ)
    return act if act.kind == EDITED else Act(act.path, SEEN)


def read(path: str, text: str, is_whole: bool) -> Act:
    """Return the act of reading `text` in a file."""
    return Act(path, READ if is_whole else SEEN, shown_codes(text))


def write(path: str, text: str) -> Act:
    """Return the act of writing all of a file; "" where it was removed."""
    return Act(path, WROTE, tuple(code_lines(text)))


def reset(path: str) -> Act:
    """Return an act after which nobody knows what stands in a file."""
    return Act(path, RESET)


def edit(path: str, old: str, new: str, all_places: bool = False) -> Act:
    """Return the act of putting `new` in the place of `old`, or in `all_places` of it."""
    before, after = Counter(code_lines(old)), Counter(code_lines(new))
    come = [*(after - before).elements()]
    gone = [*(before - after).elements()]
    fewer = [code for code in {*gone} if code in after]  # copies than before
    return Act(path, EDITED, (*come, *fewer), (*gone, *fewer) * (MANY if all_places else 1))


def acts_of_patch(patch: str, folder: str = "") -> list[Act]:
    """Return what a patch, of Codex or a unified diff, does to each of its files."""
    acts = []
    files = [*_PATCHED.finditer(patch)]
    ends = [*(match.start() for match in files[1:]), len(patch)]
    for match, end in zip(files, ends, strict=True):
        path, hunks = full_path(match[3], folder), patch[match.end() : end]
        moved = _MOVED.search(hunks)
        if match[1] in ("Add", "Delete"):
            acts.append(write(path, _lines_with("+", hunks)))
        elif moved is not None:
            acts += [reset(path), reset(full_path(moved[1], folder))]
        else:
            acts.append(edit(path, _lines_with("- ", hunks), _lines_with("+ ", hunks)))
    return acts


def _lines_with(signs: str, hunks: str) -> str:
    return "\n".join(line[1:] for line in hunks.splitlines() if line.startswith((*signs,)))


def full_path(path: str, folder: str = "") -> str:
    r"""Return the path as it is compared, from `folder` on where it is relative.

    >>> full_path("src\\app.py", "C:\\work"), full_path("/a/./b.py", "/c")
    ('/c/work/src/app.py', '/a/b.py')
    """
    said = path.strip().removeprefix("file://").replace("\\", "/")
    said = _DRIVE.sub(lambda drive: f"/{drive[1].lower()}", said, count=1)
    if folder and not said.startswith(("/", "~")):
        said = f"{full_path(folder)}/{said}"
    return posixpath.normpath(said) if said else ""

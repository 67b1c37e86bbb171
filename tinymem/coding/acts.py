"""An act on a file, as a call, a command or a patch did it."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from struct import pack, unpack
from typing import NamedTuple

from tinymem.coding.lines import code_lines, shown_codes
from tinymem.protocols import StepNote
from tinymem.steps.content import clean

__all__ = [
    "EDITED",
    "LONGEST_PATH",
    "READ",
    "RESET",
    "SCOPE",
    "SEEN",
    "WROTE",
    "Act",
    "FileNote",
    "acts_of_patch",
    "edit",
    "folders_of",
    "full_path",
    "has_suffix",
    "in_scope",
    "read",
    "reset",
    "scope_of",
    "short_hash",
    "write",
]  # fmt: skip

SCOPE = "in://"  # how the path of a file in its session begins, and no other
LONGEST_PATH = 1_000  # characters of a path that is noted
HASH = 8  # bytes of the hash of a session, or of a command
# Some lines were shown, all were shown, some were changed, it was made of these, something made it nobody knows what
SEEN, READ, EDITED, WROTE, RESET = range(5)
_DRIVE = re.compile(r"([A-Za-z]):(?=/)")
_PATCHED = re.compile(r"(?m)^(?:\*\*\* (Add|Update|Delete) File: |(?:--- \S.*\n)?(\+\+\+) (?:b/)?)(.+?)(?:\t.*)?$")


class Act(NamedTuple):
    """An act of a call on the file at `path`: "" stands for all files, a folder for all in it.

    `lines` are codes of lines that stand in it afterwards, all of them for READ and WROTE; `gone`, of those that went.
    The run of a command has a hash of it for a path, how it ended for a kind, and the bytes of its text for lines.
    """

    path: str
    kind: int
    lines: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()

    def packed(self, call: int) -> bytes:
        """Return what a note says of it and of the place of its call: numbers of four bytes."""
        numbers = call, self.kind, len(self.lines), *self.lines, *self.gone
        return pack(f"<{len(numbers)}I", *numbers)


class FileNote(NamedTuple):
    """A note of an act: the step and the place of the call that did it."""

    step: int
    call: int
    act: Act

    @classmethod
    def of(cls, note: StepNote) -> FileNote:
        """Return the note that a journal kept."""
        call, kind, count, *codes = unpack(f"<{len(note.data) // 4}I", note.data)
        return cls(note.step, call, Act(note.key, kind, (*codes[:count],), (*codes[count:],)))


def folders_of(paths: Iterable[str]) -> list[str]:
    """Return these paths with those of all folders around them, "" for all files.

    >>> folders_of(["/a/b.py"])
    ['', '/a', '/a/b.py']
    """
    found = {""}
    for path in paths:
        found.update(path[: match.start()] for match in re.finditer("/|$", path))
    return sorted(found)


def has_suffix(path: str) -> bool:
    """Return whether a path is that of a file, as far as its name tells."""
    return "." in path.rsplit("/", 1)[-1].strip(".")


def short_hash(text: str) -> str:
    """Return a text as a short name that no other has."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=HASH).hexdigest()


def scope_of(session: str | None) -> str:
    """Return what stands before the paths of a session: what others do says nothing of their files."""
    return SCOPE + short_hash(clean(session or ""))


def in_scope(act: Act, scope: str) -> Act:
    """Return an act with the path that its file has among those of all sessions."""
    return act._replace(path=clean(f"{scope}/{act.path}" if act.path else scope))


def read(path: str, text: str, is_whole: bool) -> Act:
    """Return the act of reading `text` in a file."""
    return Act(path, READ if is_whole else SEEN, shown_codes(text))


def write(path: str, text: str) -> Act:
    """Return the act of writing all of a file; "" where it was removed."""
    return Act(path, WROTE, tuple(code_lines(text)))


def reset(path: str) -> Act:
    """Return an act after which nobody knows what stands in a file."""
    return Act(path, RESET)


def edit(path: str, old: str, new: str) -> Act:
    """Return the act of putting `new` in the place of `old`."""
    before, after = Counter(code_lines(old)), Counter(code_lines(new))
    gone = before - after
    fewer = [code for code in gone if code in after]  # copies than before
    return Act(path, EDITED, (*(after - before).elements(), *fewer), (*gone.elements(), *fewer))


def acts_of_patch(patch: str, folder: str = "") -> list[Act]:
    """Return what a patch, of Codex or a unified diff, does to each of its files."""
    acts = []
    files = [*_PATCHED.finditer(patch)]
    ends = [*(match.start() for match in files[1:]), len(patch)]
    for match, end in zip(files, ends, strict=True):
        path, hunks = full_path(match[3], folder), patch[match.end() : end]
        if match[1] in ("Add", "Delete"):
            acts.append(write(path, _lines_with("+", hunks)))
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

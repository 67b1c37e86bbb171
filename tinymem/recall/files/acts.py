"""An act on a file, as a call or a command did it."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tinymem.recall.files.lines import code_lines, shown_codes
from tinymem.recall.files.pieces import LONGEST, Replacement, piece_of

__all__ = [
    "EDITED",
    "READ",
    "REPLACED",
    "RESET",
    "SEEN",
    "UNKNOWN",
    "WROTE",
    "Act",
    "edit",
    "full_path",
    "read",
    "replacement",
    "unknown",
    "write",
]

FIRST = 4  # letters of a line, which is hardly broken before
MOST_COMPARED = 50_000_000  # characters that the lines of an edit are looked for in, in sum
MOST_PIECES = 8  # of lines in a text that an edit put in; with more, any line may be one of them
MANY = 8  # copies of a line that go at once, where an edit was made in all places
# Some lines were shown, all were shown, some were changed, it was made of these, something changed it, it was set back,
# a piece of lines was replaced in all of them.
SEEN, READ, EDITED, WROTE, UNKNOWN, RESET, REPLACED = range(7)
_DRIVE = re.compile(r"([A-Za-z]):(?=/)")


class Act(NamedTuple):
    """An act of a call on the file at `path`: "" stands for all files, a folder for all in it.

    `lines` are codes of lines that stand in it afterwards, all of them for READ and WROTE; `gone`, of those that went.
    For REPLACED they are a packed `Replacement`.
    """

    path: str
    kind: int
    lines: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


def read(path: str, text: str, is_whole: bool) -> Act:
    """Return the act of reading `text` in a file."""
    return Act(path, READ if is_whole else SEEN, shown_codes(text))


def write(path: str, text: str) -> Act:
    """Return the act of writing all of a file; "" where it was removed."""
    return Act(path, WROTE, tuple(code_lines(text)))


def edit(path: str, old: str, new: str, all_places: bool = False) -> Act:
    """Return the act of putting `new` in the place of `old`, or in `all_places` of it.

    A line that was only broken in two is not gone. Of an edit too large to tell, nobody knows what went.
    """
    lines = old.splitlines()
    if len(lines) * len(new) > MOST_COMPARED:
        return unknown(path)
    before, after = code_lines(old), code_lines(new)
    more = Counter(before)
    more.subtract(after)
    for line in _broken_lines(lines, new):
        more.subtract(code_lines(line))
    gone = [code for code, count in more.items() for _ in range(count)]
    come = [code for code, count in more.items() for _ in range(-count)]
    left = [*{*gone}.intersection(after)]  # fewer copies than before
    return Act(path, EDITED, (*come, *left), (*gone, *left) * (MANY if all_places else 1))


def replacement(path: str, old: str, new: str, is_once: bool) -> list[Act]:
    """Return the act of putting `new` in the place of `old` in all lines that have it, or where it stands once."""
    if not old.strip() or "\n" in old or old.strip() == new.strip() or len(old) > LONGEST:
        return []
    lines = new.split("\n")
    made = {lines[0], lines[-1], *(line for line in lines if old in line)}
    if len(made) > MOST_PIECES or max(map(len, made)) > LONGEST:
        made = {""}
    pieces = sorted(map(piece_of, made))
    return [Act(path, REPLACED, *Replacement(piece_of(old), (*pieces,), old in new, is_once).pack())]


def _broken_lines(lines: Iterable[str], new: str) -> Iterator[str]:
    """Yield those of some lines whose words all stand in a `new` text, but on several lines of it."""
    words = new.split()
    folded, known, whole = " ".join(words), {*words}, {*map(str.strip, new.splitlines())}
    for line in (line for line in map(str.strip, lines) if line not in whole):  # few
        said = line.split()
        if known.issuperset(said[1:-1]) and line[:FIRST] in new and line not in new and " ".join(said) in folded:
            yield line


def unknown(path: str) -> Act:
    """Return an act after which nobody knows what stands in a file."""
    return Act(path, UNKNOWN)


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

"""Links between steps: which step changed how many lines that another one had shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tinymem.protocols import FileNote
from tinymem.recall.files.acts import REPLACED
from tinymem.recall.files.changes import notes_by_path
from tinymem.recall.files.commands import RUN
from tinymem.recall.files.lines import unpack_codes
from tinymem.recall.files.versions import Version
from tinymem.stores.filter import folders_of

__all__ = ["Link", "count_gone", "links_of"]


class Link(NamedTuple):
    """The `lines` of the file at `path` that the step `old` showed and the step `new` took away."""

    old: int
    new: int
    path: str
    lines: int


def links_of(number: int, notes: Iterable[FileNote]) -> list[Link]:
    """Return the links from and to a step, by the notes of the files that it touched."""
    found: Counter[tuple[int, int, str]] = Counter()
    for path, shown, version in _versions(notes):
        for note in shown:
            for code in {*unpack_codes(note.lines)}:
                gone = version.gone_since(code)
                if gone is not None and note.step < gone.step and number in (note.step, gone.step):
                    found[note.step, gone.step, path] += 1
    return [Link(*between, lines) for between, lines in sorted(found.items())]


def count_gone(notes: Iterable[FileNote]) -> int:
    """Return how many lines stand in their files no more, of those that steps showed."""
    count = 0
    for _, shown, version in _versions(notes):
        codes = {code for note in shown for code in unpack_codes(note.lines)}
        count += sum(version.gone_since(code) is not None for code in codes)
    return count


def _versions(notes: Iterable[FileNote]) -> Iterator[tuple[str, list[FileNote], Version]]:
    """Yield each file with the notes that show lines of it, and its version."""
    by_path = notes_by_path(notes)
    for path, some in by_path.items():
        shown = [note for note in some if note.lines and note.kind != REPLACED]
        if shown and not path.startswith(RUN):
            every = (note for name in folders_of([path]) for note in by_path.get(name, ()))
            yield path, shown, Version(sorted(every))

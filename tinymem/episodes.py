"""Medium-term memory: runs of consecutive steps that left the window, each with a short extract that stands for it.

An episode ends where the session changes, where a new task begins, or after `MOST` steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinymem.content import shorten
from tinymem.serialization import load_step

if TYPE_CHECKING:
    from tinymem.archive import Archive
    from tinymem.protocols import StepRow

__all__ = ["Episode", "Episodes"]

MOST = 40
EXTRACT = 160  # characters


@dataclass(frozen=True)
class Episode:
    """Steps `first` to `last` (numbers), `ids` in order, and the text that its first step begins with."""

    first: int
    last: int
    session: str | None
    ids: tuple[str, ...]
    extract: str


class Episodes:
    """The episodes of an archive, read from its journal: nothing is kept twice."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def __iter__(self) -> Iterator[Episode]:
        run: list[StepRow] = []
        for row in self._archived():
            if run and (row.session != run[-1].session or row.type == "task" or len(run) >= MOST):
                yield _episode(run)
                run = []
            run.append(row)
        if run:
            yield _episode(run)

    def _archived(self) -> Iterator[StepRow]:
        after = 0
        while rows := self._archive.journal.rows(after):
            yield from (row for row in rows if not row.window)
            after = rows[-1].number


def _episode(run: list[StepRow]) -> Episode:
    extract = shorten(" ".join(load_step(run[0].record).text.split()), EXTRACT)
    return Episode(run[0].number, run[-1].number, run[0].session, tuple(row.id for row in run), extract)

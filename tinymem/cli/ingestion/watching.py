"""Files that grow: a folder whose session files are added to a memory as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tinymem.cli.ingestion.growing import ingest_growing
from tinymem.cli.ingestion.ingest import Ingested

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Watched"]

PATTERN = "*.jsonl"


class Watched:
    """A folder with files of JSON lines, in it or in folders below.

    Only the memory knows what was added: a new object, or a process that starts again, adds nothing twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._named: dict[Path, set[str]] = {}  # what was reported: types of lines that are left out, and errors

    def changes(self, memory: HierarchicalMemory) -> Iterator[Ingested]:
        """Read the files that changed since the last call; yield the outcome of each that gave something new.

        Each type of lines that are left out is named once for each file, and so is each error.
        """
        for file in sorted(self._folder.rglob(PATTERN)):
            try:
                now = file.stat()
            except OSError:  # it was moved away
                continue
            stamp = (now.st_ino, now.st_size, now.st_mtime_ns)
            if not now.st_size or not file.is_file() or self._seen.get(file) == stamp:
                continue
            self._seen[file] = stamp
            done = ingest_growing(memory, file)
            named = self._named.setdefault(file, set())
            done.skipped = {name: count for name, count in done.skipped.items() if name not in named}
            done.error = None if done.error in named else done.error
            named.update(done.skipped, [done.error] if done.error else ())
            if done.steps or done.error is not None or (done.skipped and not done.known):
                yield done

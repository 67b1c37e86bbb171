"""Files that grow: a folder whose session files are added to a memory as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tinymem.cli.ingestion.ingest import Ingested, ingest_files

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Watched", "ingest_growing"]

PATTERN = "*.jsonl"


def ingest_growing(memory: HierarchicalMemory, file: Path) -> Ingested:
    """Add what is new in a file as `ingest_files` does; a last line that is still being written waits."""
    (done,) = ingest_files(memory, [file])
    return replace(done, error=None) if done.error is not None and _is_being_written(file) else done


def _is_being_written(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"
    except (OSError, ValueError):  # ValueError: a path with NUL
        return False


class Watched:
    """A folder with files of JSON lines, in it or in folders below.

    Only the memory knows what was added: a new object, or a process that starts again, adds nothing twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._named: dict[Path, set[str]] = {}  # the types of lines that were reported as left out

    def changes(self, memory: HierarchicalMemory) -> Iterator[Ingested]:
        """Read the files that changed since the last call; yield the outcome of each that gave something new.

        Of lines that are left out, each type is named once for each file.
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
            named.update(done.skipped)
            if done.steps or done.error is not None:
                yield done

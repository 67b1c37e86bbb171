"""The state of a catalog's files: their folder, how much of each is written, their checksums and their origin.

It is one small file, which is replaced as a whole after the others were written. A process that is killed at any moment
leaves the state from before, and that is true of the beginnings of the files.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tinymem.stores.files import open_private

__all__ = ["DamagedCatalogError", "Origin", "State", "boot", "read_state", "write_state"]

MAGIC = b"tinymem catalog 4\n"  # and the format
CHECKSUM = 4  # bytes


class DamagedCatalogError(Exception):
    """The files of a catalog are missing, of another format, or not as they were written."""


@dataclass(frozen=True)
class Origin:
    """The origin of the files: the journal's embedder, and how often it had been changed and its steps rewritten."""

    embedder: str
    changes: int
    rewrites: int
    dimensions: int


@dataclass(frozen=True)
class State:
    """The state of the files of a catalog.

    Attributes:
        origin: The embedder and the rewrites of the journal that they were made from.
        generation: The number that names their folder.
        lengths: The number of rows of each file.
        checksums: The sum of the CRC-32 of the blocks of each file, as far as rows reach.
        stamps: The size and the time of the last change of each file. A file with others is checked.
        boot: The id of the machine's run in which they were written. After another one they are checked.
        removed: The first row and the end of each run of rows that are empty, since their steps were forgotten.
    """

    origin: Origin
    generation: int
    lengths: Mapping[str, int] = field(default_factory=dict)
    checksums: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    boot: str = ""
    removed: Sequence[tuple[int, int]] = ()

    @property
    def rows(self) -> int:
        """The number of passages."""
        return self.lengths.get("id", 0)


def write_state(path: Path, state: State) -> None:
    """Replace the state at `path`. Raises OSError."""
    known = {**vars(state), "origin": vars(state.origin), "boot": boot()}
    body = json.dumps(known).encode()
    new = path.with_name("state.new")
    with open(new, "wb", opener=open_private) as file:
        file.write(MAGIC + zlib.crc32(body).to_bytes(CHECKSUM, "little") + body)
    new.replace(path)


def read_state(path: Path) -> State:
    """Read the state at `path`; DamagedCatalogError where there is none."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise DamagedCatalogError(error) from error
    body = whole[len(MAGIC) + CHECKSUM :]
    checksum = whole[len(MAGIC) : len(MAGIC) + CHECKSUM]
    if not whole.startswith(MAGIC) or checksum != zlib.crc32(body).to_bytes(CHECKSUM, "little"):
        raise DamagedCatalogError(f"{path} is of another format, or damaged")
    known = json.loads(body)
    known["origin"] = Origin(**known["origin"])
    known["stamps"] = {name: tuple(stamp) for name, stamp in known["stamps"].items()}
    known["removed"] = [tuple(run) for run in known["removed"]]
    return State(**known)


@functools.cache
def boot() -> str:
    """Return the id of this run of the machine; "" where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""

"""The state of a catalog's files: which generation of them holds, how much of each is written, and what it was made of.

It is one small file that is replaced whole, after the others were written: a process that is killed at any moment
leaves the state from before, which is of what is in the files' beginnings.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from tinymem.protocols import Ids
from tinymem.stores.files import opener

__all__ = ["DamagedCatalogError", "Origin", "State", "boot", "read_state", "write_state"]

MAGIC = b"tinymem catalog 1\n"  # and the format
CHECKSUM = 4  # bytes


class DamagedCatalogError(Exception):
    """The files of a catalog are missing, of another format, or not as they were written."""


@dataclass(frozen=True)
class Origin:
    """What the files were made of: the embedder, and how often it was changed; and how often steps were forgotten, or
    made milestones or none."""

    embedder: str
    changes: int
    rewrites: int
    dimensions: int
    vocabulary: int


@dataclass(frozen=True)
class State:
    """The files of a catalog.

    Attributes:
        origin: What they were made of.
        generation: The folder that they are in.
        lengths: The rows of each file.
        checksums: The CRC-32 of the rows of each file.
        stamps: The size of each file, and when it was last written: others than these, and it is checked.
        boot: The run of the machine in which it was written, since a power failure can lose what stamps do not tell.
        frequency: The number of passages that have each token.
    """

    origin: Origin
    generation: int
    lengths: Mapping[str, int] = field(default_factory=dict)
    checksums: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    boot: str = ""
    frequency: Ids = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def rows(self) -> int:
        """The number of passages."""
        return self.lengths.get("id", 0)


def write_state(path: Path, state: State) -> None:
    """Replace the state at `path`. Raises OSError."""
    known = {**asdict(replace(state, frequency=np.zeros(0, np.int64))), "boot": boot()}
    del known["frequency"]
    body = json.dumps(known).encode() + b"\n" + state.frequency.astype("<u4").tobytes()
    new = path.with_name("state.new")
    with open(new, "wb", opener=opener) as file:
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
    text, _, frequency = body.partition(b"\n")
    known = json.loads(text)
    known["origin"] = Origin(**known["origin"])
    known["stamps"] = {name: tuple(stamp) for name, stamp in known["stamps"].items()}
    return State(**known, frequency=np.frombuffer(frequency, "<u4").astype(np.int64))


@functools.cache
def boot() -> str:
    """Return what tells this run of the machine from the ones before; "" where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""

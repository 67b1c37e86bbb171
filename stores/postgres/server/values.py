"""Values on their way to PostgreSQL and back: texts with NUL, arrays of numbers."""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.string import StrDumper

__all__ = ["Planned", "adapt", "hash_of"]

# PostgreSQL's texts hold no NUL, ours may.
ESCAPE, NUL, LITERAL = "\x1a", "\x1a0", "\x1a1"
ARRAY_HEAD = 20  # bytes before the first number of an array


class Planned(str):
    """A statement that one plan is best for, whatever the values: it finds a row by its key, or writes one.

    A connection plans it once. All others are planned each time, since one namespace has ten passages and another a
    million.
    """


@lru_cache(maxsize=1 << 16)
def hash_of(*parts: str) -> int:
    """Return a hash of texts as a signed number of 64 bits.

    >>> hash_of("team", "window") != hash_of("other team", "window")
    True
    """
    data = b"".join(len(raw := part.encode()).to_bytes(8, "big") + raw for part in parts)
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


class _TextDumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        if "\0" in obj or ESCAPE in obj:
            obj = obj.replace(ESCAPE, LITERAL).replace("\0", NUL)
        return super().dump(obj)


class _TextLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> str:
        text = bytes(data).decode()
        return text.replace(NUL, "\0").replace(LITERAL, ESCAPE) if ESCAPE in text else text


class _ArrayLoader(Loader):
    """Gives an array of numbers as numpy's: of some thousand, in a hundredth of the time that a list takes."""

    format = pq.Format.BINARY
    kind: ClassVar[str]  # of the numbers on the wire,
    given: ClassVar[str]  # and here

    def load(self, data: Buffer) -> npt.NDArray[Any]:
        dimensions, has_null = struct.unpack_from(">ii", data)
        if has_null or dimensions > 1:
            raise psycopg.DataError("an array of numbers has a NULL in it, or more than one dimension")
        if not dimensions:
            return np.zeros(0, self.given)
        items = np.frombuffer(data, [("bytes", ">i4"), ("value", self.kind)], offset=ARRAY_HEAD)
        return items["value"].astype(self.given)


class _Int4s(_ArrayLoader):
    kind, given = ">i4", "<i8"


class _Int8s(_ArrayLoader):
    kind, given = ">i8", "<i8"


ARRAYS = {"int4[]": _Int4s, "int8[]": _Int8s}


def adapt(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Have a connection take and give these values."""
    adapters = connection.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("text", _TextLoader)
    for name, loader in ARRAYS.items():
        adapters.register_loader(adapters.types.get_oid(name), loader)

"""CRC-32 checksums of long data in which a part was replaced, without reading the rest."""

from __future__ import annotations

import zlib
from functools import cache

__all__ = ["patched"]

POLYNOMIAL = 0xEDB88320  # of CRC-32, the lowest bit for the highest power
ONE = 1 << 31
POWERS = 64  # bits of a length


def patched(checksum: int, old: bytes, new: bytes, behind: int) -> int:
    """Return the checksum of data in which `new` has replaced `old`, as long, with so many bytes `behind` it.

    CRC-32 is linear: each byte behind multiplies the difference by a power of x, as polynomials.

    >>> patched(zlib.crc32(b"one two six"), b"two", b"ten", 4) == zlib.crc32(b"one ten six")
    True
    """
    factor = ONE
    for bit, power in enumerate(_powers()):
        if behind >> bit & 1:
            factor = _times(factor, power)
    return checksum ^ _times(factor, zlib.crc32(old) ^ zlib.crc32(new))


@cache
def _powers() -> list[int]:
    """Return x to the powers of 8, 16, 32 and so on."""
    powers = [ONE >> 8]
    while len(powers) < POWERS:
        powers.append(_times(powers[-1], powers[-1]))
    return powers


def _times(one: int, other: int) -> int:
    product = 0
    while one:
        if one & ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (POLYNOMIAL if other & 1 else 0)
    return product

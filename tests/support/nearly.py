"""Texts and scores that rest on floats, compared as nearly as every processor and library computes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["NEAR", "are_near", "is_same_but_for_decimals"]

NEAR = 0.02  # far more than processors differ by, far less than a change of what is computed makes
_DECIMAL = re.compile(r"(?<![\w.])[-+]?\d+\.(\d+)(?!\w|\.\d)")  # no part of a version, an address or a file's name


def are_near(found: Sequence[float], written: Sequence[float], near: float = NEAR) -> bool:
    """Whether these numbers are those, but for `near`."""
    return all(abs(one - other) <= near for one, other in zip(found, written, strict=True))


def is_same_but_for_decimals(found: str, written: str) -> bool:
    """Whether two texts are the same, where a number with a decimal point may differ by `NEAR` or in its last digit."""
    if _DECIMAL.sub("N", found) != _DECIMAL.sub("N", written):
        return False
    pairs = zip(_DECIMAL.finditer(found), _DECIMAL.finditer(written), strict=True)
    return all(are_near([float(a[0])], [float(b[0])], max(NEAR, 1.01 * 10.0 ** -len(b[1]))) for a, b in pairs)

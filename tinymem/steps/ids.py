"""Ids that sort by time, short ids that a model can repeat, and the clock."""

from __future__ import annotations

import os
import secrets
import threading
import time
from datetime import datetime, timedelta, timezone

__all__ = ["moment", "new_id", "new_nanoid", "utc_now"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_END = (datetime.max.replace(tzinfo=timezone.utc, microsecond=0) - _EPOCH).total_seconds()

# Digits and letters, safe in URLs, less those that are taken for one another: 0 O o, 1 I l, 2 Z z, 5 S s, u v.
_READABLE = "346789ABCDEFGHJKLMNPQRTUVWXYabcdefghijkmnpqrtwxy"

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Make a unique id of 22 hexadecimal digits; ids sort in the order they were made, even if the clock goes back.

    14 digits are microseconds since 1970 (never the same twice in a process), 8 are random.
    """
    global _last
    with _lock:
        _last = max(time.time_ns() // 1000, _last + 1)
        stamp = _last
    return f"{stamp:014x}{os.urandom(4).hex()}"


def new_nanoid(length: int = 10) -> str:
    """Make a random id of `length` characters that people and models do not confuse; ten have 55 bits.

    >>> len(new_nanoid())
    10
    """
    return "".join(secrets.choice(_READABLE) for _ in range(length))


def utc_now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(timezone.utc)


def moment(seconds: float) -> datetime:
    """Return the moment so many seconds after 1970 began, in UTC.

    A float has no microseconds that late, so the last second of all has only its beginning.

    >>> moment(datetime.max.replace(tzinfo=timezone.utc).timestamp()).isoformat()
    '9999-12-31T23:59:59+00:00'
    """
    return _EPOCH + timedelta(seconds=min(seconds, _END))

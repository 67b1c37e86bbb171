"""Ids that sort by time, and the clock."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import datetime, timezone

__all__ = ["new_id", "utc_now"]

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A new unique id of 22 hexadecimal digits; ids sort in the order they were made, also when the clock goes back.

    14 digits are microseconds since 1970 (never the same twice in a process), 8 are random.
    """
    global _last
    with _lock:
        _last = max(time.time_ns() // 1000, _last + 1)
        stamp = _last
    return f"{stamp:014x}{secrets.token_hex(4)}"


def utc_now() -> datetime:
    """Now, aware, in UTC."""
    return datetime.now(timezone.utc)

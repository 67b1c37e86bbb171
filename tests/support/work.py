"""How much work something is, said without a clock on the wall: no machine is too slow for it, and no load too high."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["PATIENCE", "calls_of", "cpu_seconds", "grows_linearly"]

PATIENCE = 300  # seconds until what never ends is taken to hang

TIMES = 4  # as much
MOST = 10  # times as long that may take; where time grows with the square it takes 16 times
TRIES = 10


def cpu_seconds(work: Callable[[], object]) -> float:
    """What this thread computes meanwhile, for comparing with other work on the same machine."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether `work` takes at most about `TIMES` as long for `size` as for a fraction of it.

    A load disturbs some tries, but work that grows faster fails all of them.
    """
    work(size // TIMES)  # what is loaded and remembered at first
    for _ in range(TRIES):
        small = max(cpu_seconds(lambda: work(size // TIMES)), 0.002)
        if cpu_seconds(lambda: work(size)) < MOST * small:
            return True
    return False


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called meanwhile, those written in C too."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count

"""Interrupts: an exception at any moment, as Ctrl-C brings it, or what a program's handler of a signal raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["release_when_interrupted"]

CONTEXTLIB = contextmanager.__code__.co_filename


@contextmanager
def release_when_interrupted() -> Iterator[None]:
    """Let no lock and no transaction that is held inside outlive an interrupt.

    One that comes just as a block ends, before the `finally` of its context manager is reached, leaves that waiting for
    as long as the error's frames live. A prompt keeps these until the next error, and a handler until its end.
    """
    try:
        yield
    except BaseException as error:
        at = error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == CONTEXTLIB:
                with suppress(RuntimeError):  # it still runs
                    at.tb_frame.clear()
            at = at.tb_next
        raise

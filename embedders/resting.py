"""Pauses after failures, longer each time, so that time-outs are not paid again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tinymem.errors import EmbedderError

__all__ = ["Backoff"]

FIRST, LONGEST = 1.0, 60.0  # seconds of the first pause; each is twice as long as the one before, up to the longest
SHARE = 20  # times as long as the failure took: the least pause,
LONGEST_SHARE = 300.0  # of so many seconds at most


class Backoff:
    """The rest of an embedder after a failure: the `problem` ("" once it works) and the seconds that it `took`."""

    def __init__(self) -> None:
        self.problem, self.took = "", 0.0
        self._failures, self._until = 0, 0.0

    @property
    def is_on(self) -> bool:
        """True while the embedder should be left alone."""
        return time.monotonic() < self._until

    def begin(self, problem: object, took: float) -> None:
        """Note a failure: the next pause begins."""
        doubled: float = min(FIRST * 2.0 ** min(self._failures, 30), LONGEST)
        self._failures += 1
        self.problem, self.took = str(problem), took
        self._until = time.monotonic() + max(doubled, min(SHARE * took, LONGEST_SHARE))

    def end(self) -> None:
        """Note that it works."""
        self.__init__()  # type: ignore[misc]

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Note the outcome of an attempt. An EmbedderError goes on to the caller."""
        begun = time.monotonic()
        try:
            yield
        except EmbedderError as error:
            self.begin(error, time.monotonic() - begun)
            raise
        self.end()

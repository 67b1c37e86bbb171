"""An adapter that makes a summarizer of any function of steps that returns a text."""

from __future__ import annotations

from collections.abc import Sequence

from tinymem.errors import name_of
from tinymem.protocols import Summarizes
from tinymem.steps.step import Step

__all__ = ["FunctionSummarizer"]


class FunctionSummarizer:
    """A Summarizer made of a function `steps -> str`; the steps are a list, oldest first.

    The function does not learn how long its text may be: the caller of `summarize` cuts a text that is too long.

    >>> from tinymem import MessageStep
    >>> FunctionSummarizer(lambda steps: f"{len(steps)} steps").summarize([MessageStep("user", "Hello.")], 100)
    '1 steps'
    """

    def __init__(self, function: Summarizes) -> None:
        self._function = function
        self.name = name_of(function)

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        """Return the function's text for `steps`, even one longer than `max_tokens`."""
        return self._function(list(steps))

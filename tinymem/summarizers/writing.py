"""The writing of a SummaryStep: by a summarizer, fenced as data, within its tokens.

The fence's name carries a hash of the content keyed with the ids of the covered steps: the same steps give the same
fence, so prompt caches hold, and no tool or person in the summary knows the ids, and so how to close it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tinymem.errors import describe_callable, new_log_key, safe_summary, warn_hourly
from tinymem.messages.fitting import beginning
from tinymem.messages.tokens import Prices
from tinymem.protocols import Summarizer, Summarizes, TokenCounter
from tinymem.recall.render import fenced, quoted
from tinymem.steps.content import as_text, clean
from tinymem.steps.standins import covered_ids
from tinymem.steps.step import Step
from tinymem.steps.types import SummaryStep

__all__ = ["FunctionSummarizer", "SummaryWriter", "opened", "summary_block", "unfenced"]

logger = logging.getLogger(__name__)

LEAST_SUMMARY = 16  # tokens below which a summary is not worth its fence


class FunctionSummarizer:
    """A Summarizer made of a function `steps -> str`; the steps are a list, oldest first.

    The function does not learn how long its text may be: the caller of `summarize` cuts a text that is too long.

    >>> from tinymem import MessageStep
    >>> FunctionSummarizer(lambda steps: f"{len(steps)} steps").summarize([MessageStep("user", "Hello.")], 100)
    '1 steps'
    """

    def __init__(self, function: Summarizes) -> None:
        self._function = function
        self.name = describe_callable(function)

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        """Return the function's text for `steps`, even one longer than `max_tokens`."""
        return self._function(list(steps))


@dataclass
class SummaryWriter:
    """A writer of summaries by `summarizer`, or by `extractive` where that fails; `price` counts steps as sent."""

    summarizer: Summarizer
    extractive: Summarizer
    counter: TokenCounter
    price: Prices
    where: str = field(default_factory=new_log_key)

    def summary(self, covered: Sequence[Step], room: int, most: int | None = None) -> SummaryStep | None:
        """Write the summary of `covered`, which takes the place of the last of them.

        Args:
            covered: The steps that it covers.
            room: The most tokens of the summary.
            most: The most tokens of one by `extractive`, where that takes over.

        Returns:
            The summary; None where there is none, or no room for it.
        """
        last = covered[-1]
        covers = tuple(covered_ids(covered))
        summary = SummaryStep(
            "", covers, id=last.id, step_number=last.step_number, session=last.session, timestamp=last.timestamp,
            metadata={"summarizer": self.summarizer.name},
        )  # fmt: skip
        text = self._text(covered, covers, room - self.price.count(summary), most)
        return summary.evolve(summary=text) if text else None

    def _text(self, covered: Sequence[Step], covers: Sequence[str], room: int, most: int | None) -> str:
        """Write the fenced summary, in at most `room` tokens; "" where there is none, or no room."""
        left = room - self.counter.count(summary_block("", covers))
        if left < LEAST_SUMMARY:
            return ""
        body = self._body([*map(opened, covered)], left, left if most is None else min(left, most))
        # The fence's name depends on its content, and costs a token more or less.
        body = beginning(body, lambda part: self.counter.count(summary_block(part, covers)) <= room)
        return body and summary_block(body, covers)

    def _body(self, steps: Sequence[Step], max_tokens: int, most: int) -> str:
        try:
            found = self.summarizer.summarize(steps, max_tokens)
            if isinstance(found, str):
                is_ours = self.summarizer.name == self.extractive.name  # its lines have labels, and true ones
                return clean(found).strip() if is_ours else quoted("", clean(found).strip())
            problem = f"gave no text but {type(found).__name__}"
        except Exception as error:  # the window must be kept within its limit in any case
            problem = f"failed: {safe_summary(error)}"
        message = "the summarizer %s %s; lines of the steps are picked instead"
        warn_hourly(logger, self.where, message, self.summarizer.name, problem)
        return self.extractive.summarize(steps, most)


_SUMMARY = re.compile(r"\s*<summary-([0-9]{12,75}) [^>\n]*>\n(.*)\n</summary-\1>\s*", re.DOTALL)


def summary_block(body: str, covers: Sequence[str]) -> str:
    """Put `body`, the summary of the steps with these ids, in its fence."""
    return fenced("summary", f"of {len(covers)} earlier steps", body, "\n".join(covers).encode("utf-8", "replace"))


def unfenced(text: str) -> str:
    """Return the text inside the fence of a summary; a text without a fence as it is."""
    found = _SUMMARY.fullmatch(text)
    return found[2] if found else text


def opened(step: Step) -> Step:
    """Return an earlier summary without its fence; another step as it is."""
    return step.evolve(summary=unfenced(as_text(step.summary))) if isinstance(step, SummaryStep) else step

"""The contract of summarizers."""

from __future__ import annotations

from collections.abc import Callable

from tinymem.protocols import Summarizer
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep, SummaryStep, TaskStep

from .samples import BLANK, HOSTILE, require

__all__ = ["SUMMARIZER_CHECKS", "check_summarizer"]


def has_a_name(summarizer: Summarizer) -> None:
    """Its name is there and does not change."""
    name = summarizer.name
    require(isinstance(name, str) and name != "", f"name is a text that is not empty, not {name!r}")
    require(summarizer.name == name, "name stays the same")


def tells_of_steps(summarizer: Summarizer) -> None:
    """A run of steps gives a text, which is not empty; the steps, a summary among them, stay as they are."""
    steps: list[Step] = [
        SummaryStep("The port is 8443.", ["earlier"]),
        TaskStep("Find out why the build fails."),
        ActionStep("Look.", tool_name="bash", tool_args={"cmd": "make"}, error="exit code 2"),
        MessageStep("assistant", "A header is missing."),
    ]
    before = list(steps)
    for given in (steps, tuple(steps)):
        text = summarizer.summarize(given, 200)
        require(isinstance(text, str) and text.strip() != "", f"the summary is a text that is not empty, not {text!r}")
    require(steps == before, "the steps stay as they are")


def takes_any_steps(summarizer: Summarizer) -> None:
    """No steps, steps without text, surrogates, NUL, very long texts, next to no room: the summary is a text."""
    for said in ((), *((text,) for text in (*BLANK, *HOSTILE.values()))):
        for most in (0, 1, 100):
            found = summarizer.summarize([MessageStep("user", text) for text in said], most)
            require(
                isinstance(found, str), f"the summary of {said!r:.80} in {most} tokens is a text, not {found!r:.80}"
            )


SUMMARIZER_CHECKS: tuple[Callable[[Summarizer], None], ...] = (has_a_name, tells_of_steps, takes_any_steps)


def check_summarizer(summarizer: Summarizer) -> None:
    """Run every check of `SUMMARIZER_CHECKS`."""
    for check in SUMMARIZER_CHECKS:
        check(summarizer)

"""The two questions of a prompt that is given none: what was asked last in words, and what the window is about.

The first is a question, and has first call on what recall may take; the second is a stretch of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinymem.recall.passages import is_announcement
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import is_from_user
from tinymem.steps.step import Step
from tinymem.stores.words import words
from tinymem.window.semantic import default_query, newest_asked_for

__all__ = ["Questions", "asked_last"]

LEAST_WORDS = 3  # that say something, of an agent that needs something
LONGEST = 400  # characters of words that are read as a question: longer ones are a stretch by themselves


class Questions(NamedTuple):
    """The questions of a prompt: what was `asked` in words, and what the window is `about`; "" for none."""

    asked: str
    about: str

    @classmethod
    def of(cls, steps: Sequence[Step], task: Step | None = None) -> Questions:
        """Return the questions of a prompt for these steps, behind the `task`: the given, or the current one."""
        return cls(asked_last(steps), default_query(steps, task))


def asked_last(steps: Sequence[Step]) -> str:
    """Return what a person asked, or the agent said that it needs, in the newest groups; "" where nobody did.

    >>> asked_last([ActionStep("I need the ticket of module alder.", tool_name="build", observation="done")])
    'I need the ticket of module alder.'
    """
    for step in reversed(newest_asked_for(steps)):
        is_person = is_from_user(step)
        said = step.text if is_person else _words_of_agent(step)
        if said:
            is_question = len(said) <= LONGEST and (is_person or not _announces(said))
            return said if is_question else ""
    return ""


def _words_of_agent(step: Step) -> str:
    kind = "thought" if isinstance(step, ActionStep) else "reply"
    return next((part.text for part in step.parts() if part.kind == kind and part.text.strip()), "")


def _announces(said: str) -> bool:
    """Return whether an agent only says what it does next, or that it goes on, or writes down its act."""
    is_act = said.rstrip().endswith(":") or "{" in said or "`" in said
    return is_act or is_announcement(said) or len(words(said)) < LEAST_WORDS

"""The recall of a prompt: what is asked has first call on its room, and what the window is about has the rest.

A prompt that is given no question has two: what was asked last in words, and what the window is about, which is a
stretch of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from tinymem.archive.archive import Archive
from tinymem.recall import Excerpt, Recall
from tinymem.recall.passages import is_announcement
from tinymem.recall.relevance import BEARS
from tinymem.recall.render import block, header, headers_of, line, name_numbers
from tinymem.recall.search import Search
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import is_from_user
from tinymem.steps.step import Step
from tinymem.stores.filter import Filter
from tinymem.stores.words import words
from tinymem.window.semantic import default_query, newest_asked_for

__all__ = ["FENCE", "LEAST_BLOCK", "NOTHING", "WORTH", "Questions", "Recaller", "asked_last", "block_of"]

LEAST_BLOCK = 64  # tokens below which a block is not worth its fence
FENCE = 32  # tokens of a fence, about
PASSAGE = 1_000  # tokens that any passage fits
FIRST = 0.75  # share of what is recalled that the first of two questions has at most, beyond what it needs
WORTH = 0.005  # chance from which on a passage bears on what the window is about, where a prompt is to go on
LEAST_WORDS = 3  # that say something, of an agent that needs something
LONGEST = 400  # characters of words that are read as a question: longer ones are a stretch by themselves
NOTHING = Recall("", 0, ())


class Questions(NamedTuple):
    """The questions of a prompt: what was `asked` in words, and what the window is `about`; "" for none."""

    asked: str
    about: str

    @classmethod
    def of(cls, steps: Sequence[Step], task: Step | None = None) -> Questions:
        """Return the questions of a prompt for these steps, behind the `task`: the given, or the current one."""
        return cls(asked_last(steps), default_query(steps, task))


@dataclass(frozen=True)
class Recaller:
    """Recalls for a prompt, and nothing where that has nothing to do with its questions.

    Attributes:
        search: Finds what bears on a question.
        archive: What it searches.
        questions: The questions of the prompt.
        when: When they are asked.
        only: The steps that may be recalled; all unless given.
        without: The numbers of steps that may not.
    """

    search: Search
    archive: Archive
    questions: Questions
    when: datetime
    only: Filter | None = None
    without: Collection[int] = ()

    def allows(self, step: Step) -> bool:
        """Return whether a step may be recalled."""
        return step.step_number not in self.without and (self.only is None or self.only.accepts(step))

    def asked(self, most: int, room: int, hidden: Collection[int], shown: Sequence[Excerpt] = ()) -> Recall:
        """Return what bears on what is asked, but hidden steps and what lies in shown excerpts.

        It has `room` tokens where more bears on it than fits its share of `most`.
        """
        share = FIRST if self.questions.about else 1
        first = min(room, max(int(share * most), PASSAGE))
        found = self._ask(self.questions.asked, first, hidden, shown)
        if first == room or not found.overflow.passages:
            return found
        return self._ask(self.questions.asked, room, hidden, shown)

    def needed(self, found: Recall, most: int = 0) -> Recall:
        """Return what was found without what hardly bears on what is asked, but for what `most` tokens have room for.

        The best and what bears on it stay, whatever their tokens, and what bears most on it for its tokens: a short
        answer seems less likely than long passages that have more of the question in them.
        """
        if not found.items or found.tokens <= most:
            return found
        best, *others = sorted(found.items, key=lambda item: item.relevance / (item.tokens + LEAST_BLOCK), reverse=True)
        least = min(BEARS, max(item.relevance for item in found.items))
        items = [best, *(item for item in others if item.relevance >= least)]
        needed = self._block(found, items, found.tokens)
        left = most - FENCE - sum(item.tokens for item in items)
        for item in others:
            if item.relevance < least and item.tokens <= left:
                items.append(item)
                left -= item.tokens
        return self._block(needed, items, most)

    def filled(
        self, found: Recall, room: int, hidden: Collection[int], shown: Sequence[Excerpt], least: float | None = None
    ) -> Recall:
        """Return what is needed of what was found and, in `room` tokens with it, what bears on the window.

        What is asked may have more of them than it needs, up to the share FIRST where there is something else. What
        bears on the window has the relevance `least`.
        """
        found = self.needed(found, int(FIRST * room) if self.questions.about else room)
        left = room - found.tokens
        if left < LEAST_BLOCK:
            return found
        more = self._ask(self.questions.about, left, hidden, [*shown, *found.items], least)
        if not found.items:
            return more
        overflow = found.overflow if found.overflow.passages else more.overflow
        return self._block(replace(found, overflow=overflow), [*found.items, *more.items], room)

    def _ask(
        self,
        question: str,
        room: int,
        hidden: Collection[int],
        shown: Sequence[Excerpt],
        least: float | None = None,
    ) -> Recall:
        if not question or room < LEAST_BLOCK:
            return NOTHING
        found = self.search.recall(
            question, room, self.when, hidden={*hidden, *self.without}, only=self.only,
            min_relevance=least, share=0, shown=shown,
        )  # fmt: skip
        return found if found.is_relevant else replace(found, text="", tokens=0, items=())

    def _block(self, found: Recall, items: Sequence[Excerpt], room: int) -> Recall:
        """Return what was found with these excerpts, or as it is where they are its own or have over `room` tokens."""
        if len(items) == len(found.items):
            return found
        ordered = sorted(items, key=_order_in_time)
        text = block_of(ordered, self.archive.key)
        tokens = self.archive.counter.count(text)
        return replace(found, text=text, tokens=tokens, items=tuple(ordered)) if tokens <= room else found


def block_of(items: Iterable[Excerpt], key: bytes, namespace: str = "") -> str:
    """Return the block of these excerpts again, as it stood in a prompt; or each with its number in a `namespace`."""
    items, lines = [*items], []
    named = {item.newer for item in items}
    for item, dated in zip(items, headers_of([(header(item.step), item.step.session) for item in items]), strict=True):
        is_named = item.step.step_number in named or bool(namespace or item.corrects)
        shown = "" if is_named else item.line
        if not shown:
            gone = [(start, end, name_numbers(mark, namespace)) for start, end, mark in item.gone]
            shown = line(item.step, item.step.parts()[item.part], item.start, item.end, is_named, gone)
        lines.append((dated, namespace + shown + item.mark.replace("#", f"{namespace}#")))
    return block(lines, key)


def _order_in_time(item: Excerpt) -> tuple[datetime, int, int, int]:
    return item.step.timestamp, item.step.step_number or 0, item.part, item.start


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

"""Memories as hooks read them: what a session begins with, what a prompt gets, and what is said of a call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tinymem.coding.preferences import Preferences
from tinymem.coding.progress import progress_block
from tinymem.coding.reminders import Reminders
from tinymem.integrations.mcp.numbers import with_namespace
from tinymem.integrations.mcp.recent import list_steps, newest_steps
from tinymem.recall import Excerpt
from tinymem.recall.relevance import floor_of_prompts
from tinymem.recall.render import between, own_blocks
from tinymem.recall.search import Search
from tinymem.runs.harness import ABOUT, AGENT, typed_words
from tinymem.runs.values import text_in
from tinymem.steps.actions import ActionStep
from tinymem.steps.ids import utc_now
from tinymem.steps.standins import is_request
from tinymem.stores.filter import Filter
from tinymem.stores.words import words

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.runs.hooks.answers import Asked
    from tinymem.steps.step import Step

__all__ = ["FOUND", "PROGRESS", "InFront", "Reader", "words_of"]

LONGEST_PROMPT = 10_000  # characters of a prompt that recall asks with
GREETING, FOUND = 1_000, 500  # tokens of what a session begins with, and of what a prompt recalls
PREFERRED = 100  # of the second, preferences get at most
PROGRESS = 400  # of the first, what a compacted session did gets at most,
RULES_SHARE = 0.5  # and rules so much of it,
RULES_MOST = 100  # of which so many of the newest are looked at
BESIDE = 4  # times less likely may be what comes back beside a passage that is likely enough
OF_RULES = 2.0  # times as likely must a rule be, of which one is near whatever is asked

_HEAD = re.compile(rf"^(?:{re.escape(ABOUT)}|\[namespace [^\n]*\])$", re.MULTILINE)


@dataclass
class InFront:
    """The part of a memory that a session has in front of it.

    Attributes:
        after: The number of its last step before it was compacted: what it said up to there may be recalled.
        seen: The numbers of its own steps since, of those that it began with, and of preferences.
        recalled: The excerpts that its prompts got.
    """

    after: int = 0
    seen: set[int] = field(default_factory=set)
    recalled: list[Excerpt] = field(default_factory=list)


class Reader:
    """A memory as hooks read it.

    Args:
        memory: The memory.
        label: What stands before the numbers of its steps.
    """

    def __init__(self, memory: HierarchicalMemory, label: str = "") -> None:
        self.memory, self.label, self._past = memory, label, memory.long_term
        self.count = self._past.counter.count
        self.reminders = Reminders(memory, label)
        self._preferences = Preferences(memory)

    def prepare(self) -> None:
        """Load what answers prompts."""
        Search(self._past).recall("How does this begin?", FOUND, utc_now())

    # -- what a session begins with -----------------------------------------------------------------------------------

    def greeting(self, asked: Asked, front: InFront) -> str:
        """Return what the session that asks should begin with; "" where that is nothing.

        A new session gets the rules that people gave, and then what was said last. A session that is resumed has its
        own steps, and what it was greeted with: it gets what others said since. After a compaction it gets the rules
        again, its own requests, its last commands and the files that it used, and then what was said. What it has in
        `front` of it is noted.
        """
        session, source = asked.session, asked.details.get("source")
        last = next((_number(step) for step in self.memory.history(session, newest=True)), 0) if session else 0
        since = last if source == "resume" else 0
        left = (asked.max_tokens or GREETING) - self.count(f"{ABOUT}\n")
        rules = "" if since else list_steps(self.memory, self._rules(), int(left * RULES_SHARE), self.label)
        left -= self.count(f"{rules}\n")
        shown = self._numbers_in(rules)

        def is_new(step: Step) -> bool:
            return _is_said(step) and _number(step) not in shown and _number(step) > since

        if last and source == "compact":
            front.after = last
            said = self._of_compacted(asked, left, is_new)
        else:
            said = newest_steps(self.memory, left, only=is_new, namespace=self.label)
        text = "\n".join(filter(None, [rules, said]))
        front.seen |= self._numbers_in(text)
        return f"{ABOUT}\n{text}" if text else ""

    def _of_compacted(self, asked: Asked, left: int, is_new: Callable[[Step], bool]) -> str:
        """Return what a session that was compacted asked for, did and said."""
        session, folder = asked.session, text_in(asked.details, "cwd")
        newest = partial(newest_steps, self.memory, session=session, namespace=self.label)
        requests = newest(left // 2, only=lambda step: is_request(step) and is_new(step))
        left -= self.count(f"{requests}\n")
        did = progress_block(self.memory.long_term, session, min(PROGRESS, left), self.label, folder)
        left -= self.count(f"{did}\n")
        said = newest(left, only=lambda step: is_new(step) and not is_request(step))
        return "\n".join(filter(None, [requests, did, said]))

    def _rules(self) -> list[Step]:
        """Return the newest steps in which people gave rules, as corrected, newest first and without repetitions."""
        self._past.queue.catch_up()
        numbers = {self._past.corrections.get(number, number) for number in self._past.rules()}
        steps = self._past.fetch(sorted(numbers)[-RULES_MOST:])
        by_words = {" ".join(words(step.text)): step for _, step in sorted(steps.items())}
        return sorted(by_words.values(), key=_number, reverse=True)

    # -- what a prompt gets -------------------------------------------------------------------------------------------

    def found(self, prompt: str, session: str, front: InFront, room: int) -> str:
        """Return what is known of a prompt, less what its session has in `front` of it, to which this is added."""
        said = self._past.journal.matching(Filter(session=session)) if session else []
        front.seen.update(number for number in said if number > front.after)
        text = self._recalled(prompt, room, front)
        return (text + self._preferred(prompt, min(room - self.count(text), PREFERRED), front)).strip()

    def _recalled(self, prompt: str, room: int, front: InFront) -> str:
        least = floor_of_prompts()
        asked, now = prompt[:LONGEST_PROMPT], utc_now()
        recall = partial(Search(self._past).recall, asked, room, now, min_relevance=least / BESIDE)
        if front.seen and {excerpt.step.step_number for excerpt in recall(k=1)} <= front.seen:
            return ""  # the best of all stands in front of the agent already
        found = recall(hidden=front.seen, shown=front.recalled, ids=True)
        if not any(self._is_likely(excerpt, least) for excerpt in found):
            return ""
        found = with_namespace(found, self.label, self.memory, room)
        front.recalled += found.items
        return found.text

    def _is_likely(self, excerpt: Excerpt, least: float) -> bool:
        """Return whether an excerpt is reason enough to speak: what was asked for, and then done, is none."""
        step, number = excerpt.step, _number(excerpt.step)
        if excerpt.relevance < least:
            return False
        after = self._past.fetch([number + 1]).get(number + 1)
        if is_request(step) and isinstance(after, ActionStep) and after.tool_calls and after.session == step.session:
            return False
        return excerpt.relevance >= least * (OF_RULES if number in self._past.rules() else 1)

    def _preferred(self, prompt: str, room: int, front: InFront) -> str:
        """Return what people said of the kind of task that a prompt asks for: each once a session."""
        recalled = (_number(excerpt.step) for excerpt in front.recalled)
        steps = self._preferences.of(prompt, front.seen.union(recalled))
        text = list_steps(self.memory, steps, room, self.label)
        front.seen |= self._numbers_in(text)
        return text and f"\n{text}"

    def _numbers_in(self, text: str) -> set[int]:
        """Return the numbers of the steps that a text lists."""
        return {*map(int, re.findall(rf"^{re.escape(self.label)}#(\d+) ", text, re.MULTILINE))}


def _number(step: Step) -> int:
    return step.step_number or 0


def _is_said(step: Step) -> bool:
    """Return True for what is neither a call of a tool, nor its result, nor what a subagent was asked."""
    return not isinstance(step, ActionStep) and getattr(step, "role", None) != "tool" and step.speaker != AGENT


def words_of(prompt: str, keys: Sequence[bytes]) -> str:
    """Return what a person typed of a prompt, without what a program or a memory put there."""
    for key in keys:
        blocks = own_blocks(prompt, key)
        prompt = "".join(prompt[start:end] for start, end in between(len(prompt), blocks))
    return typed_words(_HEAD.sub("", prompt).strip(), Counter(), [])

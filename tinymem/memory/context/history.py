"""The history of a session as it came last, and the steps that were made of it: those that come again stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, groupby, islice, takewhile
from operator import attrgetter, eq
from typing import NamedTuple

from tinymem.memory.context.recaller import Questions
from tinymem.memory.context.window import RenderedWindow, fit_request, positions_of
from tinymem.messages.conversion import open_calls
from tinymem.messages.formats.conversation import ItemConversation
from tinymem.messages.recognition import MessageKey, Messages
from tinymem.protocols import MessageRow, TokenCounter
from tinymem.steps.standins import is_request
from tinymem.steps.step import Step
from tinymem.window.semantic import QUERY_STEPS
from tinymem.window.sending import MessageRenderer

__all__ = ["History"]


class _Read(NamedTuple):
    """A step of a history.

    Attributes:
        step: The step.
        places: The places of its messages behind the prompts.
        waiting: The calls of it that wait for their results.
        asks: Whether a user says it.
        keys: The keys of its messages.
        numbers: The numbers of the steps that stand whole in them.
    """

    step: Step
    places: Sequence[int]
    waiting: Collection[str]
    asks: bool
    keys: Sequence[MessageKey]
    numbers: Collection[int]


class History:
    """The history of a session.

    Attributes:
        session: Its name.
        conversation: Its messages, as they came last.
        prompts: The steps of the prompts at their beginning.
        dropped: The steps that it had behind those that came again, and does not have any more.
    """

    def __init__(self, session: str, conversation: ItemConversation, counter: TokenCounter) -> None:
        self.session, self.conversation, self._counter = session, conversation, counter
        self.prompts: Sequence[Step] = ()
        self.dropped: list[Step] = []
        self._read: dict[str, _Read] = {}  # by step
        self._sending: MessageRenderer | None = None

    @property
    def steps(self) -> list[Step]:
        """The steps behind the prompts."""
        return [read.step for read in self._read.values()]

    def follow(self, conversation: ItemConversation, prompts: Sequence[Step]) -> int:
        """Keep the steps that come again in a conversation; return the place behind their messages and the prompts."""
        before, now = self.conversation.read_of[len(self.prompts) :], conversation.read_of[len(prompts) :]
        kept, end = self._whole(sum(takewhile(bool, map(eq, now, before))))
        self.dropped = [*self.steps[kept:], *self.dropped]
        self._read = dict(islice(self._read.items(), kept))
        self.conversation, self.prompts = conversation, prompts
        return len(prompts) + end

    def _whole(self, count: int) -> tuple[int, int]:
        """Return how many steps are made of the first `count` messages alone, and where these messages end.

        No call among them waits for a result.
        """
        whole, end = (0, 0), 0
        for place, read in enumerate(self._read.values()):
            if read.places[0] >= end:
                whole = place, end
            end = max(end, read.places[-1] + 1)
            if end > count or read.waiting:
                return whole
        return len(self._read), end

    def said(self) -> Counter[str]:
        """Return how often each hash of a message stands in the steps."""
        keys = chain.from_iterable(read.keys for read in self._read.values())
        return Counter(key.said for key in keys)

    def extend(self, steps: Iterable[Step], batch: Messages) -> None:
        """Put the steps of a batch of messages behind the others."""
        for step, keys, indices in zip(steps, batch.keys, batch.places, strict=True):
            rows = [*map(batch.known.get, keys)]
            step = step.evolve(step_number=rows[-1].step or None) if rows[-1] else step
            places = [index - len(self.prompts) for index in indices]
            waiting, asks = open_calls([step]), is_request(step)
            self._read[step.id] = _Read(step, places, waiting, asks, keys, _numbers_of_whole(filter(None, rows)))

    # -- as a context asks for it

    def inputs(self, step: Step) -> Sequence[int]:
        """Return the indices of a step's messages in the caller's list."""
        if step.id in self._read:
            return [len(self.prompts) + place for place in self._read[step.id].places]
        return [index for index, prompt in enumerate(self.prompts) if prompt.id == step.id]

    def questions(self) -> Questions:
        """Return the questions of a context that is given none."""
        return Questions.of([*self.prompts, *self.steps[-QUERY_STEPS:]], self._task())

    def _task(self) -> Step | None:
        """Return the newest step that a user said, unless it is the newest of all."""
        asked = [read.step for read in self._read.values() if read.asks]
        return asked[-1] if asked and asked[-1] is not self.steps[-1] else None

    def window(self, budget: int, sending: MessageRenderer) -> RenderedWindow:
        """Return what a context of `budget` tokens may show: prompts, the newest request, and what it has room for.

        A request that something was done for is shortened to its share of the budget.
        """
        if self._sending is None or self._sending.style != sending.style:
            self._sending = sending.like(self._tokens_beside, self.conversation.format)
        steps = [*self.prompts, *self.steps]
        groups = self._sending(steps)
        fixed, partial = {prompt.id for prompt in self.prompts}, set[str]()
        positions = positions_of(groups)
        task = self._task()
        if task:
            place = next(place for place, sent in enumerate(groups) if task.id in sent.step_ids)
            fixed.add(groups[place].first)
            groups[place], partial = fit_request(groups[place], budget, self._sending)
        inputs = {step.id: self.inputs(step) for step in steps}
        kept = {id: read.numbers for id, read in self._read.items()}
        return RenderedWindow(self._sending, steps, groups, fixed, positions, partial, inputs, kept)

    def _tokens_beside(self, group: Sequence[Step], sources: Iterable[tuple[int, int]]) -> int:
        """Count the tokens of what goes back with messages of a group and is not in them."""
        indices = chain.from_iterable(self.inputs(group[number])[place : place + 1] for number, place in sources)
        return sum(self.conversation.tokens_beside(index, self._counter) for index in indices)


def _numbers_of_whole(rows: Iterable[MessageRow]) -> Collection[int]:
    """Return the numbers of the steps that stand whole in a row of messages: from their first to their last one."""
    ends = [[*stretch][-1] for _, stretch in groupby(rows, attrgetter("step"))]
    times = Counter(row.step for row in ends)
    return {row.step for row in ends if row.is_last and times[row.step] == 1}

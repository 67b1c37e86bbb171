"""The history of a session as it came last, with all that was made of it: what stays of it is not made again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from tinymem.memory.context.questions import Questions
from tinymem.memory.context.window import RenderedWindow, fit_request, positions_of
from tinymem.messages.answers import open_calls
from tinymem.messages.conversion import groups
from tinymem.messages.formats.conversation import ItemConversation
from tinymem.messages.recognition import MessageKey
from tinymem.messages.validity import CallIds
from tinymem.protocols import MessageRow, TokenCounter
from tinymem.steps.standins import is_request
from tinymem.steps.step import Step
from tinymem.window.semantic import QUERY_STEPS
from tinymem.window.sending import MessageRenderer, RenderedGroup

__all__ = ["History"]


class _Origin(NamedTuple):
    """The messages that a step was made of.

    Attributes:
        keys: Their keys.
        places: Their places among those that count.
        end: How many of these there are up to the last one of this step and of those before it.
        numbers: The numbers of the steps that stand whole in them.
    """

    keys: Sequence[MessageKey]
    places: Sequence[int]
    end: int
    numbers: Collection[int]


class History:
    """The history of a session.

    Attributes:
        session: Its name.
        conversation: Its messages, as they came last.
        prompts: The steps of the prompts at their beginning.
        count: How many messages there are behind the prompts.
        places: The places of those behind the prompts that count: the memory added the others.
        steps: The steps that these make.
        said: How often each hash of a message stands in them.
        dropped: The steps that it had behind these, and does not have any more.
    """

    def __init__(self, session: str, counter: TokenCounter) -> None:
        self.session = session
        self.conversation: ItemConversation | None = None
        self.prompts: list[Step] = []
        self.count = 0
        self.places: list[int] = []
        self.steps: list[Step] = []
        self.dropped: list[Step] = []
        self._counter = counter
        self.said: Counter[str] = Counter()
        self._origins: dict[str, _Origin] = {}  # by step
        self._settled = 0  # how many steps at the beginning have no call without a result
        self._form: tuple[str, str] = "", ""  # of what is rendered: its style, and its provider's format
        self._rendered: RenderedGroups | None = None

    def cut(self, count: int) -> int:
        """Keep what was made of the first `count` messages behind the prompts, up to the first call without a result.

        Returns:
            How many of the messages that count are kept.
        """
        unsettled = self.steps[self._settled :]
        waiting = (self._origins[step.id].places[0] for step in unsettled if open_calls([step]))
        end = min(bisect_left(self.places, count), next(waiting, len(self.places)))
        while self._end() > end:
            self.dropped.insert(0, self.steps.pop())
            origin = self._origins.pop(self.dropped[0].id)
            end = min(end, origin.places[0])
            self.said.subtract(key.said for key in origin.keys)
        self._settled = len(self.steps)
        del self.places[end:]
        if self._rendered:
            self._rendered.cut(len(self.steps))
        return end

    def _end(self) -> int:
        return self._origins[self.steps[-1].id].end if self.steps else 0

    def append(
        self,
        step: Step,
        keys: Sequence[MessageKey],
        places: Sequence[int],
        known: Mapping[tuple[str, int], MessageRow],
    ) -> None:
        """Put a step behind the others, with the keys and places of its messages, some of which are kept."""
        rows = [known[key] for key in keys if key in known]
        number = known[keys[-1]].step if keys[-1] in known else None
        step = step.evolve(id=keys[-1].id, step_number=number or None)
        end = max(places[-1] + 1, self._end())
        self.said.update(key.said for key in keys)
        self.steps.append(step)
        self._origins[step.id] = _Origin(keys, places, end, _numbers_of_whole(rows))

    # -- as a context asks for it

    def inputs(self, step: Step) -> Sequence[int]:
        """Return the indices of a step's messages in the caller's list."""
        if step.id in self._origins:
            return [len(self.prompts) + self.places[place] for place in self._origins[step.id].places]
        return [index for index, prompt in enumerate(self.prompts) if prompt.id == step.id]

    def numbers(self, step: Step) -> Collection[int]:
        """Return the numbers of the steps that stand whole in the messages of a step."""
        return self._origins[step.id].numbers if step.id in self._origins else ()

    def questions(self) -> Questions:
        """Return the questions of a context that is given none."""
        task = self._task
        newest = [*self.prompts, *self.steps[-QUERY_STEPS:]]
        return Questions.of(newest, None if task is None else self.steps[task])

    @property
    def _task(self) -> int | None:
        """The place of the newest step that a user said, unless it is the newest of all."""
        last = len(self.steps) - 1
        newest = next((place for place in range(last, -1, -1) if is_request(self.steps[place])), None)
        return None if newest == last else newest

    def window(self, budget: int, sending: MessageRenderer) -> RenderedWindow:
        """Return what a context of `budget` tokens may show: prompts, the newest request, and what it has room for.

        A request that something was done for is shortened to its share of the budget.
        """
        rendered = self._as_sent(sending)
        first = rendered.reach(budget)
        shown = rendered.groups[first:]
        front = [rendered.sending.rendered([step], CallIds()) for step in self.prompts]
        fixed, partial = {prompt.first for prompt in front}, set[str]()
        positions = {**dict.fromkeys(fixed, 0), **positions_of(shown, rendered.starts[first:])}
        task = self._task
        if task is not None:
            place = rendered.place_of(task)
            request, partial = fit_request(rendered.groups[place], budget, rendered.sending)
            fixed.add(request.first)
            if place < first:
                front.append(request)
            else:
                shown[place - first] = request
        steps = [*self.prompts, *self.steps]
        return RenderedWindow(rendered.sending, steps, [*front, *shown], fixed, positions, partial, self)

    def _as_sent(self, sending: MessageRenderer) -> RenderedGroups:
        assert self.conversation is not None
        form = sending.style, self.conversation.format
        if self._rendered is None or self._form != form:
            self._form = form
            self._rendered = RenderedGroups(sending.like(self._tokens_beside, self.conversation.format))
        self._rendered.follow(self.steps)
        return self._rendered

    def _tokens_beside(self, step: Step, place: int) -> int:
        """Count the tokens of what goes back with a message of a step and is not in it."""
        assert self.conversation is not None
        inputs = self.inputs(step)
        return self.conversation.tokens_beside(inputs[place], self._counter) if place < len(inputs) else 0


def _numbers_of_whole(rows: Sequence[MessageRow]) -> Collection[int]:
    """Return the numbers of the steps that stand whole in a row of messages: from their first to their last one."""
    stretches = [[*stretch] for _, stretch in groupby(rows, attrgetter("step"))]
    times = Counter(stretch[0].step for stretch in stretches)
    return {stretch[0].step for stretch in stretches if stretch[-1].is_last and times[stretch[0].step] == 1}


class RenderedGroups:
    """The groups of a history as they are sent, each rendered once while the history grows.

    Attributes:
        sending: Renders and counts them.
        groups: The groups.
        starts: How many tokens come before each group.
        ends: How many steps there are up to the end of each.
    """

    def __init__(self, sending: MessageRenderer) -> None:
        self.sending = sending
        self.groups: list[RenderedGroup] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._ids = CallIds()

    def cut(self, count: int) -> None:
        """Keep the groups within the first `count` steps."""
        while self.ends and self.ends[-1] > count:
            self._ids.give_back([name for _, name in self.groups.pop().ids])
            del self.starts[-1], self.ends[-1]

    def follow(self, steps: Sequence[Step]) -> None:
        """Render the groups of the steps that have come since."""
        end = self.ends[-1] if self.ends else 0
        tokens = self.starts[-1] + self.groups[-1].tokens if self.groups else 0
        for group in groups(steps[end:]):
            self.groups.append(self.sending.rendered(group, self._ids))
            self.starts.append(tokens)
            end += len(group)
            self.ends.append(end)
            tokens += self.groups[-1].tokens

    def place_of(self, step: int) -> int:
        """Return the place of the group of a step, by the step's own place."""
        return bisect_right(self.ends, step)

    def reach(self, budget: int) -> int:
        """Return the place of the first group that `budget` tokens may reach, besides the newest one."""
        return max(0, bisect_left(self.starts, self.starts[-1] - budget) - 1) if self.starts else 0

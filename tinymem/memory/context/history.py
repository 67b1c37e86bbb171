"""The history of a session as it came last, with all that was made of it: what stays of it is not made again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import groupby

from tinymem.memory.context.questions import Questions
from tinymem.memory.context.window import Window, fit_request
from tinymem.messages.conversion import groups
from tinymem.messages.formats.conversation import ItemConversation
from tinymem.messages.recognition import Node
from tinymem.messages.validity import CallIds
from tinymem.protocols import TokenCounter
from tinymem.steps.standins import is_request
from tinymem.steps.step import Message, Step
from tinymem.steps.types import ActionStep, MessageStep
from tinymem.window.semantic import QUERY_STEPS
from tinymem.window.sending import MessageRenderer, RenderedGroup

__all__ = ["History"]


class History:
    """The history of a session.

    Attributes:
        session: Its name.
        conversation: Its messages, as they came last.
        prompts: The prompts at their beginning, each with its step.
        count: How many messages there are behind the prompts.
        own: The places of those behind the prompts that count: the memory added the others.
        nodes: The places of these in the chain.
        steps: The steps that they make.
        ends: How many messages there are up to the last one of these steps, for each step.
    """

    def __init__(self, session: str, counter: TokenCounter) -> None:
        self.session = session
        self.conversation: ItemConversation | None = None
        self.prompts: list[tuple[Message, Step]] = []
        self.count = 0
        self.own: list[int] = []
        self.nodes: list[Node] = []
        self.steps: list[Step] = []
        self.ends: list[int] = []
        self._counter = counter
        # by step: where its messages are, and the numbers of the steps that stand whole in them
        self._places: dict[str, tuple[Sequence[int], set[int]]] = {}
        self._asked: list[int] = []  # places of the steps that a user said
        self._form: tuple[str, str] = "", ""  # of what is rendered: its style, and its provider's format
        self._rendered: RenderedGroups | None = None

    def cut(self, count: int) -> int:
        """Keep what was made of the first messages behind the prompts, less an action that may get more results.

        Returns:
            How many of them count.
        """
        del self.own[bisect_left(self.own, count) :]
        self._drop_behind(len(self.own))
        while self.steps and isinstance(self.steps[-1], MessageStep) and self.steps[-1].role == "tool":
            self._drop()
        if self.steps and isinstance(self.steps[-1], ActionStep):
            self._drop_behind(self._drop())
        del self.nodes[len(self.own) :], self._asked[bisect_left(self._asked, len(self.steps)) :]
        if self._rendered:
            self._rendered.cut(len(self.steps))
        return len(self.own)

    def _drop_behind(self, end: int) -> None:
        """Drop the steps that have messages from `end` on, and those whose messages stand between these."""
        while self.ends and self.ends[-1] > end:
            end = min(end, self._drop())

    def _drop(self) -> int:
        """Drop the last step, and return the place of its first message."""
        self.ends.pop()
        return self._places.pop(self.steps.pop().id)[0][0]

    def append(self, step: Step, places: Sequence[int]) -> None:
        """Put a step behind the others whose messages have these places."""
        nodes = [self.nodes[place] for place in places]
        step = step.evolve(id=nodes[-1].link, step_number=nodes[-1].number or None)
        if is_request(step):
            self._asked.append(len(self.steps))
        self.steps.append(step)
        self.ends.append(max(places[-1] + 1, self.ends[-1] if self.ends else 0))
        self._places[step.id] = places, _numbers_of_whole(nodes)

    # -- as a context asks for it

    def inputs(self, step: Step) -> Sequence[int]:
        """Return the indices of a step's messages in the caller's list."""
        if step.id in self._places:
            return [len(self.prompts) + self.own[place] for place in self._places[step.id][0]]
        return [at for at, (_, prompt) in enumerate(self.prompts) if prompt.id == step.id]

    def numbers(self, step: Step) -> Collection[int]:
        """Return the numbers of the steps that stand whole in the messages of a step."""
        return self._places[step.id][1] if step.id in self._places else ()

    def questions(self) -> Questions:
        """Return the questions of a context that is given none."""
        newest = [*(step for _, step in self.prompts), *self.steps[-QUERY_STEPS:]]
        return Questions.of(newest, None if self._task is None else self.steps[self._task])

    @property
    def _task(self) -> int | None:
        """The place of the newest step that a user said, unless it is the newest of all."""
        return self._asked[-1] if self._asked and self._asked[-1] < len(self.steps) - 1 else None

    def window(self, budget: int, sending: MessageRenderer) -> Window:
        """Return what a context of `budget` tokens may show: prompts, the newest request, and what it has room for.

        A request that something was done for is shortened to its share of the budget.
        """
        rendered = self._as_sent(sending)
        first = rendered.reach(budget)
        shown = rendered.groups[first:]
        positions = {step.id: rendered.starts[at] for at, one in enumerate(shown, first) for step in one.group}
        front = [rendered.sending.rendered([step], CallIds()) for _, step in self.prompts]
        positions |= {one.first: 0 for one in front}
        fixed, partial = {one.first for one in front}, set[str]()
        if self._task is not None:
            at = rendered.place_of(self._task)
            whole = rendered.groups[at]
            request, partial = fit_request(whole, budget, rendered.sending)
            fixed.add(request.first)
            if at < first:
                front.append(request)
            else:
                shown[at - first] = request
        steps = [*(step for _, step in self.prompts), *self.steps]
        return Window(rendered.sending, steps, [*front, *shown], fixed, positions, partial, self)

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


def _numbers_of_whole(nodes: Sequence[Node]) -> set[int]:
    """Return the numbers of the steps that stand whole in these messages."""
    runs = [(number, [*some]) for number, some in groupby(nodes, lambda node: node.number)]
    once = [number for number, _ in runs]
    return {number for number, some in runs if number and some[-1].ends and once.count(number) == 1}


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

    def cut(self, count: int) -> int:
        """Keep the groups within the first `count` steps, and return how many steps they have."""
        while self.ends and self.ends[-1] > count:
            self._ids.give_back([name for _, name in self.groups.pop().ids])
            del self.starts[-1], self.ends[-1]
        return self.ends[-1] if self.ends else 0

    def follow(self, steps: Sequence[Step]) -> None:
        """Render the groups of the steps that have come since."""
        begin = self.ends[-1] if self.ends else 0
        if begin == len(steps):
            return
        end = self.cut(self._begin(steps[begin:], begin))
        tokens = self.starts[-1] + self.groups[-1].tokens if self.groups else 0
        for group in groups(steps[end:]):
            self.groups.append(self.sending.rendered(group, self._ids))
            self.starts.append(tokens)
            self.ends.append(end := end + len(group))
            tokens += self.groups[-1].tokens

    def _begin(self, new: Sequence[Step], begin: int) -> int:
        """Return the place from which on groups change: that of the first call that new steps answer, or `begin`."""
        called, answered = set[str](), set[str]()
        for step in new:
            if isinstance(step, ActionStep):
                called |= {call.id for call in step.tool_calls}
            elif isinstance(step, MessageStep) and step.tool_call_id and step.tool_call_id not in called:
                answered.add(step.tool_call_id)
        for at in range(len(self.groups) - 1, -1, -1):
            if not answered:
                break
            actions = (step for step in self.groups[at].group if isinstance(step, ActionStep))
            waiting = {call.id for step in actions for call in step.tool_calls if not call.answered}
            if found := answered & waiting:
                answered -= found
                begin = self.ends[at] - len(self.groups[at].group)
        return begin

    def place_of(self, step: int) -> int:
        """Return the place of the group of a step, by the step's own place."""
        return bisect_right(self.ends, step)

    def reach(self, budget: int) -> int:
        """Return the place of the first group that `budget` tokens may reach, besides the newest one."""
        return max(0, bisect_left(self.starts, self.starts[-1] - budget) - 1) if self.starts else 0

"""Window: the steps that stand in a prompt, and all that can be done to them, as values that its owner carries out.

The window only works out what changes: the numbers of steps that are added, what a strategy made of it, how a report is
undone. A MemoryManager shows that at once; the window of a memory on disk writes it to the journal first. Nothing here
calls its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tinymem.errors import InputError, describe_type
from tinymem.messages.conversion import (
    call_ids,
    is_result,
    messages_from_steps,
    open_calls,
    pending_calls,
    steps_from_messages,
    without_lone_results,
)
from tinymem.steps.checks import Time, to_utc
from tinymem.steps.collection import StepCollection, Steps
from tinymem.steps.content import Content
from tinymem.steps.standins import newest_of, rank
from tinymem.steps.step import STEP_TYPES, Message, Step, StepT, Style, are_same
from tinymem.steps.types import CORRECTS, ActionStep, MessageStep, SystemPromptStep, corrected_ids
from tinymem.window.outcome import Outcomes, steps_of
from tinymem.window.strategy import Pruner, PruneReport, check_report

__all__ = ["Window", "render_window", "steps_of_session"]

T = TypeVar("T")


class Window(StepCollection):
    """The steps that are shown, by id and in the order of their numbers.

    `open_calls` are the calls without a result, be they in the window or not, with the numbers of their steps.
    Only `append` and `show` change anything; the owner sees to it that one thread at a time does.
    """

    def __init__(self) -> None:
        self.shown: dict[str, Step] = {}
        self.next_number = 0
        self.open_calls: dict[str, int] = {}
        self._outcomes = Outcomes()
        self._is_asking = False

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""
        return Steps(self.shown.values())

    def __len__(self) -> int:
        return len(self.shown)

    # -- changes ------------------------------------------------------------------------------------------------------

    def number(self, steps: Iterable[Step], known: Iterable[str]) -> list[Step]:
        """Return new steps under the next numbers. InputError where one cannot be added, as if its id is `known`."""
        taken, new = {*known}, list[Step]()
        for number, step in enumerate(steps, self.next_number):
            check_step(step, taken)
            taken.add(step.id)
            new.append(step.evolve(step_number=number))
        return new

    def prune(
        self, strategy: Pruner, added: Sequence[Step] = (), kept: Callable[[Step], Step] = lambda step: step
    ) -> tuple[PruneReport, dict[str, Step]]:
        """Work out what `strategy` makes of the window.

        Args:
            strategy: Gets the steps, those marked that others correct, and returns those that stay.
            added: Steps that come into the window with this change.
            kept: Makes of a step that the strategy wrote what may be kept of it.

        Returns:
            The report, and by its id each step that takes the place of one in the window.

        Raises:
            InputError: The strategy returned anything but steps. What it raises comes out too.
        """
        before = (*self.shown.values(), *added)
        given = mark_corrected(before)
        chosen = self.ask(lambda steps: steps_of(strategy(steps)), given.copy())
        if are_same(given, chosen):  # as on most adds
            return PruneReport(kept=len(before)), {}
        after = self._outcomes(before, _unmarked(before, given, chosen), strategy)
        stays = {step.id: step for step in after}
        removed = tuple(step for step in before if step.id not in stays)
        shortened = tuple(step for step in before if stays.get(step.id, step) != step)
        put = {step.id: kept(stays[step.id]) for step in shortened}
        return PruneReport(removed, shortened, len(stays)), put

    def restore(self, report: PruneReport) -> dict[str, Step]:
        """Work out which steps come back where the pruning of `report` is undone, or take the place of shorter ones.

        InputError if it is the report of another memory.
        """
        check_report(report)
        put = {step.id: step for step in report.removed if step.id not in self.shown}
        shown = self.shown | put
        for step in report.shortened:
            if step.id in shown and rank(step) < rank(shown[step.id]):
                shown[step.id] = put[step.id] = step
        numbers = list(map(number_of, shown.values()))
        if len(set(numbers)) < len(numbers) or max(numbers, default=-1) >= self.next_number:
            raise InputError("the report is of another memory: its numbers are taken, or were never used here")
        return put

    def clear(self, keep_system: bool) -> PruneReport:
        """Work out how all steps leave, or all but the system prompts."""
        shown = self.shown.values()
        gone = tuple(step for step in shown if not (keep_system and isinstance(step, SystemPromptStep)))
        return PruneReport(gone, (), len(shown) - len(gone))

    def after(self, taken: Iterable[Step], put: dict[str, Step]) -> dict[str, Step]:
        """Return the steps as they are shown without those `taken`, and with those `put` where their numbers say."""
        shown = self.shown | put
        for step in taken:
            shown.pop(step.id, None)
        return {step.id: step for step in sorted(shown.values(), key=number_of)}

    def show(self, taken: Sequence[Step], put: dict[str, Step]) -> None:
        """Show the steps as they are after a change; see `after`."""
        if taken or put:
            self.shown = self.after(taken, put)

    def calls_after(self, added: Iterable[Step]) -> dict[str, int]:
        """Return the open calls as they are behind steps that are added."""
        waiting = self.open_calls.copy()
        for step in added:
            if isinstance(step, ActionStep):
                waiting.update(dict.fromkeys(sorted(open_calls([step])), number_of(step)))
            elif is_result(step):
                waiting.pop(step.tool_call_id or "", None)
        return waiting

    def append(self, added: Sequence[Step], next_number: int, calls: dict[str, int]) -> None:
        """Show steps behind the others, and go on with this number, and with these open calls."""
        self.shown.update((step.id, step) for step in added)
        self.next_number = max(self.next_number, next_number)
        self.open_calls = calls

    # -- what users bring ---------------------------------------------------------------------------------------------

    def ask(self, function: Callable[[Any], T], about: object) -> T:
        """Call a user's function, which may read the memory but not change it; see `check_idle`."""
        self._is_asking = True
        try:
            return function(about)
        finally:
            self._is_asking = False

    def check_idle(self) -> None:
        """Raise InputError where a user's function that was asked would change the window."""
        if self._is_asking:
            raise InputError("a strategy or on_prune must not change the memory that called it")

    def step_of_message(
        self,
        role: str,
        content: Content | None,
        *,
        tool_call_id: str | None = None,
        timestamp: Time | None = None,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Step:
        """Return the step of a chat message; the first system message of a session is a SystemPromptStep."""
        more["metadata"] = metadata or {}
        if timestamp is not None:
            more["timestamp"] = to_utc("timestamp", timestamp)
        prompts = steps_of_session(self.get_steps_by_type(SystemPromptStep), more.get("session"))
        if role == "system" and content is not None and newest_of(prompts, SystemPromptStep) is None:
            return SystemPromptStep(content, **more)
        return MessageStep(role, content, tool_call_id, **more)

    def steps_of_messages(self, chat: Sequence[Message], session: str | None, timestamp: Time | None) -> list[Step]:
        """Return the steps of chat messages, whose results may answer calls that are open here."""
        pending = pending_calls(self.shown.values(), self.open_calls)
        return steps_from_messages(chat, session=session, timestamp=timestamp, pending=pending)


def number_of(step: Step) -> int:
    """Return the number of a step in a memory, which has one."""
    return step.step_number or 0


def check_step(step: Step, known: Container[str]) -> None:
    """Raise InputError for anything but a step, or for one that is `known` already."""
    if not isinstance(step, Step):
        advice = ": add_message(role, text) adds a message, and TaskStep(text) is a step" * isinstance(step, str)
        raise InputError(f"only steps can be added, not {describe_type(step)}{advice}")
    if type(step) is not STEP_TYPES.get(step.type):
        raise InputError(
            f"{type(step).__name__} is no type of step that can be read again: add one of "
            f"{', '.join(kind.__name__ for kind in STEP_TYPES.values())}, with what is your own in its metadata"
        )
    if step.id in known:
        raise InputError(
            f"step {step.id} is held already: a step is added once, "
            "step.evolve(id=tinymem.steps.new_id()) makes another"
        )


def mark_corrected(steps: Sequence[Step]) -> list[Step]:
    r"""Return steps, with the number of the newest one that corrects it behind the first text of each.

    >>> old = MessageStep("user", "It is 80.", step_number=1)
    >>> new = MessageStep("user", "It is 81.", step_number=2, metadata={"corrects": [old.id]})
    >>> [step.text for step in mark_corrected([old, new])]
    ['It is 80.\n(corrected by #2)', 'It is 81.']
    """
    newer: dict[str, int] = {}
    for step in steps:
        if CORRECTS in step.metadata:
            newer.update(dict.fromkeys(corrected_ids(step), number_of(step)))
    if not newer:
        return [*steps]
    marked: list[Step] = []
    for step in steps:
        number = newer.get(step.id, 0)
        marked.append(step.with_note(f"(corrected by #{number})") if number > number_of(step) else step)
    return marked


def _unmarked(steps: Sequence[Step], marked: Sequence[Step], chosen: Sequence[Step]) -> list[Step]:
    """Return chosen steps, those among the `marked` ones as they were."""
    originals = {id(mark): step for mark, step in zip(marked, steps, strict=True)}
    return [originals.get(id(step), step) for step in chosen]


def render_window(steps: Sequence[Step], summary_mode: bool, style: Style) -> list[Message]:
    """Render steps as chat messages; a tool message whose call is not among them is text, and left out as `"tools"`."""
    if style == "tools":
        steps = without_lone_results(steps)
    return messages_from_steps(steps, summary_mode, style)


def steps_of_session(steps: Sequence[StepT], session: str | None) -> list[StepT]:
    """Return the steps that the prompt of a session may show: its own and those without one, with results of its calls.

    >>> [step.text for step in steps_of_session([TaskStep("a", session="s"), TaskStep("b", session="t")], "t")]
    ['b']
    """
    in_session = [step for step in steps if step.session in (session, None)]
    if len(in_session) == len(steps):
        return in_session
    called = call_ids(in_session)
    ids = {step.id for step in in_session}
    return [step for step in steps if step.id in ids or (is_result(step) and step.tool_call_id in called)]

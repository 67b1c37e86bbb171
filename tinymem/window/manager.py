"""MemoryManager: the short-term memory, a window of typed steps that a strategy keeps short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, TypeAlias, TypeVar

from tinymem.errors import InputError
from tinymem.messages.answers import pending_calls
from tinymem.messages.conversion import messages_from_steps, steps_from_messages
from tinymem.messages.formats import chat_messages
from tinymem.messages.recognition import Arrival, Linked, LinksOf, Node, arrivals
from tinymem.messages.tokens import Prices, count_tokens, default_counter
from tinymem.steps.checks import Time, a_callable, an_aware_time, one_of, some, whole_number
from tinymem.steps.collection import StepCollection, Steps
from tinymem.steps.content import Content, checked
from tinymem.steps.standins import rank
from tinymem.steps.step import Message, Step, Style, are_same
from tinymem.steps.types import ActionStep, MessageStep, SystemPromptStep
from tinymem.window.change import Change, check_new, check_step, is_result, note_calls
from tinymem.window.outcome import Outcomes, steps_of
from tinymem.window.strategies import keep_last_n_steps
from tinymem.window.strategy import PruneReport, Prunes, a_strategy, check_report

__all__ = ["MemoryManager", "OnConflict", "PruneReport"]

OnConflict: TypeAlias = Literal["add", "skip"]
ManagerT = TypeVar("ManagerT", bound="MemoryManager")
KEEP_50 = keep_last_n_steps(50)


class MemoryManager(StepCollection):
    """The window of an agent's recent steps. Safe to use from several threads.

    A subclass may override four hooks, which are called with the lock held: `_changing` surrounds every change, `_full`
    decides when `add` prunes, `as_kept` makes of a step what is kept of it, and `_apply` carries out every change.

    Args:
        system_prompt: The content of the first step.
        prune_strategy: Decides what stays. It is asked by `prune`, and by `add` when the window is full. Like
            `on_prune`, it must not change the memory while it runs.
        auto_prune_at: The most steps that are held before `add` prunes; None for no limit.
        steps: The window at first. Steps keep their numbers, which must grow; those without get the next one.
        on_prune: Called with the report of every pruning that changes something, before it takes effect. When it
            raises, nothing is pruned.

    Raises:
        InputError: An argument makes no sense.

    >>> memory = MemoryManager("You are a careful engineer.", keep_last_n_steps(2))
    >>> [memory.add_message("user", text).step_number for text in ("a", "b", "c")]
    [1, 2, 3]
    >>> memory.prune().removed[0].text, len(memory)
    ('a', 3)
    """

    def __init__(
        self,
        system_prompt: Content | None = None,
        prune_strategy: Prunes = KEEP_50,
        auto_prune_at: int | None = 1000,
        *,
        steps: Iterable[Step] = (),
        on_prune: Callable[[PruneReport], None] | None = None,
    ) -> None:
        a_strategy("prune_strategy", prune_strategy)
        if auto_prune_at is not None:
            whole_number("auto_prune_at", auto_prune_at)
        self._strategy, self._auto_prune_at = prune_strategy, auto_prune_at
        self._on_prune = a_callable("on_prune", on_prune)
        self._window_of = Outcomes()
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._busy = False
        self._window: dict[str, Step] = {}  # by id, in the order of their numbers
        self._next = 0
        self._links = LinksOf()
        self._arriving: Mapping[str, Sequence[Linked]] = {}  # messages of the steps that are being added, by id
        self._heads: dict[str | None, str] = {}  # the newest step of each session, be it in the window or not
        self._open: dict[str, int] = {}  # calls without a result, be they in the window or not: numbers of their steps
        if system_prompt is not None:
            self.add(SystemPromptStep(checked(system_prompt, "system_prompt") or ""))
        self._begin_with(steps)

    def _begin_with(self, steps: Iterable[Step]) -> None:
        """Hold steps under their numbers, and those without a number under the next ones."""
        for step in some("steps", steps):
            check_step(step, self._window)
            number = self._next if step.step_number is None else step.step_number
            if number < self._next:
                raise InputError(f"step {step.id} has number {number}, which is not above the one before it")
            self._hold(step if step.step_number == number else step.evolve(step_number=number))

    @classmethod
    def from_list(cls: type[ManagerT], records: Iterable[Mapping[str, Any]], **options: Any) -> ManagerT:
        """Make a memory from the records of `to_list`; `options` are those of the class."""
        return cls(steps=[Step.from_dict(record) for record in some("records", records)], **options)

    def add(self, step: Step) -> Step:
        """Append a step. Its number is above those of all steps before.

        Returns:
            The copy that is held, with its number.

        Raises:
            InputError: It is no step, or is held already.
            MessageError: It is a tool's result that answers no open call.

        What the strategy raises comes out too. In all these cases nothing has changed. When `on_prune` raises, the
        step was added and nothing pruned.
        """
        return self.add_steps([step])[0]

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Append several steps: all of them, or none when one is refused. Errors as in `add`."""
        with self._changing():
            return self._added(steps)

    def _added(self, steps: Sequence[Step]) -> list[Step]:
        steps = [self.as_kept(step) for step in some("steps", steps)]
        check_new(steps, self._window, self._open)
        numbered = [step.evolve(step_number=self._next + at) for at, step in enumerate(steps)]
        change = Change(numbered)
        if self._full(numbered):
            change = self._pruned((*self._window.values(), *numbered), self._strategy, numbered)
        return self._apply(change)

    def _full(self, new: Sequence[Step]) -> bool:
        """Return whether adding the steps `new` must prune the window."""
        return self._auto_prune_at is not None and len(self) + len(new) > self._auto_prune_at

    def as_kept(self, step: Step) -> Step:
        """Return the step to keep for one that is added, or that a strategy made."""
        return step

    def _apply(self, change: Change) -> list[Step]:
        """Carry out a change, and return the steps that were added as they are held now."""
        if change.added:
            self._show(Change(change.added))
            for step in change.added:
                self._links.put(self._arriving.get(step.id, ()), step.step_number or 0)
        if change.report is not None and change.report.changed:
            self._tell(self._on_prune, change.report)
        self._show(change)
        return list(change.added)

    def _show(self, change: Change) -> None:
        """Apply a change to the window."""
        for step in change.added:
            if step.id not in self._window:
                self._hold(step)
        if change.taken or change.put or change.back:
            self._window = self._after(change)
        for call in change.lapsed:
            self._open.pop(call, None)

    def _after(self, change: Change) -> dict[str, Step]:
        """Return the window as it is after a change."""
        if not (change.added or change.taken or change.put) and self._begin_behind(change.back):
            return {**self._window, **change.back}
        shown = {**self._window, **{step.id: step for step in change.added}}
        shown = {id: change.put.get(id, step) for id, step in shown.items() if id not in change.taken}
        if change.back:
            back = sorted({**shown, **change.back}.values(), key=lambda step: step.step_number or 0)
            return {step.id: step for step in back}
        return shown

    def _begin_behind(self, back: Mapping[str, Step]) -> bool:
        """Return whether steps are new and behind all others, in order, as those of another process that adds are."""
        if not self._window.keys().isdisjoint(back):
            return False
        last = next(reversed(self._window.values()), None)
        numbers = [step.step_number or 0 for step in ([last] if last else []) + [*back.values()]]
        return numbers == sorted(set(numbers))

    def _hold(self, step: Step) -> None:
        self._window[step.id], self._next = step, (step.step_number or 0) + 1
        if not isinstance(step, SystemPromptStep):
            self._heads[step.session] = step.id
        note_calls(step, self._open)

    def add_message(
        self,
        role: str,
        content: Content | None,
        *,
        tool_call_id: str | None = None,
        speaker: str | None = None,
        session: str | None = None,
        timestamp: Time | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> Step:
        """Append one chat message, and get its step: a MessageStep; the first system message is a SystemPromptStep.

        >>> MemoryManager().add_message("user", "Which port is it?", speaker="Ann").speaker
        'Ann'

        Raises StepError for an unknown role, and MessageError for a tool result that answers no open call.
        """
        more: dict[str, Any] = {"speaker": speaker, "session": session, "pinned": pinned, "metadata": metadata or {}}
        if timestamp is not None:
            more["timestamp"] = an_aware_time("timestamp", timestamp)

        def made() -> list[Step]:
            if role == "system" and content is not None and self.system_prompt is None:
                return [SystemPromptStep(content, **more)]
            return [MessageStep(role, content, tool_call_id, **more)]

        return self._add_chained(made)[0]

    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: Time | None = None,
        on_conflict: OnConflict = "add",
        format: str | None = None,
    ) -> list[Step]:
        """Append chat messages, and get their steps: all of them, or none when one is malformed.

        They are OpenAI's, Anthropic's, or items of the Responses API, known by their shape unless `format` names it.
        Results may come in a later piece than their calls. With `on_conflict="skip"`, the messages are the session's
        whole history, and only what is new in it is added (see `tinymem.messages.recognition`).

        >>> memory, history = MemoryManager(), [{"role": "user", "content": "Find the slow query."}]
        >>> [len(memory.add_messages(history, on_conflict="skip")) for _ in range(2)]
        [1, 0]

        Raises MessageError, with the index of the message, and InputError for another `on_conflict`.
        """
        one_of("on_conflict", on_conflict, "add", "skip")
        chat = chat_messages(messages, format)

        def made() -> list[Step]:
            pending = pending_calls(self._window.values(), self._open)
            return steps_from_messages(chat, session=session, timestamp=timestamp, pending=pending)

        return self._add_chained(made, on_conflict == "skip")

    def _add_chained(self, made: Callable[[], Sequence[Step]], skip: bool = False) -> list[Step]:
        """Append steps of one session's messages, under ids that identify them when they are given again."""
        steps: Sequence[Step] | None = None
        while True:
            with self._changing():
                steps = made() if steps is None else steps
                new = arrivals(steps, skip, self.as_kept, self, self.head_of)
                try:
                    return self._arrived(new)
                except InputError:  # another process may have added one of them since
                    if not self.linked([one.step.id for one in new]):
                        raise

    def _arrived(self, new: Sequence[Arrival]) -> list[Step]:
        """Append steps together with their links."""
        self._arriving = {one.step.id: one.links for one in new}
        try:
            return self._added([one.step for one in new])
        finally:
            self._arriving = {}

    def linked(self, links: Sequence[str]) -> dict[str, Node]:
        """Return the messages with these links (see `tinymem.messages.recognition`)."""
        numbers = {each: self._window[each].step_number for each in links if each in self._window}
        return {**{each: Node(each, n, n) for each, n in numbers.items()}, **self._links.linked(links)}

    def alike(self, hashes: Sequence[str], limit: int) -> dict[str, list[Node]]:
        """Return up to `limit` messages, the newest, that say the same."""
        return self._links.alike(hashes, limit)

    def head_of(self, session: str | None) -> str | None:
        """Return the id of the session's newest step other than a system prompt."""
        return self._heads.get(session)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            if self._busy:
                raise InputError("a strategy or on_prune must not change the memory that called it")
            yield

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages; see `Step.to_messages` for the styles and for summary mode.

        A tool message whose call has left the window is sent as text, and in style `"tools"` left out.
        """
        steps = self.steps
        if style == "tools":
            called = {call.id for step in steps if isinstance(step, ActionStep) for call in step.tool_calls}
            steps = tuple(step for step in steps if not is_result(step) or step.tool_call_id in called)
        return messages_from_steps(steps, summary_mode, style)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the window as JSON-ready dicts; `from_list` reads them."""
        return [step.to_dict() for step in self.steps]

    def prune(self, strategy: Prunes | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays; what left is in the report.

        What it returned is made into a window: system prompt, current task and pinned steps stay, calls keep their
        results, and a new step takes the place of what was taken out before it. Raises InputError when it returned
        anything but steps, and whatever it or `on_prune` raises; the window is then as it was.
        """
        with self._changing():
            chosen = self._strategy if strategy is None else a_strategy("strategy", strategy)
            change = self._pruned(tuple(self._window.values()), chosen)
            self._apply(change)
            return change.report or PruneReport()

    def _pruned(self, before: Sequence[Step], strategy: Prunes, added: Sequence[Step] = ()) -> Change:
        """Return the change from `before` to what `strategy` makes of it."""
        returned = self._tell(lambda steps: steps_of(strategy(steps)), list(before))
        window = self._window_of(before, returned, strategy)
        if are_same(before, window):  # as on most adds
            return Change(added, report=PruneReport(kept=len(window)))
        kept = {step.id: step for step in window}
        removed = [step for step in before if step.id not in kept]
        shortened = [s for s in before if s.id in kept and s is not kept[s.id] and s != kept[s.id]]
        put = {step.id: self.as_kept(kept[step.id]) for step in shortened}
        report = PruneReport(tuple(removed), tuple(shortened), len(kept))
        return Change(added, {step.id for step in removed}, put, report=report)

    def _tell(self, other: Callable[[Any], Any] | None, what: object) -> Any:
        """Call the user's function, which may read this memory but not change it."""
        try:
            self._busy = True
            return None if other is None else other(what)
        finally:
            self._busy = False

    def restore(self, report: PruneReport) -> None:
        """Undo the pruning of `report`: its steps come back to their places, and shortened steps are whole again.

        A step replaces the summary or other stand-in that took its place. A second call changes nothing.

        Raises:
            InputError: The report is of another memory.
        """
        check_report(report)
        with self._changing():
            back = {step.id: step for step in report.removed if step.id not in self._window}
            put: dict[str, Step] = {}
            for step in report.shortened:
                shown = back if step.id in back else self._window
                if step.id in shown and rank(step) < rank(shown[step.id]):
                    (back if step.id in back else put)[step.id] = step
            change = Change(put=put, back=back)
            numbers = [step.step_number or 0 for step in self._after(change).values()]
            if len(set(numbers)) < len(numbers) or max(numbers, default=-1) >= self._next:
                raise InputError("the report is of another memory: its numbers are taken, or were never used here")
            self._apply(change)

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Remove all steps, or all but the system prompts; the numbers of new steps go on from the last one.

        `on_prune` is not called. The report can be restored.
        """
        with self._changing():
            stays = SystemPromptStep if keep_system else ()
            gone = [step for step in self._window.values() if not isinstance(step, stays)]
            self._apply(Change(taken={step.id for step in gone}, lapsed=tuple(self._open)))
            return PruneReport(tuple(gone), (), len(self._window))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""
        with self._lock:
            return Steps(self._window.values())

    def step_tokens(self) -> dict[str, int]:
        """Count the tokens of each step by itself, by id, as `to_messages` sends it, with the default counter."""
        return Prices(default_counter(), "auto")(self.steps)

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, as `count_tokens` counts them."""
        return count_tokens(self.to_messages())

    @property
    def next_number(self) -> int:
        """The number of the next step."""
        with self._lock:
            return self._next

    @property
    def open_calls(self) -> frozenset[str]:
        """The ids of the calls without a result yet, in the window or not."""
        with self._lock:
            return frozenset(self._open)

    def __len__(self) -> int:
        return len(self._window)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} steps, {self.action_count} actions>"

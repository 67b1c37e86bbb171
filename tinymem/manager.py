"""MemoryManager: the short-term memory, a window of typed steps that a strategy keeps short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, TypeGuard, TypeVar, overload

from tinymem.base import Message, Step, StepT, Style
from tinymem.checks import whole_number
from tinymem.content import Content
from tinymem.errors import InputError, MessageError
from tinymem.messages import messages_from_steps, open_calls, steps_from_messages
from tinymem.pruning import keep_last_n_steps
from tinymem.quiet import kind_of
from tinymem.serialization import STEP_TYPES
from tinymem.steps import ActionStep, MessageStep, SummaryStep, SystemPromptStep
from tinymem.strategy import Prices, PruneReport, PruneStrategy, check_window
from tinymem.tokens import default_counter

__all__ = ["MemoryManager", "PruneReport"]

ManagerT = TypeVar("ManagerT", bound="MemoryManager")
KEEP_50 = keep_last_n_steps(50)


class MemoryManager:
    """The window of an agent's recent steps. Safe to use from several threads.

    `prune_strategy` decides what stays; it is asked by `prune`, and by `add` whenever more than `auto_prune_at` steps
    are held (None: never). `on_add` gets numbered steps before they are in the window, `on_prune` the report of every
    pruning that changes something before it takes effect: when one raises, the steps are not added, or not pruned.
    None of the three may change the memory while it runs.

    >>> memory = MemoryManager("You are a careful engineer.", keep_last_n_steps(2))
    >>> [memory.add_message("user", text).number for text in ("a", "b", "c")]
    [1, 2, 3]
    >>> memory.prune().removed[0].text, len(memory)
    ('a', 3)
    """

    def __init__(
        self,
        system_prompt: Content | None = None,
        prune_strategy: PruneStrategy = KEEP_50,
        auto_prune_at: int | None = 1000,
        *,
        on_add: Callable[[Sequence[Step]], None] | None = None,
        on_prune: Callable[[PruneReport], None] | None = None,
    ) -> None:
        if not callable(prune_strategy):
            raise InputError(f"prune_strategy must be a callable, not {prune_strategy!r}")
        if auto_prune_at is not None:
            whole_number("auto_prune_at", auto_prune_at)
        self._strategy, self._auto_prune_at = prune_strategy, auto_prune_at
        self._on_add, self._on_prune = on_add, on_prune
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._busy = False
        self._window: dict[str, Step] = {}  # by id, in the order of their numbers
        self._next = 0
        self._open: set[str] = set()  # calls without a result yet; a call may have left the window before it comes
        if system_prompt is not None:
            self.add(SystemPromptStep(system_prompt))

    @classmethod
    def from_steps(cls: type[ManagerT], steps: Iterable[Step], *, next_number: int = 0, **options: Any) -> ManagerT:
        """A memory that starts with `steps` and goes on counting from `next_number`, or behind the last of them.

        Steps keep their numbers, those without get the next one; nothing is pruned yet. `options` are those of the
        class. Raises InputError when numbers do not grow.
        """
        memory = cls(**options)
        for step in steps:
            _check(step, memory._window)
            number = memory._next if step.number is None else step.number
            if number < memory._next:
                raise InputError(f"step {step.id} has number {number}, which is not above the one before it")
            memory._hold(step if step.number == number else step.evolve(number=number))
        memory._next = max(memory._next, whole_number("next_number", next_number))
        return memory

    @classmethod
    def from_list(cls: type[ManagerT], records: Iterable[Mapping[str, Any]], **options: Any) -> ManagerT:
        """The memory whose `to_list` gave these records; `options` as in `from_steps`."""
        return cls.from_steps([Step.from_dict(record) for record in records], **options)

    def add(self, step: Step) -> Step:
        """Append `step`; the copy that is held, with its number, comes back. Numbers only grow.

        Raises InputError for what is no step or is held already, MessageError for a tool result that answers no open
        call, and whatever the strategy or `on_add` raises; nothing has changed then. When `on_prune` raises, the step
        was added and nothing pruned.
        """
        return self.add_steps([step])[0]

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Append several steps: all of them, or none when one is refused. Errors as in `add`."""
        with self._changing():
            self._check_all(steps)
            numbered = [step.evolve(number=self._next + at) for at, step in enumerate(steps)]
            pruned = None
            if self._is_full(numbered):
                pruned = self._chosen((*self._window.values(), *numbered), self._strategy)
            held = self._recorded(numbered)
            for step in held:
                self._hold(step)
            if pruned is not None:
                self._take(*(pruned if held == numbered else _renumbered(*pruned, held)))
            return held

    def _recorded(self, steps: list[Step]) -> list[Step]:
        """New steps as they are held; a subclass may number them anew, and change the window before they come."""
        self._tell(self._on_add, steps)
        return steps

    def _is_full(self, new: Sequence[Step]) -> bool:
        """Whether the window is to be pruned when the steps `new` come to it."""
        return self._auto_prune_at is not None and len(self) + len(new) > self._auto_prune_at

    def _check_all(self, steps: Sequence[Step]) -> None:
        waiting = set(self._open)
        new: set[str] = set()
        for step in steps:
            _check(step, new)
            _check(step, self._window)
            if _is_result(step) and step.tool_call_id not in waiting:
                known = f"open calls: {', '.join(sorted(waiting))}" if waiting else "no call is open"
                raise MessageError(
                    f"the tool result for call {step.tool_call_id!r} answers no call before it ({known})"
                )
            _note(step, waiting)
            new.add(step.id)

    def _hold(self, step: Step) -> None:
        self._window[step.id], self._next = step, (step.number or 0) + 1
        _note(step, self._open)

    def add_message(
        self,
        role: str,
        content: Content | None,
        *,
        tool_call_id: str | None = None,
        speaker: str | None = None,
        session: str | None = None,
        timestamp: datetime | None = None,
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
            more["timestamp"] = timestamp
        with self._changing():
            if role == "system" and content is not None and self.system_prompt is None:
                return self.add(SystemPromptStep(content, **more))
            return self.add(MessageStep(role, content, tool_call_id, **more))

    def add_messages(
        self, messages: Iterable[Mapping[str, Any]], *, session: str | None = None, timestamp: datetime | None = None
    ) -> list[Step]:
        """Append OpenAI chat messages, and get their steps: all of them, or none when one is malformed.

        Results may come in a later piece than their calls. Raises MessageError, with the index of the message.
        """
        with self._changing():
            return self.add_steps(
                steps_from_messages(messages, session=session, timestamp=timestamp, pending=self._open)
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            if self._busy:
                raise InputError("a strategy, on_add or on_prune must not change the memory that called it")
            yield

    def to_messages(self, summary_mode: bool = False, style: Style = "observation") -> list[Message]:
        """The window as chat messages; see `Step.to_messages` for the styles and for summary mode.

        In style `"tools"` a result whose call has left the window is left out: the chat APIs refuse it.
        """
        steps = self.steps
        if style == "tools":
            called = {call.id for step in steps if isinstance(step, ActionStep) for call in step.tool_calls}
            steps = tuple(step for step in steps if not _is_result(step) or step.tool_call_id in called)
        return messages_from_steps(steps, summary_mode, style)

    def to_list(self) -> list[dict[str, Any]]:
        """The window as JSON-ready dicts; `from_list` reads them."""
        return [step.to_dict() for step in self.steps]

    def prune(self, strategy: PruneStrategy | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays; what left is in the report.

        Raises InputError when what it returned is no window, and whatever it or `on_prune` raises; the window is
        then as it was.
        """
        with self._changing():
            kept, report = self._chosen(tuple(self._window.values()), strategy or self._strategy)
            self._take(kept, report)
            return report

    def _chosen(self, before: Sequence[Step], strategy: PruneStrategy) -> tuple[dict[str, Step], PruneReport]:
        """The window that `strategy` makes of `before`, and what leaves with it."""
        after = self._tell(strategy, list(before))
        check_window(before, after)
        kept = {step.id: step for step in after}
        shortened = (s for s in before if s.id in kept and s is not kept[s.id] and s != kept[s.id])
        return kept, PruneReport(tuple(s for s in before if s.id not in kept), tuple(shortened), len(kept))

    def _take(self, kept: dict[str, Step], report: PruneReport) -> None:
        if report.changed:
            self._tell(self._on_prune, report)
            gone, changed = ({step.id for step in steps} for steps in (report.removed, report.shortened))
            self._window = {
                id: kept[id] if id in changed else step for id, step in self._window.items() if id not in gone
            }

    def _tell(self, other: Callable[[Any], Any] | None, what: object) -> Any:
        """Call what the user brought; it may read this memory, but not change it."""
        self._busy = True
        try:
            return None if other is None else other(what)
        finally:
            self._busy = False

    def restore(self, report: PruneReport) -> None:
        """Put back what `report` took out, each step at its place; shortened steps are whole again, and what stands
        where a summary took its place is the step itself.

        Doing so twice changes nothing more. Raises InputError for a report of another memory.
        """
        with self._changing():
            held = dict(self._window)
            for step in report.removed:
                held.setdefault(step.id, step)
            for step in report.shortened:
                if step.id in held and _is_wholer(step, held[step.id]):
                    held[step.id] = step
            places = {step.number or 0: step for step in held.values()}
            if len(places) < len(held) or max(places, default=-1) >= self._next:
                raise InputError("the report is of another memory: its numbers are taken, or were never given here")
            self._window = {places[number].id: places[number] for number in sorted(places)}

    def drop(self, numbers: Iterable[int]) -> None:
        """Take steps out for good, without a report."""
        gone = set(numbers)
        with self._changing():
            self._window = {id: step for id, step in self._window.items() if step.number not in gone}

    def clear(self, keep_system: bool = True) -> PruneReport:
        """Take out everything but the system prompts (or those too); numbers go on from where they were.

        `on_prune` is not asked; the report can be restored.
        """
        with self._changing():
            stays = SystemPromptStep if keep_system else ()
            kept: dict[str, Step] = {s.id: s for s in self._window.values() if isinstance(s, stays)}
            gone = tuple(step for step in self._window.values() if step.id not in kept)
            self._window, self._open = kept, set()
            return PruneReport(gone, (), len(kept))

    @overload
    def get_steps_by_type(self, kind: type[StepT]) -> list[StepT]: ...
    @overload
    def get_steps_by_type(self, kind: str) -> list[Step]: ...
    def get_steps_by_type(self, kind: type[Step] | str) -> list[Any]:
        """The steps of one type, given as its class or its name (`ActionStep` or `"action"`), in order."""
        cls = STEP_TYPES.get(kind) if isinstance(kind, str) else kind
        if not (isinstance(cls, type) and issubclass(cls, Step)):
            raise InputError(f"kind must be a step class or one of {', '.join(STEP_TYPES)}, not {kind!r}")
        return [step for step in self.steps if isinstance(step, cls)]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""
        with self._lock:
            return tuple(self._window.values())

    def step_tokens(self) -> dict[str, int]:
        """The tokens of each step by itself, by id, as sent in style `"tools"`, counted by the default counter."""
        return Prices(default_counter(), "tools")(self.steps)

    @property
    def system_prompt(self) -> Content | None:
        """The newest system prompt in the window, or None."""
        return next((s.system_prompt for s in reversed(self.steps) if isinstance(s, SystemPromptStep)), None)

    @property
    def action_count(self) -> int:
        """How many ActionSteps are in the window (not: were ever added)."""
        return len(self.get_steps_by_type(ActionStep))

    @property
    def next_number(self) -> int:
        """The number that the next step gets."""
        with self._lock:
            return self._next

    @property
    def open_calls(self) -> frozenset[str]:
        """Ids of the calls whose results have not come yet, be the call in the window or not."""
        with self._lock:
            return frozenset(self._open)

    def __len__(self) -> int:
        return len(self._window)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} steps, {self.action_count} actions>"


def _check(step: Step, held: Container[str]) -> None:
    if not isinstance(step, Step):
        raise InputError(f"only steps can be added, not {kind_of(step)}")
    if step.id in held:
        raise InputError(f"step {step.id} is held already: a step is added once, evolve(id=new_id()) makes another")


def _renumbered(
    kept: dict[str, Step], report: PruneReport, held: Sequence[Step]
) -> tuple[dict[str, Step], PruneReport]:
    """What a strategy chose, with new steps under the numbers that they are `held` under."""
    numbers = {step.id: step.number for step in held}

    def anew(step: Step) -> Step:
        number = numbers.get(step.id, step.number)
        return step if number == step.number else step.evolve(number=number)

    removed, shortened = (tuple(map(anew, steps)) for steps in (report.removed, report.shortened))
    return {id: anew(step) for id, step in kept.items()}, PruneReport(removed, shortened, report.kept)


def _is_result(step: Step) -> TypeGuard[MessageStep]:
    return isinstance(step, MessageStep) and step.role == "tool"


def _is_wholer(step: Step, held: Step) -> bool:
    """Whether `step` says more of what it was than `held`, which has its id: a summary says least, be it long."""
    if isinstance(held, SummaryStep):
        covers = len(step.covers) if isinstance(step, SummaryStep) else -1
        return covers < len(held.covers) or (covers == len(held.covers) and len(held.text) < len(step.text))
    return not isinstance(step, SummaryStep) and len(held.text) < len(step.text)


def _note(step: Step, waiting: set[str]) -> None:
    """Keep `waiting`, the calls without a result, up to date."""
    if isinstance(step, ActionStep):
        waiting |= open_calls([step])
    elif _is_result(step):
        waiting.discard(step.tool_call_id or "")

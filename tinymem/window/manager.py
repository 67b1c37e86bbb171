"""MemoryManager: the short-term memory, a window of typed steps that a strategy keeps short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar

from tinymem.errors import InputError, MessageError, kind_of
from tinymem.messages.answers import open_calls, pending_calls
from tinymem.messages.chains import to_add
from tinymem.messages.conversion import messages_from_steps, steps_from_messages
from tinymem.messages.prices import Prices
from tinymem.messages.tokens import count_tokens, default_counter
from tinymem.steps.checks import Time, a_callable, an_aware_time, one_of, some, whole_number
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import Content, checked
from tinymem.steps.standins import rank
from tinymem.steps.step import Message, Step, Style
from tinymem.steps.types import ActionStep, MessageStep, SystemPromptStep
from tinymem.window.outcome import Outcomes, steps_of
from tinymem.window.strategies import keep_last_n_steps
from tinymem.window.strategy import PruneReport, Prunes, a_strategy, check_report

__all__ = ["MemoryManager", "OnConflict", "PruneReport"]

OnConflict: TypeAlias = Literal["add", "skip"]
ManagerT = TypeVar("ManagerT", bound="MemoryManager")
KEEP_50 = keep_last_n_steps(50)


class MemoryManager(StepCollection):
    """The window of an agent's recent steps. Safe to use from several threads.

    `prune_strategy` decides what stays; it is asked by `prune`, and by `add` whenever more than `auto_prune_at` steps
    are held (None: never). `on_add` gets numbered steps before they are in the window, `on_prune` the report of every
    pruning that changes something before it takes effect: when one raises, the steps are not added, or not pruned.
    None of the three may change the memory while it runs.

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
        on_add: Callable[[Sequence[Step]], None] | None = None,
        on_prune: Callable[[PruneReport], None] | None = None,
    ) -> None:
        a_strategy("prune_strategy", prune_strategy)
        if auto_prune_at is not None:
            whole_number("auto_prune_at", auto_prune_at)
        self._strategy, self._auto_prune_at = prune_strategy, auto_prune_at
        self._on_add, self._on_prune = a_callable("on_add", on_add), a_callable("on_prune", on_prune)
        self._window_of = Outcomes()
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._busy = False
        self._window: dict[str, Step] = {}  # by id, in the order of their numbers
        self._next = 0
        self._heads: dict[str | None, str] = {}  # the newest step of each session, be it in the window or not
        self._open: set[str] = set()  # calls without a result yet; a call may have left the window before it comes
        if system_prompt is not None:
            self.add(SystemPromptStep(checked(system_prompt, "system_prompt") or ""))
        self._begin_with(steps)

    @classmethod
    def from_steps(cls: type[ManagerT], steps: Iterable[Step], *, next_number: int = 0, **options: Any) -> ManagerT:
        """A memory that starts with `steps` and goes on counting from `next_number`, or behind the last of them.

        Steps keep their numbers, those without get the next one; nothing is pruned yet. `options` are those of the
        class. Raises InputError when numbers do not grow.
        """
        memory = cls(**options)
        memory._begin_with(steps)
        memory._next = max(memory._next, whole_number("next_number", next_number))
        return memory

    def _begin_with(self, steps: Iterable[Step]) -> None:
        """Hold steps under the numbers that they have, and those without under the next ones."""
        for step in some("steps", steps):
            _check(step, self._window)
            number = self._next if step.step_number is None else step.step_number
            if number < self._next:
                raise InputError(f"step {step.id} has number {number}, which is not above the one before it")
            self._hold(step if step.step_number == number else step.evolve(step_number=number))

    @classmethod
    def from_list(cls: type[ManagerT], records: Iterable[Mapping[str, Any]], **options: Any) -> ManagerT:
        """The memory whose `to_list` gave these records; `options` as in `from_steps`."""
        return cls.from_steps([Step.from_dict(record) for record in some("records", records)], **options)

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
            steps = list(some("steps", steps))
            self._check_all(steps)
            numbered = [step.evolve(step_number=self._next + at) for at, step in enumerate(steps)]
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
        self._window[step.id], self._next = step, (step.step_number or 0) + 1
        if not isinstance(step, SystemPromptStep):
            self._heads[step.session] = step.id
        _note(step, self._open)

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
        with self._changing():
            if role == "system" and content is not None and self.system_prompt is None:
                return self._add_chained([SystemPromptStep(content, **more)])[0]
            return self._add_chained([MessageStep(role, content, tool_call_id, **more)])[0]

    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: Time | None = None,
        on_conflict: OnConflict = "add",
    ) -> list[Step]:
        """Append OpenAI chat messages, and get their steps: all of them, or none when one is malformed.

        Results may come in a later piece than their calls. With `on_conflict="skip"`, the messages are the session's
        whole history, and only what is new in it is added: the messages behind the last one that was added before (see
        `tinymem.messages.chains`).

        >>> memory, history = MemoryManager(), [{"role": "user", "content": "Find the slow query."}]
        >>> [len(memory.add_messages(history, on_conflict="skip")) for _ in range(2)]
        [1, 0]

        Raises MessageError, with the index of the message, and InputError for another `on_conflict`.
        """
        one_of("on_conflict", on_conflict, "add", "skip")
        with self._changing():
            pending = pending_calls(self._window.values(), self._open)
            steps = steps_from_messages(messages, session=session, timestamp=timestamp, pending=pending)
            return self._add_chained(steps, on_conflict == "skip")

    def _add_chained(self, steps: Sequence[Step], skip: bool = False) -> list[Step]:
        """Append steps of messages of one session, under ids by which they are known when they are given again."""
        while True:
            new = to_add(steps, skip, self._as_kept, self._ids_held, self._head_of)
            try:
                return self.add_steps(new)
            except InputError:  # it may be that another process has added one of them since
                if not self._ids_held([step.id for step in new]):
                    raise

    def _as_kept(self, step: Step) -> Step:
        return step

    def _ids_held(self, ids: Sequence[str]) -> Collection[str]:
        """Those of the ids that steps have which were added."""
        return self._window.keys() & set(ids)

    def _head_of(self, session: str | None) -> str | None:
        """The id of the session's newest step that is no system prompt."""
        return self._heads.get(session)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            if self._busy:
                raise InputError("a strategy, on_add or on_prune must not change the memory that called it")
            yield

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages; see `Step.to_messages` for the styles and for summary mode.

        A tool message whose call has left the window is sent as text, and in style `"tools"` left out.
        """
        steps = self.steps
        if style == "tools":
            called = {call.id for step in steps if isinstance(step, ActionStep) for call in step.tool_calls}
            steps = tuple(step for step in steps if not _is_result(step) or step.tool_call_id in called)
        return messages_from_steps(steps, summary_mode, style)

    def to_list(self) -> list[dict[str, Any]]:
        """The window as JSON-ready dicts; `from_list` reads them."""
        return [step.to_dict() for step in self.steps]

    def prune(self, strategy: Prunes | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays; what left is in the report.

        What it returned is made into a window: system prompt, current task and pinned steps stay, calls keep their
        results, and a new step takes the place of what was taken out before it. Raises InputError when it returned
        anything but steps, and whatever it or `on_prune` raises; the window is then as it was.
        """
        with self._changing():
            chosen = self._strategy if strategy is None else a_strategy("strategy", strategy)
            kept, report = self._chosen(tuple(self._window.values()), chosen)
            self._take(kept, report)
            return report

    def _chosen(self, before: Sequence[Step], strategy: Prunes) -> tuple[dict[str, Step], PruneReport]:
        """The window that `strategy` makes of `before`, and what leaves with it."""
        a_strategy("strategy", strategy)
        returned = self._tell(lambda steps: steps_of(strategy(steps)), list(before))
        kept = {step.id: step for step in self._window_of(before, returned, strategy)}
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
        where a summary or another stand-in took its place is the step itself.

        Doing so twice changes nothing more. Raises InputError for a report of another memory.
        """
        check_report(report)
        with self._changing():
            held = dict(self._window)
            for step in report.removed:
                held.setdefault(step.id, step)
            for step in report.shortened:
                if step.id in held and rank(step) < rank(held[step.id]):
                    held[step.id] = step
            places = {step.step_number or 0: step for step in held.values()}
            if len(places) < len(held) or max(places, default=-1) >= self._next:
                raise InputError("the report is of another memory: its numbers are taken, or were never given here")
            self._window = {places[number].id: places[number] for number in sorted(places)}

    def drop(self, numbers: Iterable[int]) -> None:
        """Take steps out for good, without a report."""
        gone = {whole_number("numbers", number) for number in some("numbers", numbers)}
        with self._changing():
            self._window = {id: step for id, step in self._window.items() if step.step_number not in gone}

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Take out everything, or everything but the system prompts; numbers go on from where they were.

        `on_prune` is not asked; the report can be restored.
        """
        with self._changing():
            stays = SystemPromptStep if keep_system else ()
            kept: dict[str, Step] = {s.id: s for s in self._window.values() if isinstance(s, stays)}
            gone = tuple(step for step in self._window.values() if step.id not in kept)
            self._window, self._open = kept, set()
            return PruneReport(gone, (), len(kept))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""
        with self._lock:
            return tuple(self._window.values())

    def step_tokens(self) -> dict[str, int]:
        """Count the tokens of each step by itself, by id, as `to_messages` sends it, with the default counter."""
        return Prices(default_counter(), "auto")(self.steps)

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, as `count_tokens` counts them."""
        return count_tokens(self.to_messages())

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

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} steps, {self.action_count} actions>"


def _check(step: Step, held: Container[str]) -> None:
    if not isinstance(step, Step):
        raise InputError(f"only steps can be added, not {kind_of(step)}")
    if step.id in held:
        raise InputError(
            f"step {step.id} is held already: a step is added once, "
            "step.evolve(id=tinymem.steps.new_id()) makes another"
        )


def _renumbered(
    kept: dict[str, Step], report: PruneReport, held: Sequence[Step]
) -> tuple[dict[str, Step], PruneReport]:
    """What a strategy chose, with new steps under the numbers that they are `held` under."""
    numbers = {step.id: step.step_number for step in held}

    def anew(step: Step) -> Step:
        number = numbers.get(step.id, step.step_number)
        return step if number == step.step_number else step.evolve(step_number=number)

    removed, shortened = (tuple(map(anew, steps)) for steps in (report.removed, report.shortened))
    return {id: anew(step) for id, step in kept.items()}, PruneReport(removed, shortened, report.kept)


def _is_result(step: Step) -> TypeGuard[MessageStep]:
    return isinstance(step, MessageStep) and step.role == "tool"


def _note(step: Step, waiting: set[str]) -> None:
    """Keep `waiting`, the calls without a result, up to date."""
    if isinstance(step, ActionStep):
        waiting |= open_calls([step])
    elif _is_result(step):
        waiting.discard(step.tool_call_id or "")

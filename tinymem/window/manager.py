"""MemoryManager: the short-term memory, a window of typed steps that a strategy keeps short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, TypeVar, cast

from tinymem.errors import InputError
from tinymem.messages.formats import chat_messages
from tinymem.messages.recognition import Messages, MessageTable
from tinymem.messages.tokens import Prices, count_tokens, default_counter
from tinymem.steps.checks import Time, check_callable, check_choice, check_iterable, check_non_negative_int
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import Content, check_content
from tinymem.steps.step import Message, Step, StepT, Style
from tinymem.steps.types import SystemPromptStep
from tinymem.window.strategies import keep_last_n_steps
from tinymem.window.strategy import Pruner, PruneReport, check_strategy
from tinymem.window.window import Window, check_step, number_of, render_window

__all__ = ["MemoryManager", "OnConflict", "PruneReport"]

OnConflict: TypeAlias = Literal["add", "skip"]
ManagerT = TypeVar("ManagerT", bound="MemoryManager")
KEEP_50 = keep_last_n_steps(50)


class MemoryManager(StepCollection):
    """The window of an agent's recent steps. Safe to use from several threads.

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
        prune_strategy: Pruner = KEEP_50,
        auto_prune_at: int | None = 1000,
        *,
        steps: Iterable[Step] = (),
        on_prune: Callable[[PruneReport], None] | None = None,
    ) -> None:
        check_strategy("prune_strategy", prune_strategy)
        if auto_prune_at is not None:
            check_non_negative_int("auto_prune_at", auto_prune_at)
        self._strategy, self._auto_prune_at = prune_strategy, auto_prune_at
        self._on_prune = check_callable("on_prune", on_prune)
        self._lock = threading.RLock()
        self._window, self._known = Window(), MessageTable()
        if isinstance(system_prompt, (list, tuple)) and any(isinstance(part, Step) for part in system_prompt):
            raise InputError("the first argument is the system prompt: MemoryManager(steps=[...]) takes steps")
        if system_prompt is not None:
            self.add(SystemPromptStep(check_content(system_prompt, "system_prompt") or ""))
        self._begin_with(steps)

    def _begin_with(self, steps: Iterable[Step]) -> None:
        """Hold steps under their numbers, and those without a number under the next ones."""
        for step in check_iterable("steps", steps):
            check_step(step, self._window.shown)
            following = self._window.next_number
            number = following if step.step_number is None else step.step_number
            if number < following:
                raise InputError(f"step {step.id} has number {number}, which is not above the one before it")
            self._apply(PruneReport(), {}, [step if step.step_number == number else step.evolve(step_number=number)])

    @classmethod
    def from_list(cls: type[ManagerT], records: Iterable[Mapping[str, Any]], **options: Any) -> ManagerT:
        """Make a memory from the records of `to_list`; `options` are those of the class."""
        return cls(steps=[Step.from_dict(record) for record in check_iterable("records", records)], **options)

    def add(self, step: StepT) -> StepT:
        """Append a step. Its number is above those of all steps before.

        Returns:
            The copy that is held, with its number.

        Raises:
            InputError: It is no step, or is held already.
            MessageError: It is a tool's result that answers no open call.

        What the strategy raises comes out too. In all these cases nothing has changed. When `on_prune` raises, the
        step was added and nothing pruned.
        """
        return cast(StepT, self.add_steps([step])[0])

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Append several steps: all of them, or none when one is refused. Errors as in `add`."""
        with self._changing():
            return self._add(steps)

    def _add(self, steps: Iterable[Step]) -> list[Step]:
        """Append steps, and prune if the window is full then."""
        new = self._window.number(check_iterable("steps", steps), self._window.shown)
        report, put = self._window.prune(self._strategy, new) if self._is_full(new) else (PruneReport(), {})
        self._apply(report, put, new)
        return new

    def _add_messages(self, steps: Sequence[Step], is_history: bool) -> list[Step]:
        """Append steps of one session's messages, under ids that identify them when they are given again."""
        messages = Messages(steps, is_history)
        new = messages.new_in(self._known)
        first = self._window.next_number
        try:
            return self._add([arrival.step for arrival in new])
        finally:
            if self._window.next_number > first:  # they are in, even where `on_prune` has raised
                self._known.put(messages.rows(new, first))

    def _is_full(self, new: Sequence[Step]) -> bool:
        """Return whether adding the steps `new` must prune the window."""
        return self._auto_prune_at is not None and len(self) + len(new) > self._auto_prune_at

    def _apply(self, report: PruneReport, put: dict[str, Step], added: Sequence[Step] = ()) -> None:
        """Show steps that are added, and what a strategy made of the window once `on_prune` has heard of that."""
        if added:
            self._window.append(added, number_of(added[-1]) + 1, self._window.calls_after(added))
        if self._on_prune is not None and report.changed:
            self._window.ask(self._on_prune, report)
        self._window.show(report.removed, put)

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
        with self._changing():
            step = self._window.step_of_message(
                role,
                content,
                tool_call_id=tool_call_id,
                speaker=speaker,
                session=session,
                timestamp=timestamp,
                pinned=pinned,
                metadata=metadata,
            )
            return self._add_messages([step], is_history=False)[0]

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
        check_choice("on_conflict", on_conflict, "add", "skip")
        chat = chat_messages(messages, format)
        with self._changing():
            steps = self._window.steps_of_messages(chat, session, timestamp)
            return self._add_messages(steps, is_history=on_conflict == "skip")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self._window.check_idle()
            yield

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages; see `Step.to_messages` for the styles and for summary mode.

        A tool message whose call has left the window is sent as text, and in style `"tools"` left out.
        """
        return render_window(self.steps, summary_mode, style)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the window as JSON-ready dicts; `from_list` reads them."""
        return [step.to_dict() for step in self.steps]

    def prune(self, strategy: Pruner | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays; what left is in the report.

        What it returned is made into a window: system prompt, current task and pinned steps stay, calls keep their
        results, and a new step stands for what was taken out. Raises InputError when it returned
        anything but steps, and whatever it or `on_prune` raises; the window is then as it was.
        """
        with self._changing():
            chosen = self._strategy if strategy is None else check_strategy("strategy", strategy)
            report, put = self._window.prune(chosen)
            self._apply(report, put)
            return report

    def restore(self, report: PruneReport) -> None:
        """Undo the pruning of `report`: its steps come back to their places, and shortened steps are whole again.

        A step replaces the summary or other stand-in that took its place. A second call changes nothing.

        Raises:
            InputError: The report is of another memory.
        """
        with self._changing():
            self._apply(PruneReport(), self._window.restore(report))

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Remove all steps, or all but the system prompts; the numbers of new steps go on from the last one.

        `on_prune` is not called. The report can be restored.
        """
        with self._changing():
            report = self._window.clear(keep_system)
            self._window.show(report.removed, {})
            self._window.append((), 0, {})
            return report

    @property
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""
        with self._lock:
            return self._window.steps

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
            return self._window.next_number

    @property
    def open_calls(self) -> frozenset[str]:
        """The ids of the calls without a result yet, in the window or not."""
        with self._lock:
            return frozenset(self._window.open_calls)

    def __len__(self) -> int:
        return len(self._window)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} steps, {self.action_count} actions>"

"""WorkingMemory: the history of one task, thoughts, actions and results, as text inside an exact token budget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from tinymem.errors import BudgetError, InputError, safe_repr
from tinymem.memory.working.execution import ITERATION, as_action, iteration_of
from tinymem.memory.working.rendering import Renderer, renderer_from
from tinymem.messages.fitting import longest
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_tokens, counter_from
from tinymem.messages.validity import repair
from tinymem.protocols import TokenCounter
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int, check_token_budget
from tinymem.steps.content import Content, check_content, is_empty, shorten
from tinymem.steps.ids import new_id
from tinymem.steps.standins import newest_of
from tinymem.steps.step import Message, Step, StepT, dump_step
from tinymem.steps.types import SystemPromptStep, TaskStep
from tinymem.stores.filter import Filter

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["WorkingMemory"]

logger = logging.getLogger(__name__)

OPEN_TASK = "working_task"  # the setting of the journal that keeps the session of the unfinished task
NO_STEPS = "No previous steps"
PROMPT = "system_prompt"  # the task step's metadata that hold the system prompt: forgetting the task forgets it too


class WorkingMemory:
    """The history of the task that an agent works on. Safe to use from several threads.

    Each task has an id, which is the `session` of its steps. With a `memory`, the task and its steps are archived there
    before they are in the history, so what was added is on disk. `WorkingMemory(memory=memory)` resumes the unfinished
    task, also after the process was killed. Giving the same `task_description` again resumes it too; another one begins
    a new task. The system prompt is kept with the task. Steps may be added without a task's description.

    >>> working = WorkingMemory(4_000, "You write Python.", "Count the rows.")
    >>> result = {"execution_status": "success", "result": "3 rows", "execution_time": 2.5}
    >>> step = working.add({"step_number": 1, "thought": "Load them.", "action": "rows = load()", "result": result})
    >>> print(working.format_history())
    Step 1 (success, 2.50 s)
    Thought: Load them.
    Action: rows = load()
    Result: 3 rows
    >>> [message["role"] for message in working.get_full_context()]
    ['system', 'user', 'user']

    Args:
        max_tokens: The budget of `format_history` and `get_full_context`.
        system_prompt: The system prompt; "" for none.
        task_description: The task in words; "" for none.
        renderer: Makes the text of a step, which it is called with (see `tinymem.memory.execution_result`).
        counter: A TokenCounter, or the name of a tiktoken encoding.
        memory: The HierarchicalMemory that keeps the task.

    Raises:
        InputError: An argument makes no sense.
    """

    def __init__(
        self,
        max_tokens: int = 64 * 1024,
        system_prompt: Content | None = "",
        task_description: Content | None = "",
        *,
        renderer: Renderer | None = None,
        counter: TokenCounter | str | None = None,
        memory: HierarchicalMemory | None = None,
    ) -> None:
        self.max_tokens = check_token_budget("max_tokens", max_tokens)
        self._render, self._counter = renderer_from(renderer), counter_from(counter)
        if memory is not None and not hasattr(memory, "long_term"):
            raise InputError(f"memory must be a HierarchicalMemory, not {safe_repr(memory)}")
        self._memory, self._lock = memory, threading.RLock()
        self._prompt = check_content(system_prompt, "system_prompt") or None
        self._task: TaskStep | None = None
        self._session: str | None = None
        self._steps: list[ActionStep] = []
        self._resume(check_content(task_description, "task_description") or None)

    # -- the task -----------------------------------------------------------------------------------------------------

    @property
    def system_prompt(self) -> Content:
        """The system prompt; "" for none."""
        return self._prompt or ""

    @property
    def task_description(self) -> Content:
        """The task in words; "" for none."""
        return "" if self._task is None else self._task.task

    @property
    def task_id(self) -> str | None:
        """The id of the task, which is the `session` of its steps; None before there is a task or a step."""
        return self._session

    @property
    def steps(self) -> tuple[ActionStep, ...]:
        """The steps of the task, oldest first."""
        with self._lock:
            return tuple(self._steps)

    def new_task(self, task_description: Content, *, system_prompt: Content | None = None) -> str:
        """Finish the task and begin another; return the id of the new one.

        Args:
            task_description: The new task in words.
            system_prompt: A new system prompt; None keeps the old one.

        Raises:
            InputError: The description is empty. The old task goes on then, as it does when the memory fails.
        """
        prompt = self._prompt if system_prompt is None else check_content(system_prompt, "system_prompt")
        with self._lock:
            return self._begin(task_description, prompt, new_id())

    def finish(self) -> None:
        """End the task, so that it is not resumed later. `new_task` begins the next."""
        with self._lock:
            self._keep_open("")
            self._task, self._session, self._steps = None, None, []

    def _begin(self, task: Content, prompt: Content | None, id: str) -> str:
        if is_empty(task):
            raise InputError("task_description is empty: say what the agent has to do")
        metadata = {} if prompt is None else {PROMPT: prompt}
        step = self._journaled(TaskStep(task, session=id, metadata=metadata))
        self._keep_open(id)
        if id != self._session:
            self._steps = []
        self._task, self._prompt, self._session = step, prompt, id
        return id

    def _journaled(self, step: StepT) -> StepT:
        """Archive the step."""
        dump_step(step)  # refuses what could not be saved, with a memory or without
        if self._memory is not None:
            self._memory.archive([step])
        return step

    def _keep_open(self, id: str) -> None:
        if self._memory is not None:
            self._memory.long_term.journal.keep({OPEN_TASK: id})

    def _resume(self, task: Content | None) -> None:
        """Resume the unfinished task of the memory, unless another is given; a new prompt replaces the old one."""
        kept = self._unfinished()
        found = newest_of(kept, TaskStep)
        is_same = task is None or (found is not None and self._apply_redaction(task) == found.task)
        if not (kept and is_same):
            if kept:
                logger.info("task %s was not finished; its steps are archived", kept[-1].session)
            if task is not None:
                self._begin(task, self._prompt, new_id())
            return
        self._task, self._session = found, kept[-1].session
        self._steps = [_numbered(step) for step in kept if isinstance(step, ActionStep)]
        if found is None:
            return
        old = found.metadata.get(PROMPT)
        if self._prompt is None or self._apply_redaction(self._prompt) == old:
            self._prompt = old
        else:
            self._begin(found.task, self._prompt, found.session or new_id())

    def _apply_redaction(self, content: Content) -> Content:
        """Return `content` as the memory writes it down."""
        return content if self._memory is None else self._memory.apply_redaction(TaskStep(content)).task

    def _unfinished(self) -> list[Step]:
        if self._memory is None:
            return []
        archive = self._memory.long_term
        session = archive.journal.setting(OPEN_TASK)
        numbers = archive.journal.matching(Filter(session=session)) if session else []
        found = archive.fetch(numbers)
        return [found[number] for number in sorted(found)]

    # -- steps ----------------------------------------------------------------------------------------------------

    def add(self, step: ActionStep | Mapping[str, Any]) -> ActionStep:
        """Add a step; return it with the task's id as its `session` and its number in the task as its `step_number`.

        Args:
            step: An ActionStep, or a dict with `step_number`, `thought` (a text), `action` (code, or
                `{"tool": name, "arguments": {...}}`) and `result` (a text, an ExecutionResult, or a dict of its fields;
                other names in it are kept under `more`). One of the last three is enough. Numbers grow; the default is
                one more than the last, from 1. `execution_result(step)` gives the result back.

        Raises:
            InputError: A field is malformed; the error names it. The step is not added then, nor when the memory fails.
        """
        action, given = as_action(step)
        with self._lock:
            last = (iteration_of(self._steps[-1]) or 0) if self._steps else 0
            number = last + 1 if given is None else given
            if self._steps and number <= last:
                raise InputError(f"step_number must be over {last}, that of the step before it, not {number}")
            session = self._session or new_id()
            added = self._journaled(action.evolve(session=session, metadata={**action.metadata, ITERATION: number}))
            if self._session is None:
                self._keep_open(session)
                self._session = session
            self._steps.append(_numbered(added))
            return self._steps[-1]

    # -- out ----------------------------------------------------------------------------------------------------------

    def format_history(self, max_iterations: int | None = None, *, max_tokens: int | None = None) -> str:
        """Return the newest steps that fit as text, oldest first; `No previous steps` before the first one.

        A line says how many earlier ones are not shown. A newest step that is too long alone is shortened to head and
        tail, with a mark between them.

        Args:
            max_iterations: How many steps at most.
            max_tokens: The budget; that of the memory unless given.

        Raises:
            InputError: A number makes no sense.
        """
        most = None if max_iterations is None else check_non_negative_int("max_iterations", max_iterations)
        room = self.max_tokens if max_tokens is None else check_token_budget("max_tokens", max_tokens)
        if not (steps := self.steps) and self._counter.count(NO_STEPS) <= room:
            return NO_STEPS
        return render_history(steps, most, room, self._render, self._counter)

    def get_full_context(self) -> list[Message]:
        """Return the messages to send: the system prompt, the task, and the history in the rest of `max_tokens`.

        Raises:
            BudgetError: System prompt and task alone do not fit; the error says how many tokens each needs.
        """
        with self._lock:
            prompt = None if self._prompt is None else SystemPromptStep(self._prompt)
            parts = {"system prompt": prompt, "current task": self._task}
            fixed = {name: repair(step.to_messages()) for name, step in parts.items() if step is not None}
            messages = [*chain.from_iterable(fixed.values())]
            needed = count_tokens(messages, self._counter)
            if needed > self.max_tokens:
                costs = {name: count_tokens(part, self._counter) - PER_REPLY for name, part in fixed.items()}
                raise BudgetError(needed, self.max_tokens, {"reply": PER_REPLY, **costs})
            room = self.max_tokens - needed - PER_MESSAGE - self._counter.count("user")
            text = render_history(self._steps, None, room, self._render, self._counter)
            return [*messages, {"role": "user", "content": text}] if text.strip() else messages

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<WorkingMemory: task {self.task_id}, {len(self)} steps>"


def _numbered(step: ActionStep) -> ActionStep:
    """Number the step within its task; the memory counts all steps of all tasks."""
    return step.evolve(step_number=iteration_of(step))


def render_history(
    steps: Sequence[ActionStep],
    most: int | None,
    max_tokens: int,
    render: Callable[[ActionStep], str],
    counter: TokenCounter,
) -> str:
    """Render the newest of `steps`, at most `most` of them (None: all), in at most `max_tokens`.

    A newest step that is too long alone is shortened; "" when nothing of it fits.
    """
    newest: list[str] = []
    room = max_tokens
    for step in reversed(steps if most is None else steps[max(0, len(steps) - most) :]):
        newest.append(render(step))
        room -= counter.count(newest[-1])
        if room < 0:  # one more than fits
            break
    newest.reverse()
    while newest:
        text = _join(newest, len(steps) - len(newest))
        if counter.count(text) <= max_tokens:
            return text
        if len(newest) == 1:
            return _shorten(steps[-1], newest[0], len(steps) - 1, max_tokens, render, counter)
        del newest[0]
    return ""


def _shorten(
    step: ActionStep, text: str, before: int, room: int, render: Callable[[ActionStep], str], counter: TokenCounter
) -> str:
    """Shorten the texts of the step, or else its rendered `text`."""

    def shortened(length: int) -> str:
        return _join([render(step.shortened(length))], before)

    return longest(shortened, room, counter) or longest(lambda length: shorten(text, length), room, counter)


def _join(texts: Sequence[str], before: int) -> str:
    note = [f"({before} earlier steps are not shown)"] if before else []
    return "\n\n".join([*note, *texts])

"""WorkingMemory: one task's history of thoughts, actions and results, as text inside an exact token budget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tinymem.actions import ActionStep
from tinymem.base import Message, Step, StepT
from tinymem.checks import some_tokens, whole_number
from tinymem.content import Content, checked, is_empty
from tinymem.errors import BudgetError, FormatError, InputError, StepError
from tinymem.execution import ITERATION, ExecutionResult, as_action, execution_result, iteration_of
from tinymem.history import history
from tinymem.ids import new_id
from tinymem.protocols import TokenCounter
from tinymem.quiet import kind_of
from tinymem.serialization import dump_step, step_from_dict
from tinymem.steps import SystemPromptStep, TaskStep
from tinymem.templates import Renderer, render_step, renderer_from
from tinymem.tokens import PER_MESSAGE, PER_REPLY, count_message, counter_from

if TYPE_CHECKING:
    from tinymem.hierarchy import HierarchicalMemory

__all__ = ["ExecutionResult", "WorkingMemory", "execution_result", "render_step"]

logger = logging.getLogger(__name__)

FORMAT = 1
OPEN_TASK = "working_task"  # the journal's setting that keeps the session of the task that is not finished
PROMPT = "system_prompt"  # the task step's metadata that keep the system prompt: what is forgotten takes it along


class WorkingMemory:
    """The history of the task that an agent works on. Safe to use from several threads.

    Every step is handed to `archive` when it is added, before it is in the history, and so is each task when it begins,
    all with the task's id as their `session`. With a `memory` that is `memory.archive`: what was added is on disk, and
    `WorkingMemory(memory=memory)` goes on with the unfinished task, also after the process was killed. So does giving
    the same `task_description` again; another one begins a new task.

    `renderer` makes the text of a step: a callable, or a Jinja2 template (its source, then run in Jinja2's sandbox, or
    a Template) with the values `number`, `thought`, `action`, `result` (an ExecutionResult) and `step`. `counter` is a
    TokenCounter or the name of a tiktoken encoding.

    >>> working = WorkingMemory("You write Python.", "Count the rows.")
    >>> step = working.add({"thought": "Load them.", "action": "rows = load()", "result": "3 rows"})
    >>> print(working.format_history())
    Step 1 (success)
    Thought: Load them.
    Action: rows = load()
    Result: 3 rows
    >>> [message["role"] for message in working.get_full_context()]
    ['system', 'user', 'user']

    Raises InputError for arguments that make no sense, and MissingExtraError for a template without Jinja2.
    """

    def __init__(
        self,
        system_prompt: Content | None = None,
        task_description: Content | None = None,
        max_tokens: int = 64_000,
        *,
        renderer: Renderer | None = None,
        counter: TokenCounter | str | None = None,
        memory: HierarchicalMemory | None = None,
        archive: Callable[[Sequence[Step]], object] | None = None,
    ) -> None:
        self.max_tokens = some_tokens("max_tokens", max_tokens)
        self._render, self._counter = renderer_from(renderer), counter_from(counter)
        if memory is not None and archive is not None:
            raise InputError("give memory or archive, not both: a memory is its own archive")
        if archive is not None and not callable(archive):
            raise InputError(f"archive must be a callable or None, not {archive!r:.80}")
        self._memory, self._archive = memory, archive
        self._lock = threading.RLock()
        self._prompt = checked(system_prompt, "system_prompt")
        self._task: TaskStep | None = None
        self._steps: list[ActionStep] = []
        self._resume(task_description)

    # -- the task -----------------------------------------------------------------------------------------------------

    @property
    def system_prompt(self) -> Content | None:
        """What the agent is told before the task."""
        return self._prompt

    @property
    def task_description(self) -> Content | None:
        """The task, or None when there is none."""
        return None if self._task is None else self._task.task

    @property
    def task_id(self) -> str | None:
        """The task's id, which is the `session` of its steps; None when there is no task."""
        return None if self._task is None else self._task.session

    @property
    def steps(self) -> tuple[ActionStep, ...]:
        """The steps of the task, oldest first."""
        with self._lock:
            return tuple(self._steps)

    def new_task(self, task_description: Content, *, system_prompt: Content | None = None) -> str:
        """Finish the task and begin another, with the same system prompt unless one is given; the new task's id.

        The finished one is in the archive already. Raises InputError for an empty description, and what the archive
        raises; the old task is still the current one then.
        """
        prompt = self._prompt if system_prompt is None else checked(system_prompt, "system_prompt")
        with self._lock:
            return self._begin(task_description, prompt, new_id())

    def finish(self) -> None:
        """End the task: there is none then until `new_task`, and none is resumed later."""
        with self._lock:
            self._keep_open("")
            self._task, self._steps = None, []

    def _begin(self, task: Content, prompt: Content | None, id: str) -> str:
        if is_empty(task):
            raise InputError("task_description is empty: say what the agent has to do")
        metadata = {} if prompt is None else {PROMPT: prompt}
        step = self._journaled(TaskStep(task, session=id, metadata=metadata))
        self._keep_open(id)
        if id != self.task_id:
            self._steps = []
        self._task, self._prompt = step, prompt
        return id

    def _journaled(self, step: StepT) -> StepT:
        """The step as it is held, once the archive has it."""
        dump_step(step)  # what could not be saved is refused, with an archive or without
        if self._memory is not None:
            return step.evolve(number=self._memory.archive([step])[0].number)
        if self._archive is not None:
            self._archive([step])
        return step

    def _keep_open(self, id: str) -> None:
        if self._memory is not None:
            self._memory.long_term.journal.keep({OPEN_TASK: id})

    def _resume(self, task: Content | None) -> None:
        """Go on with the memory's unfinished task, unless another is given; with another prompt if one is given."""
        kept = self._unfinished()
        found = next((step for step in reversed(kept) if isinstance(step, TaskStep)), None)
        if found is not None and (task is None or self._as_kept(task) == found.task):
            self._task, self._steps = found, [step for step in kept if isinstance(step, ActionStep)]
            old = found.metadata.get(PROMPT)
            if self._prompt is None or self._as_kept(self._prompt) == old:
                self._prompt = old
            else:
                self._begin(found.task, self._prompt, found.session or new_id())
        elif task is not None:
            if found is not None:
                logger.info("task %s was not finished; its %d steps are archived", found.session, len(kept) - 1)
            self._begin(task, self._prompt, new_id())

    def _as_kept(self, content: Content) -> Content:
        """`content` as the memory writes it down."""
        return content if self._memory is None else self._memory.as_kept(TaskStep(content)).task

    def _unfinished(self) -> list[Step]:
        if self._memory is None:
            return []
        session = self._memory.long_term.journal.setting(OPEN_TASK)
        numbers = self._memory.long_term.journal.numbers(session=session) if session else []
        found = self._memory.long_term.fetch(numbers)
        return [found[number] for number in sorted(found)]

    # -- its steps ----------------------------------------------------------------------------------------------------

    def add(self, step: ActionStep | Mapping[str, Any]) -> ActionStep:
        """Add a step, and get it as it is held: its session is the task's, its metadata say which iteration it is.

        A dict has `thought` (a text), `action` (code, or `{"tool": name, "arguments": {...}}`), `result` (an
        ExecutionResult, a dict of its fields, or a text) and `number`, each of which may be missing, though not all
        three of the first. Numbers grow; by default each is one more than the last. `execution_result(step)` gives the
        result back.

        Raises StepError, with the name of the field, for malformed data, and what the archive raises; the step is not
        added then. Raises InputError when there is no task.
        """
        action, given = as_action(step)
        with self._lock:
            if self._task is None:
                raise InputError("there is no task that the step could belong to: call new_task first")
            last = (iteration_of(self._steps[-1]) or 0) if self._steps else 0
            number = last + 1 if given is None else given
            if number <= last:
                raise StepError(f"number must be over {last}, that of the step before it, not {number}")
            metadata = {**action.metadata, ITERATION: number}
            held = self._journaled(action.evolve(session=self.task_id, metadata=metadata))
            self._steps.append(held)
            return held

    # -- out ----------------------------------------------------------------------------------------------------------

    def format_history(self, max_iterations: int | None = None, *, max_tokens: int | None = None) -> str:
        """The newest steps, at most `max_iterations` of them, as text of at most `max_tokens` (the memory's own unless
        given), oldest first.

        A line says how many earlier ones are not shown. When the newest alone is too long it is shortened to head and
        tail, with a mark between. Raises InputError for numbers that make no sense, and what the renderer raises.
        """
        most = None if max_iterations is None else whole_number("max_iterations", max_iterations)
        room = self.max_tokens if max_tokens is None else some_tokens("max_tokens", max_tokens)
        return history(self.steps, most, room, self._render, self._counter)

    def get_full_context(self) -> list[Message]:
        """The messages to send: the system prompt, the task, and the history in what they leave of `max_tokens`.

        Raises BudgetError, with what each needs, when the first two alone do not fit, and InputError without a task.
        """
        with self._lock:
            if self._task is None:
                raise InputError("there is no task: call new_task first")
            fixed = {"current task": self._task.to_messages()}
            if self._prompt is not None and not is_empty(self._prompt):
                fixed = {"system prompt": SystemPromptStep(self._prompt).to_messages(), **fixed}
            messages = [message for some in fixed.values() for message in some]
            costs = {name: sum(count_message(m, self._counter) for m in some) for name, some in fixed.items()}
            needed = PER_REPLY + sum(costs.values())
            if needed > self.max_tokens:
                raise BudgetError(needed, self.max_tokens, {"reply": PER_REPLY, **costs})
            room = self.max_tokens - needed - PER_MESSAGE - self._counter.count("user")
            text = history(self._steps, None, room, self._render, self._counter)
            return [*messages, {"role": "user", "content": text}] if text.strip() else messages

    # -- as a record --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The task and its steps as JSON-ready values, for `from_dict`."""
        with self._lock:
            task = None if self._task is None else self._task.to_dict()
            return {"format": FORMAT, "task": task, "steps": [step.to_dict() for step in self._steps]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], **options: Any) -> WorkingMemory:
        """The working memory whose `to_dict` gave `record`; `options` are those of the class, but for `memory`
        and `task_description`.

        What is read is not archived again. Raises FormatError for a record of another format, and StepError for a
        malformed one.
        """
        if any(options.get(name) is not None for name in ("memory", "task_description")):
            raise InputError("a record has its own task: give neither memory, which resumes its own, nor another task")
        if not isinstance(record, Mapping) or record.get("format") != FORMAT:
            raise FormatError(f"this is no working memory's record of format {FORMAT}: {kind_of(record)}")
        working = cls(**options)
        task, steps = record.get("task"), record.get("steps")
        if not isinstance(steps, (list, tuple)):
            raise StepError(f"steps must be a list, not {type(steps).__name__}")
        working._task = None if task is None else _of_type("task", TaskStep, task)
        working._steps = [_of_type(f"steps[{at}]", ActionStep, step) for at, step in enumerate(steps)]
        if working._task is not None and working._prompt is None:
            working._prompt = working._task.metadata.get(PROMPT)
        return working

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<WorkingMemory: task {self.task_id}, {len(self)} steps>"


def _of_type(place: str, kind: type[Any], record: Any) -> Any:
    try:
        step = step_from_dict(record)
        if isinstance(step, ActionStep):
            execution_result(step)
    except StepError as error:
        raise StepError(f"{place}: {error}") from error
    if not isinstance(step, kind):
        raise StepError(f"{place} must be a {kind.__name__}, not a {type(step).__name__}")
    return step

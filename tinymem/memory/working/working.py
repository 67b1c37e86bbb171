"""WorkingMemory: one task's history of thoughts, actions and results, as text inside an exact token budget."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tinymem.errors import BudgetError, FormatError, InputError, StepError, kind_of, shown
from tinymem.memory.working.execution import ITERATION, ExecutionResult, as_action, execution_result, iteration_of
from tinymem.memory.working.history import history
from tinymem.memory.working.templates import Renderer, render_step, renderer_from
from tinymem.messages.tokens import PER_MESSAGE, PER_REPLY, count_message, counter_from
from tinymem.messages.validity import repair
from tinymem.protocols import TokenCounter
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import some_tokens, whole_number
from tinymem.steps.content import Content, checked, is_empty
from tinymem.steps.ids import new_id
from tinymem.steps.serialization import dump_step, step_from_dict
from tinymem.steps.step import Message, Step, StepT
from tinymem.steps.types import SystemPromptStep, TaskStep

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["ExecutionResult", "WorkingMemory", "execution_result", "render_step"]

logger = logging.getLogger(__name__)

FORMAT = 1
OPEN_TASK = "working_task"  # the journal's setting that keeps the session of the task that is not finished
NO_STEPS = "No previous steps"
PROMPT = "system_prompt"  # the task step's metadata that keep the system prompt: what is forgotten takes it along


class WorkingMemory:
    """The history of the task that an agent works on. Safe to use from several threads.

    Without a `system_prompt`, or with "", there is none, and likewise a `task_description`: steps that are added then
    belong to a task without words.

    Every step is handed to `archive` when it is added, before it is in the history, and so is each task when it begins,
    all with the task's id as their `session`. With a `memory` that is `memory.archive`: what was added is on disk, and
    `WorkingMemory(memory=memory)` goes on with the unfinished task, also after the process was killed. So does giving
    the same `task_description` again; another one begins a new task. A system prompt is kept with the task's words.

    `renderer` makes the text of a step: a callable, or a Jinja2 template (its source, then run in Jinja2's sandbox, or
    a Template) with the values `step_number`, `thought`, `action`, `result` (an ExecutionResult) and `step`. `counter`
    is a TokenCounter or the name of a tiktoken encoding.

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

    Raises InputError for arguments that make no sense, and MissingExtraError for a template without Jinja2.
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
        archive: Callable[[Sequence[Step]], object] | None = None,
    ) -> None:
        self.max_tokens = some_tokens("max_tokens", max_tokens)
        self._render, self._counter = renderer_from(renderer), counter_from(counter)
        if memory is not None and archive is not None:
            raise InputError("give memory or archive, not both: a memory is its own archive")
        if archive is not None and not callable(archive):
            raise InputError(f"archive must be a callable or None, not {archive!r:.80}")
        if memory is not None and not hasattr(memory, "long_term"):
            raise InputError(f"memory must be a HierarchicalMemory, not {shown(memory)}")
        self._memory, self._archive = memory, archive
        self._lock = threading.RLock()
        self._prompt = checked(system_prompt, "system_prompt") or None
        self._task: TaskStep | None = None
        self._session: str | None = None
        self._steps: list[ActionStep] = []
        self._resume(checked(task_description, "task_description") or None)

    # -- the task -----------------------------------------------------------------------------------------------------

    @property
    def system_prompt(self) -> Content:
        """What the agent is told before the task; "" for nothing."""
        return self._prompt or ""

    @property
    def task_description(self) -> Content:
        """The task in words; "" when there are none."""
        return "" if self._task is None else self._task.task

    @property
    def task_id(self) -> str | None:
        """The task's id, which is the `session` of its steps; None before there is a task or a step."""
        return self._session

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
        """End the task: none is resumed later. `new_task` begins the next."""
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
        """The step, once the archive has it."""
        dump_step(step)  # what could not be saved is refused, with an archive or without
        if self._memory is not None:
            self._memory.archive([step])
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
        if kept and (task is None or (found is not None and self._as_kept(task) == found.task)):
            self._task, self._session = found, kept[-1].session
            self._steps = [_numbered(step) for step in kept if isinstance(step, ActionStep)]
            if found is None:
                return
            old = found.metadata.get(PROMPT)
            if self._prompt is None or self._as_kept(self._prompt) == old:
                self._prompt = old
            else:
                self._begin(found.task, self._prompt, found.session or new_id())
        elif task is not None:
            if kept:
                held = sum(isinstance(step, ActionStep) for step in kept)
                logger.info("task %s was not finished; its %d steps are archived", kept[-1].session, held)
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
        """Add a step, and get it as it is held: its `session` is the task's id, its `step_number` that in the task.

        A dict has `step_number`, `thought` (a text), `action` (code, or `{"tool": name, "arguments": {...}}`) and
        `result` (a text, an ExecutionResult, or a dict of its fields, in which other names are kept under `more`), each
        of which may be missing, though not all three of the last. Numbers grow; by default each is one more than the
        last, from 1. `execution_result(step)` gives the result back.

        Raises StepError, with the name of the field, for malformed data, and what the archive raises; the step is not
        added then.
        """
        action, given = as_action(step)
        with self._lock:
            last = iteration_of(self._steps[-1]) if self._steps else None
            number = (last or 0) + 1 if given is None else given
            if last is not None and number <= last:
                raise StepError(f"step_number must be over {last}, that of the step before it, not {number}")
            session = self._session or new_id()
            metadata = {**action.metadata, ITERATION: number}
            held = _numbered(self._journaled(action.evolve(session=session, metadata=metadata)))
            if self._session is None:
                self._keep_open(session)
            self._session = session
            self._steps.append(held)
            return held

    # -- out ----------------------------------------------------------------------------------------------------------

    def format_history(self, max_iterations: int | None = None, *, max_tokens: int | None = None) -> str:
        """The newest steps, at most `max_iterations` of them, as text of at most `max_tokens` (the memory's own unless
        given), oldest first; `No previous steps` before the first one.

        A line says how many earlier ones are not shown. When the newest alone is too long it is shortened to head and
        tail, with a mark between. Raises InputError for numbers that make no sense, and what the renderer raises.
        """
        most = None if max_iterations is None else whole_number("max_iterations", max_iterations)
        room = self.max_tokens if max_tokens is None else some_tokens("max_tokens", max_tokens)
        if not (steps := self.steps) and self._counter.count(NO_STEPS) <= room:
            return NO_STEPS
        return history(steps, most, room, self._render, self._counter)

    def get_full_context(self) -> list[Message]:
        """The messages to send: the system prompt, the task, and the history in what they leave of `max_tokens`; of
        the three, those that there are.

        Raises BudgetError, with what each needs, when the first two alone do not fit.
        """
        with self._lock:
            fixed: dict[str, list[Message]] = {}
            if self._prompt is not None and not is_empty(self._prompt):
                fixed["system prompt"] = repair(SystemPromptStep(self._prompt).to_messages())
            if self._task is not None:
                fixed["current task"] = repair(self._task.to_messages())
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
        if options.get("memory") is not None or options.get("task_description"):
            raise InputError("a record has its own task: give neither memory, which resumes its own, nor another task")
        if not isinstance(record, Mapping) or record.get("format") != FORMAT:
            raise FormatError(f"this is no working memory's record of format {FORMAT}: {kind_of(record)}")
        working = cls(**options)
        task, steps = record.get("task"), record.get("steps")
        if not isinstance(steps, (list, tuple)):
            raise StepError(f"steps must be a list, not {type(steps).__name__}")
        working._task = None if task is None else _of_type("task", TaskStep, task)
        working._steps = [_of_type(f"steps[{at}]", ActionStep, step) for at, step in enumerate(steps)]
        working._session = next((step.session for step in (working._task, *working._steps) if step is not None), None)
        if working._task is not None and working._prompt is None:
            working._prompt = working._task.metadata.get(PROMPT)
        return working

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<WorkingMemory: task {self.task_id}, {len(self)} steps>"


def _numbered(step: ActionStep) -> ActionStep:
    """The step with its number in the task; the memory's archive counts otherwise."""
    return step.evolve(step_number=iteration_of(step))


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

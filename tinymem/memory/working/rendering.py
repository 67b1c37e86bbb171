"""Renderers of a step in the history: the default, or a callable of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tinymem.errors import InputError
from tinymem.memory.working.execution import execution_result, iteration_of
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_callable
from tinymem.steps.content import clean
from tinymem.steps.display import hanging, short_repr

__all__ = ["Renderer", "render_step", "renderer_from"]


Renderer: TypeAlias = Callable[[ActionStep], str]

_LABELS = {
    "thought": "Thought", "signal": "Signal", "code": "Action", "call": "Action", "observation": "Result",
    "error": "Error",
}  # fmt: skip


def render_step(step: ActionStep) -> str:
    """Render a step as text: its number, status and time, and a paragraph for each of its parts.

    >>> print(render_step(ActionStep("Count.", code="len(rows)", observation="3", metadata={"iteration": 2})))
    Step 2 (success)
    Thought: Count.
    Action: len(rows)
    Result: 3
    """
    result, number = execution_result(step), iteration_of(step)
    head = "Step" if number is None else f"Step {number}"
    time = "" if result.execution_time is None else f", {result.execution_time:.2f} s"
    paragraphs = [(_LABELS[part.kind], part.text) for part in step.parts()]
    if result.task_status != "inprogress":
        paragraphs.append(("Task status", result.task_status))
    variables = [f"{name} = {short_repr(value)}" for name, value in result.local_variables.items()]
    paragraphs += [("Variables", ", ".join(variables)), ("Next step", result.next_step or "")]
    lines = [f"{label}: {hanging(text)}" for label, text in paragraphs if text]
    return "\n".join([f"{head} ({hanging(result.execution_status)}{time})", *lines])


def renderer_from(renderer: Renderer | None) -> Renderer:
    """Return the function that renders a step; see `WorkingMemory`. Raises InputError for anything else."""
    check_callable("renderer", renderer)
    if renderer is None:
        return render_step

    def render(step: ActionStep) -> str:
        text = renderer(step)
        if not isinstance(text, str):
            raise InputError(f"the renderer must return a string, not {type(text).__name__}, for step {step.id}")
        return clean(text)

    return render

"""Renderers of a step in the history: the default, a callable of the user, or a Jinja2 template."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tinymem.errors import InputError, MissingExtraError
from tinymem.memory.working.execution import execution_result, iteration_of
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import clean
from tinymem.steps.display import hanging

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["Renderer", "render_step", "renderer_from"]

Renderer: TypeAlias = "Callable[[ActionStep], str] | str | Template"

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
    result = execution_result(step)
    time = "" if result.execution_time is None else f", {result.execution_time:.2f} s"
    variables = ", ".join(f"{name} = {shown}" for name, shown in result.local_reprs.items())
    paragraphs = [(_LABELS[part.kind], part.text) for part in step.parts()]
    paragraphs += [("Task status", "" if result.task_status == "inprogress" else result.task_status)]
    paragraphs += [("Variables", variables), ("Next step", result.next_step or "")]
    number = iteration_of(step)
    head = "Step" if number is None else f"Step {number}"
    lines = [f"{label}: {hanging(text)}" for label, text in paragraphs if text]
    return "\n".join([f"{head} ({hanging(result.execution_status)}{time})", *lines])


def renderer_from(renderer: Renderer | None) -> Callable[[ActionStep], str]:
    """Return the function that renders a step; see `WorkingMemory`.

    Raises:
        InputError: It is no renderer, or no valid template.
        MissingExtraError: It is a template, and Jinja2 is not installed.
    """
    if renderer is None:
        return render_step
    if isinstance(renderer, str) or hasattr(renderer, "render"):
        if importlib.util.find_spec("jinja2") is None:
            raise MissingExtraError("a template for the history", "jinja2")
        return _fill(_compile(renderer) if isinstance(renderer, str) else renderer)
    if not callable(renderer):
        raise InputError(f"renderer must be a callable, a template or None, not {renderer!r:.80}")

    def render(step: ActionStep) -> str:
        text = renderer(step)
        if not isinstance(text, str):
            raise InputError(f"the renderer must return a string, not {type(text).__name__}, for step {step.id}")
        return clean(text)

    return render


def _compile(source: str) -> Any:
    """Compile the template in a sandbox: it can neither reach beyond its values nor change them."""
    from jinja2 import StrictUndefined, TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        raise InputError(f"the template is wrong in line {error.lineno}: {error.message}") from error


def _fill(template: Any) -> Callable[[ActionStep], str]:
    """Return a renderer that fills in `template`. Texts of steps are values, so never read as templates."""
    from jinja2 import TemplateError

    def render(step: ActionStep) -> str:
        acted = [part.text for part in step.parts() if part.kind in ("code", "call")]
        values = {
            "step": step,
            "step_number": iteration_of(step),
            "thought": next((part.text for part in step.parts() if part.kind == "thought"), ""),
            "action": "\n".join(acted),
            "result": execution_result(step),
        }
        try:
            return clean(template.render(values))
        except TemplateError as error:
            raise InputError(f"the template failed on step {step.id}: {error}") from error

    return render

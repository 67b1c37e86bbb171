"""The use of a tool that an event tells of, as a step: what an agent is about to do, or what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem.runs.hooks.privacy import redact_with
from tinymem.runs.hooks.quick import ACTING
from tinymem.runs.values import text_in
from tinymem.steps.actions import ActionStep, ToolCall

if TYPE_CHECKING:
    from tinymem.runs.hooks.answers import Asked

__all__ = ["ACTING", "step_of"]


def step_of(asked: Asked) -> ActionStep | None:
    """Return the use of a tool that an event tells of; None where somebody interrupted it."""
    details, redact = asked.details, redact_with(asked.redact)
    given, said = details.get("tool_input"), details.get("tool_response") or ""
    if details.get("is_interrupt") or not given:
        return None
    if isinstance(said, dict):  # the text that the model gets is the first of them
        said = "\n".join(map(str, filter(None, reversed(said.values()))))
    shown = None if asked.event == "pre-tool-use" else redact(str(said))
    error = redact(text_in(details, "error"))
    call = ToolCall(text_in(details, "tool_name"), given, observation=shown, error=error or None)
    return ActionStep(tool_calls=[call], session=asked.session)

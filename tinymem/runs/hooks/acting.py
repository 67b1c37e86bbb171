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

FOR_MODEL = ("llmContent", "text_result_for_llm")  # where Gemini CLI, Qwen Code and Copilot CLI have what a model reads


def step_of(asked: Asked) -> ActionStep | None:
    """Return the use of a tool that an event tells of; None where somebody interrupted it."""
    details, redact = asked.details, redact_with(asked.redact)
    given, said = details.get("tool_input"), details.get("tool_response") or details.get("tool_result") or ""
    if details.get("is_interrupt") or not given:
        return None
    if isinstance(said, dict):
        read = filter(None, (text_in(said, key) for key in FOR_MODEL))
        said = next(read, "") or "\n".join(map(str, filter(None, reversed(said.values()))))
    shown = None if asked.event == "pre-tool-use" else redact(str(said))
    error = redact(text_in(details, "error"))
    call = ToolCall(text_in(details, "tool_name"), given, observation=shown, error=error or None)
    return ActionStep(tool_calls=[call], session=asked.session)

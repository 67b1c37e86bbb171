"""Steps: what happened, as typed, immutable events."""

from tinymem.steps.actions import ActionStep, Signal, ToolCall
from tinymem.steps.ids import new_id
from tinymem.steps.step import Part, Step
from tinymem.steps.types import (
    FinalAnswerStep,
    MessageStep,
    PlanningStep,
    ScratchpadStep,
    SummaryStep,
    SystemPromptStep,
    TaskStep,
)

__all__ = [
    "ActionStep", "FinalAnswerStep", "MessageStep", "Part", "PlanningStep", "ScratchpadStep", "Signal", "Step",
    "SummaryStep", "SystemPromptStep", "TaskStep", "ToolCall", "new_id",
]  # fmt: skip

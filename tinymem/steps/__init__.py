"""Steps: what happened, as typed, immutable events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.steps.actions import ActionStep, Signal, ToolCall
    from tinymem.steps.ids import new_id
    from tinymem.steps.step import Part
    from tinymem.steps.types import (
        FinalAnswerStep,
        MessageStep,
        PlanningStep,
        ScratchpadStep,
        Step,
        SummaryStep,
        SystemPromptStep,
        TaskStep,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "actions": "ActionStep Signal ToolCall",
        "ids": "new_id",
        "step": "Part",
        "types": "FinalAnswerStep MessageStep PlanningStep ScratchpadStep Step SummaryStep SystemPromptStep TaskStep",
    })  # fmt: skip

__all__ = [
    "ActionStep", "FinalAnswerStep", "MessageStep", "Part", "PlanningStep", "ScratchpadStep", "Signal", "Step",
    "SummaryStep", "SystemPromptStep", "TaskStep", "ToolCall", "new_id",
]  # fmt: skip

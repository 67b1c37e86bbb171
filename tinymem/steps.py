"""Typed, immutable steps: what an agent saw, thought and did, one event each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tinymem.actions import ActionStep, Signal, ToolCall
from tinymem.base import Message, Part, Step, StepT, Style, TextChange, check_texts, labelled
from tinymem.content import Content, as_text, checked, frozen, map_text
from tinymem.errors import StepError
from tinymem.quiet import kind_of, shown

__all__ = [
    "ActionStep",
    "FinalAnswerStep",
    "Message",
    "MessageStep",
    "Part",
    "PlanningStep",
    "ScratchpadStep",
    "Signal",
    "Step",
    "Style",
    "SummaryStep",
    "SystemPromptStep",
    "TaskStep",
    "ToolCall",
    "is_milestone",
]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True)
class _ContentStep(Step):
    """A step whose whole substance is one piece of content, rendered as one message."""

    role: ClassVar[str] = "user"
    content_field: ClassVar[str] = ""
    in_summary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"{type(self).__name__}.{self.content_field}"
        content = checked(self.content, where)
        if content is None:
            raise StepError(f"{where} must be a string or a list of content parts, not None")
        self._set(**{self.content_field: content})

    @property
    def content(self) -> Content:
        """The step's content, whatever its field is called."""
        value: Content = getattr(self, self.content_field)
        return value

    def _parts(self) -> Iterable[Part]:
        yield Part(self.type, as_text(self.content))

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        if summary_mode and not self.in_summary:
            return []
        return [{"role": self.role, "content": frozen(self.content)}]

    def _map_text(self: StepT, change: TextChange) -> StepT:
        assert isinstance(self, _ContentStep)
        return self.evolve(**{self.content_field: map_text(self.content, change)})


@dataclass(frozen=True)
class SystemPromptStep(_ContentStep):
    """What the agent is told before anything else."""

    type: ClassVar[str] = "system_prompt"
    role: ClassVar[str] = "system"
    content_field: ClassVar[str] = "system_prompt"
    in_summary: ClassVar[bool] = False
    system_prompt: Content


@dataclass(frozen=True)
class TaskStep(_ContentStep):
    """What the agent is asked to do. The newest one is the current task."""

    type: ClassVar[str] = "task"
    content_field: ClassVar[str] = "task"
    task: Content


@dataclass(frozen=True)
class PlanningStep(_ContentStep):
    """A plan that the agent made."""

    type: ClassVar[str] = "planning"
    role: ClassVar[str] = "assistant"
    content_field: ClassVar[str] = "plan"
    in_summary: ClassVar[bool] = False
    plan: Content


@dataclass(frozen=True)
class ScratchpadStep(_ContentStep):
    """A note that the agent wrote to itself."""

    type: ClassVar[str] = "scratchpad"
    role: ClassVar[str] = "assistant"
    content_field: ClassVar[str] = "note"
    note: Content


@dataclass(frozen=True)
class SummaryStep(_ContentStep):
    """A summary that stands for the steps whose ids it `covers`."""

    type: ClassVar[str] = "summary"
    content_field: ClassVar[str] = "summary"
    summary: Content
    covers: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.covers, (list, tuple)) or not all(isinstance(id, str) for id in self.covers):
            raise StepError(f"covers must be a list of ids, not {kind_of(self.covers)}")
        self._set(covers=tuple(self.covers))


@dataclass(frozen=True)
class FinalAnswerStep(_ContentStep):
    """The answer that ended a task."""

    type: ClassVar[str] = "final_answer"
    role: ClassVar[str] = "assistant"
    content_field: ClassVar[str] = "answer"
    answer: Content


@dataclass(frozen=True)
class MessageStep(Step):
    """One chat message: a person's line, an assistant's, or a tool result that came later than its call."""

    type: ClassVar[str] = "message"
    role: str
    content: Content | None = None
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.role not in ROLES:
            raise StepError(f"role must be one of {', '.join(ROLES)}, not {shown(self.role)}")
        check_texts(self, "tool_call_id")
        if self.role == "tool" and not isinstance(self.tool_call_id, str):
            raise StepError("a tool message needs the tool_call_id of the call that it answers")
        self._set(content=checked(self.content, "MessageStep.content"))

    def _parts(self) -> Iterable[Part]:
        kind = {"tool": "observation", "function": "observation", "assistant": "reply"}.get(self.role, "message")
        yield Part(kind, as_text(self.content))

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        if summary_mode and self.role in ("system", "developer"):
            return []
        if style == "observation" and self.role in ("tool", "function"):
            return [{"role": "user", "content": labelled("Observation", self.content)}]
        message: Message = {"role": self.role, "content": frozen(self.content)}
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return [message]

    def _map_text(self: StepT, change: TextChange) -> StepT:
        assert isinstance(self, MessageStep)
        return self.evolve(content=map_text(self.content, change))


def is_milestone(step: Step) -> bool:
    """Whether a step is one to come back to: a final answer, a pinned step, or one marked so in its metadata."""
    return isinstance(step, FinalAnswerStep) or step.pinned or step.metadata.get("milestone") is True

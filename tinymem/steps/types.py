"""The types of steps beside actions: system prompt, task, plan, note, summary, answer, message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tinymem.errors import StepError, describe_type
from tinymem.steps.actions import ActionStep, Signal, ToolCall
from tinymem.steps.content import Content, add_label, as_text, check_content, freeze, map_text, to_json, to_mutable
from tinymem.steps.step import STEP_TYPES, Message, Part, Step, Style, TextChange

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "STEP_TYPES", "ActionStep", "FinalAnswerStep", "Message", "MessageStep", "Part", "PlanningStep", "ScratchpadStep",
    "Signal", "Step", "Style", "SummaryStep", "SystemPromptStep", "TaskStep", "ToolCall", "corrected_ids",
    "is_milestone", "is_undated", "shown_time",
]  # fmt: skip

CARRY_OUT = "Now proceed and carry out this plan."
CORRECTS = "corrects"  # in the metadata of a step: the ids of those that it corrects
UNDATED = "undated"  # in the metadata of a step: its source gives no time, and its timestamp says only when it came
FILE = "memory_file"  # in metadata: the path of the file of Claude's memory tool that a step is
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, eq=False, repr=False)
class _ContentStep(Step):
    """A step of one piece of content, rendered as one message."""

    role: ClassVar[str] = "user"
    content_field: ClassVar[str] = ""
    in_summary: ClassVar[bool] = True

    def _check(self) -> None:
        where = f"{type(self).__name__}.{self.content_field}"
        if self._said is None:
            raise StepError(f"{where} must be a string or a list of content parts, not None")
        vars(self)[self.content_field] = check_content(self._said, where)

    @property
    def _said(self) -> Content:
        value: Content = getattr(self, self.content_field)
        return value

    def _parts(self) -> Iterable[Part]:
        return [Part(self.type, as_text(self._said))]

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        if summary_mode and not self.in_summary:
            return []
        return [{"role": self.role, "content": to_mutable(self._said)}]

    def _map_text(self, change: TextChange) -> Self:
        return self.evolve(**{self.content_field: map_text(self._said, change)})


@dataclass(frozen=True, eq=False, repr=False)
class SystemPromptStep(_ContentStep):
    """The instructions that the agent works by: the first message of every prompt."""

    type: ClassVar[str] = "system_prompt"
    role: ClassVar[str] = "system"
    content_field: ClassVar[str] = "content"
    in_summary: ClassVar[bool] = False
    content: Content


@dataclass(frozen=True, eq=False, repr=False)
class TaskStep(_ContentStep):
    """A task for the agent, sent as a user's message. The newest one is the current task."""

    type: ClassVar[str] = "task"
    content_field: ClassVar[str] = "task"
    task: Content


@dataclass(frozen=True, eq=False, repr=False)
class PlanningStep(_ContentStep):
    """A plan of the agent, sent with a user's message to carry it out, as smolagents sends it."""

    type: ClassVar[str] = "planning"
    role: ClassVar[str] = "assistant"
    content_field: ClassVar[str] = "plan"
    in_summary: ClassVar[bool] = False
    plan: Content

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        said = super()._render(summary_mode, style)
        return [*said, {"role": "user", "content": CARRY_OUT}] if said else []


@dataclass(frozen=True, eq=False, repr=False)
class ScratchpadStep(_ContentStep):
    """A note of the agent to itself; `raw_llm_response` is the model's answer that held it."""

    type: ClassVar[str] = "scratchpad"
    role: ClassVar[str] = "assistant"
    content_field: ClassVar[str] = "content"
    _texts: ClassVar[tuple[str, ...]] = ("raw_llm_response",)
    content: Content
    raw_llm_response: str | None = None

    def _parts(self) -> Iterable[Part]:
        return [Part(self.type, as_text(self.content), 1)]

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        noted = {"role": "user", "content": to_mutable(add_label("Scratchpad noted", self.content))}
        return [{"role": self.role, "content": self.raw_llm_response or to_mutable(self.content)}, noted]


@dataclass(frozen=True, eq=False, repr=False)
class SummaryStep(_ContentStep):
    """A summary in the place of the steps whose ids it `covers`."""

    type: ClassVar[str] = "summary"
    content_field: ClassVar[str] = "summary"
    summary: Content
    covers: Sequence[str] = ()

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.covers, (list, tuple)) or not all(isinstance(id, str) for id in self.covers):
            raise StepError(f"covers must be a list of ids, not {describe_type(self.covers)}")
        vars(self)["covers"] = tuple(self.covers)


@dataclass(frozen=True, eq=False, repr=False)
class FinalAnswerStep(_ContentStep):
    """The answer that ended a task: a milestone for recall; no message is sent for it.

    `output` is a text, a list of content parts, or any other JSON value.
    """

    type: ClassVar[str] = "final_answer"
    is_sent: ClassVar[bool] = False
    content_field: ClassVar[str] = "output"
    output: Any

    def _check(self) -> None:
        if self.output is None:
            raise StepError("FinalAnswerStep.output must be an answer, not None")
        vars(self)["output"] = freeze(self.output)

    @property
    def _said(self) -> Content:
        try:
            return check_content(self.output, "output") or ""
        except StepError:  # a number, a mapping
            return to_json(self.output)

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        return []


@dataclass(frozen=True, eq=False, repr=False)
class MessageStep(Step):
    """One chat message: a person's line, an assistant's, or a tool result that came later than its call."""

    type: ClassVar[str] = "message"
    _texts: ClassVar[tuple[str, ...]] = ("tool_call_id",)
    _contents: ClassVar[tuple[str, ...]] = ("content",)
    role: str
    content: Content | None = None
    tool_call_id: str | None = None

    def _check(self) -> None:
        if self.role not in ROLES:
            raise StepError(f"role must be one of {', '.join(ROLES)}, not {describe_type(self.role)}")
        if self.role == "tool" and not isinstance(self.tool_call_id, str):
            raise StepError("a tool message needs the tool_call_id of the call that it answers")

    def _parts(self) -> Iterable[Part]:
        kind = {"tool": "observation", "function": "observation", "assistant": "reply"}.get(self.role, "message")
        return [Part(kind, as_text(self.content))]

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        if summary_mode and self.role in ("system", "developer"):
            return []
        if style == "observation" and self.role in ("tool", "function"):
            return [{"role": "user", "content": to_mutable(add_label("Observation", self.content))}]
        message: Message = {"role": self.role, "content": to_mutable(self.content)}
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return [message]

    def _map_text(self, change: TextChange) -> Self:
        return self.evolve(content=map_text(self.content, change))

    def _map_observation(self, change: TextChange) -> Self:
        return self._map_text(change) if self.role in ("tool", "function") else self


def is_milestone(step: Step) -> bool:
    """Return True for a final answer, a pinned step, or a step that is marked as a milestone in its metadata."""
    return isinstance(step, FinalAnswerStep) or step.pinned or step.metadata.get("milestone") is True


def is_undated(step: Step) -> bool:
    """Return True where a step's source has no time for it, as its metadata says."""
    return step.metadata.get(UNDATED) is True


def shown_time(step: Step, pattern: str = "%Y-%m-%d %H:%M UTC") -> str:
    """Return when a step happened, as people read it; "undated" where its source has no time for it.

    >>> shown_time(MessageStep("user", "Hello", timestamp=0))
    '1970-01-01 00:00 UTC'
    >>> shown_time(MessageStep("user", "Hello", metadata={UNDATED: True}))
    'undated'
    """
    return UNDATED if is_undated(step) else f"{step.timestamp:{pattern}}"


def corrected_ids(step: Step) -> list[str]:
    """Return the ids of the steps that a step corrects, as its metadata has them under `"corrects"`."""
    ids = step.metadata.get(CORRECTS, ())
    return [str(id) for id in ([ids] if isinstance(ids, str) else ids if isinstance(ids, Sequence) else ())]


STEP_TYPES.update(
    (kind.type, kind)
    for kind in (
        ActionStep, SystemPromptStep, TaskStep, PlanningStep, ScratchpadStep, SummaryStep, FinalAnswerStep, MessageStep,
    )
)  # fmt: skip

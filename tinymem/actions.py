"""What an agent did: tool calls (parallel ones too) or code, and what came back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from tinymem.base import Message, Part, Step, StepT, Style, TextChange, check_texts, joined, labelled
from tinymem.content import Content, as_text, checked, frozen, is_empty, map_text, to_json
from tinymem.errors import StepError
from tinymem.ids import new_id, utc_now
from tinymem.quiet import kind_of, shown

__all__ = ["ActionStep", "Signal", "ToolCall"]


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool and what came back: `observation`, `error`, both, or (not yet) neither.

    `arguments` are a mapping, or the JSON text exactly as a model wrote it.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"call_{new_id()}")
    observation: Content | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.id, str):
            raise StepError(
                f"a tool call's name and id must be strings, not {kind_of(self.name)} and {kind_of(self.id)}"
            )
        if not isinstance(self.arguments, (str, Mapping)):
            raise StepError(
                f"arguments of {self.name} must be a mapping or JSON text, not {type(self.arguments).__name__}"
            )
        check_texts(self, "error")
        object.__setattr__(self, "arguments", frozen(self.arguments))
        object.__setattr__(self, "observation", checked(self.observation, f"observation of {self.name}"))

    @property
    def answered(self) -> bool:
        """Whether a result is there."""
        return self.observation is not None or self.error is not None

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text."""
        return self.arguments if isinstance(self.arguments, str) else to_json(self.arguments)

    @property
    def text(self) -> str:
        """The call as one line of text: `name(arguments)`."""
        return f"{self.name}({self.arguments_json})"


@dataclass(frozen=True)
class Signal:
    """Something an agent wants noticed about a step, as in `Signal("uncertain", "two configs disagree")`."""

    type: str
    message: str

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or not isinstance(self.message, str):
            given = f"{shown(self.type)} and {shown(self.message)}"
            raise StepError(f"a signal's type and message must be strings, not {given}")


@dataclass(frozen=True, init=False)
class ActionStep(Step):
    """What the agent thought and did in one turn, and what came back.

    One tool call can be given in short, parallel ones as `tool_calls`; an agent that runs code gives `code`.
    `observation` and `error` are then properties over whatever was called.

    >>> step = ActionStep(thought="Test.", tool_name="bash", tool_args={"cmd": "pytest"}, observation="12 passed")
    >>> [m["role"] for m in step.to_messages()], step.observation
    (['assistant', 'tool'], '12 passed')

    Errors: StepError if `observation` is given beside several `tool_calls`, where it would be nobody's.
    """

    type: ClassVar[str] = "action"
    thought: Content | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    code: str | None = None
    output: Content | None = None
    failure: str | None = None
    signals: tuple[Signal, ...] = ()
    is_final: bool = False
    raw_response: Any = field(default=None, repr=False)

    def __init__(
        self,
        thought: Content | None = None,
        tool_calls: Iterable[ToolCall] = (),
        *,
        tool_name: str | None = None,
        tool_args: Mapping[str, Any] | str | None = None,
        observation: Content | None = None,
        error: str | None = None,
        code: str | None = None,
        signals: Iterable[Signal] = (),
        is_final: bool = False,
        raw_response: Any = None,
        id: str | None = None,
        timestamp: datetime | None = None,
        session: str | None = None,
        speaker: str | None = None,
        number: int | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] | None = None,
        overlay: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        calls = tuple(tool_calls)
        result = (checked(observation, "ActionStep.observation"), error)
        if tool_name is not None:
            if calls:
                raise StepError("give tool_name or tool_calls, not both")
            calls, result = (ToolCall(tool_name, tool_args or {}, observation=observation, error=error),), (None, None)
        elif calls and result != (None, None):
            raise StepError("with tool_calls, each call carries its own observation and error")
        self._set(
            thought=thought, tool_calls=calls, code=code, output=result[0],
            failure=result[1], signals=tuple(signals), is_final=is_final, raw_response=frozen(raw_response),
            id=new_id() if id is None else id, timestamp=timestamp or utc_now(), session=session, speaker=speaker,
            number=number, pinned=pinned, metadata=metadata or {}, overlay=overlay,
        )  # fmt: skip
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_texts(self, "code", "failure")
        for name, kind in (("tool_calls", ToolCall), ("signals", Signal)):
            if wrong := [one for one in getattr(self, name) if not isinstance(one, kind)]:
                raise StepError(f"{name} must be of type {kind.__name__}, not {shown(wrong[0])}")
        if not isinstance(self.is_final, bool):
            raise StepError(f"is_final must be a bool, not {shown(self.is_final)}")
        self._set(
            thought=checked(self.thought, "ActionStep.thought"),
            output=checked(self.output, "ActionStep.observation"),
        )

    @property
    def observation(self) -> Content | None:
        """What came back: of the code or the one call as it is, of parallel calls as one text."""
        if not self.tool_calls:
            return self.output
        if len(self.tool_calls) == 1:
            return self.tool_calls[0].observation
        found = [as_text(call.observation) for call in self.tool_calls if call.observation is not None]
        return "\n".join(found) if found else None

    @property
    def error(self) -> str | None:
        """What went wrong, of all calls as one text."""
        if not self.tool_calls:
            return self.failure
        return "\n".join(call.error for call in self.tool_calls if call.error is not None) or None

    def _parts(self) -> Iterable[Part]:
        yield Part("thought", as_text(self.thought))
        if self.code is not None:
            yield Part("code", self.code)
        for signal in self.signals:
            yield Part("signal", f"[{signal.type}] {signal.message}")
        for call in self.tool_calls:
            yield Part("call", call.text)
        answered = [call for call in self.tool_calls if call.answered]
        for at, (content, error) in enumerate(
            [(c.observation, c.error) for c in answered] or [(self.output, self.failure)]
        ):
            yield Part("observation", as_text(content), 1 + at)
            yield Part("error", error or "", 1 + at)

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        said = None if summary_mode else self.thought
        said = joined(said, *(f"[{signal.type}] {signal.message}" for signal in self.signals))
        if self.code is not None:
            said = joined(said, f"```python\n{self.code}\n```")
        if style == "tools" and self.tool_calls:
            return self._as_tools(said)
        said = joined(said, *(call.text for call in self.tool_calls))
        results = self._as_observations()
        return ([] if is_empty(said) else [{"role": "assistant", "content": frozen(said)}]) + results

    def _as_tools(self, said: Content | None) -> list[Message]:
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_json}}
            for c in self.tool_calls
        ]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": _result(call.observation, call.error)}
            for call in self.tool_calls
            if call.answered
        ]
        return [{"role": "assistant", "content": frozen(said), "tool_calls": calls}, *results]

    def _as_observations(self) -> list[Message]:
        pairs = [(c.observation, c.error) for c in self.tool_calls] or [(self.output, self.failure)]
        said: Content | None = None
        for observation, error in pairs:
            if observation is not None:
                said = joined(said, labelled("Observation", observation))
            if error is not None:
                said = joined(said, f"Error: {error}")
        return [] if said is None else [{"role": "user", "content": frozen(said)}]

    def _map_text(self: StepT, change: TextChange) -> StepT:
        assert isinstance(self, ActionStep)
        return self.evolve(
            **self._mapped(lambda content: map_text(content, change)),
            thought=map_text(self.thought, change),
            code=None if self.code is None else change(self.code),
            signals=tuple(Signal(signal.type, change(signal.message)) for signal in self.signals),
        )

    def map_observations(self, change: Callable[[Content | None], Content | None]) -> ActionStep:
        """A copy with `change` (content to content, None stays None) applied to every observation and error."""
        return self.evolve(**self._mapped(change))

    def _mapped(self, change: Callable[[Content | None], Content | None]) -> dict[str, Any]:
        def changed(error: str | None) -> str | None:
            return None if error is None else as_text(change(error))

        calls = tuple(
            dataclasses.replace(call, observation=change(call.observation), error=changed(call.error))
            for call in self.tool_calls
        )
        return {"tool_calls": calls, "output": change(self.output), "failure": changed(self.failure)}


def _result(observation: Content | None, error: str | None) -> Content | None:
    """The content of a tool message."""
    content: Content | None = frozen(observation if error is None else joined(observation, f"Error: {error}"))
    return content

"""Actions of an agent: tool calls (parallel ones too) or code, with their results."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from tinymem.errors import StepError, describe_type, safe_repr
from tinymem.steps.content import (
    NOTHING,
    Content,
    add_label,
    as_text,
    check_content,
    freeze,
    is_empty,
    join_contents,
    map_strings,
    map_text,
    shorten,
    to_json,
    to_mutable,
)
from tinymem.steps.ids import new_id, utc_now
from tinymem.steps.step import (
    CAME,
    Message,
    Part,
    Step,
    Style,
    TextChange,
    check_text,
)  # fmt: skip

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ActionStep", "Signal", "ToolCall"]

_T = TypeVar("_T")
Change: TypeAlias = Callable[[Content | None], Content | None]
ROOM = 200  # characters of names and numbers that shortened arguments may have beside their texts


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool and its result.

    Attributes:
        name: The tool's name.
        arguments: A mapping, or the JSON text exactly as a model wrote it.
        id: The call's id, which its result names.
        observation: The content that came back, if any.
        error: The error that came back instead, or beside it. While both are None the call waits for its result.

    Raises:
        StepError: A field has a value that it cannot have.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=lambda: NOTHING)
    id: str = field(default_factory=lambda: f"call_{new_id()}")
    observation: Content | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.id, str):
            raise StepError(
                f"a call's name and id must be strings, not {describe_type(self.name)} and {describe_type(self.id)}"
            )
        if not isinstance(self.arguments, (str, Mapping)):
            given = type(self.arguments).__name__
            raise StepError(f"arguments of {self.name} must be a mapping or JSON text, not {given}")
        if self.error is not None:
            check_text(self, "error", self.error)
        observation = check_content(self.observation, f"observation of {self.name}")
        vars(self).update(arguments=freeze(self.arguments), observation=observation)

    @property
    def answered(self) -> bool:
        """True once a result is there."""
        return self.observation is not None or self.error is not None

    @cached_property
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
            given = f"{safe_repr(self.type)} and {safe_repr(self.message)}"
            raise StepError(f"a signal's type and message must be strings, not {given}")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ActionStep(Step):
    r"""One turn of the agent: a thought, an act, and the result.

    >>> step = ActionStep(thought="Test.", tool_name="bash", tool_args={"cmd": "pytest"}, observation="12 passed")
    >>> [message["content"] for message in step.to_messages()]
    ['Test.\nbash({"cmd": "pytest"})', 'Observation: 12 passed']
    >>> [message["role"] for message in step.to_messages(style="tools")]
    ['assistant', 'tool']

    Args:
        thought: The model's thought, in words.
        tool_calls: One or several (parallel) calls, each with its own observation and error.
        tool_name: The name of one call, in short.
        tool_args: Its arguments.
        reasoning: Another name for `thought`.
        action: The one call, where its arguments are not known.
        observation: The result of the one call or of the code.
        error: The error that came instead, or beside it.
        code: The code that the agent ran.
        signals: Remarks of the agent about the step; searched, and not sent.
        is_final: True if the step ended the task.
        raw_llm_response: The model's answer word for word, sent in place of thought, code and calls.
        style: The form that style `"auto"` sends it in: `"observation"` for a call in short,
            else `"tools"`.

    Raises:
        StepError: The same thing is given twice, or `observation` beside `tool_calls`, where no call owns it.
    """

    type: ClassVar[str] = "action"
    _saved_as: ClassVar[Mapping[str, str]] = {"output": "observation", "failure": "error"}
    _texts: ClassVar[tuple[str, ...]] = ("code", "raw_llm_response", "failure")
    _contents: ClassVar[tuple[str, ...]] = ("thought", "output")
    thought: Content | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    code: str | None = None
    output: Content | None = None
    failure: str | None = None
    signals: tuple[Signal, ...] = ()
    is_final: bool = False
    raw_llm_response: str | None = None
    style: Style = "tools"

    def __init__(
        self,
        thought: Content | None = None,
        tool_calls: Iterable[ToolCall] = (),
        *,
        reasoning: Content | None = None,
        tool_name: str | None = None,
        tool_args: Mapping[str, Any] | str | None = None,
        action: str | None = None,
        observation: Content | None = None,
        error: str | None = None,
        code: str | None = None,
        signals: Iterable[Signal] = (),
        is_final: bool = False,
        raw_llm_response: str | None = None,
        style: Style | None = None,
        id: str | None = None,
        timestamp: datetime | float | None = None,
        session: str | None = None,
        speaker: str | None = None,
        step_number: int | None = None,
        pinned: bool = False,
        metadata: Mapping[str, Any] = NOTHING,
        overlay: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        try:
            calls, noted = tuple(tool_calls), tuple(signals)
        except TypeError:
            given = f"{describe_type(tool_calls)} and {describe_type(signals)}"
            raise StepError(f"tool_calls and signals must be lists of ToolCall and Signal, not {given}") from None
        id = new_id() if id is None else id
        if action is not None:
            tool_name, tool_args = _one_of("tool_name or action", tool_name, action), tool_args or ""
        if style is None:
            style = "tools" if tool_name is None else "observation"
        if tool_name is not None:
            check_text(self, "tool_name", tool_name)
            if not isinstance(tool_args, (str, Mapping, NoneType)):
                raise StepError(f"tool_args must be a mapping or JSON text, not {describe_type(tool_args)}")
            if calls:
                raise StepError("give tool_name or tool_calls, not both")
            calls = (
                ToolCall(tool_name, NOTHING if tool_args is None else tool_args, f"call_{id}", observation, error),
            )
            observation = error = None
        elif calls and not (observation is None and error is None):
            raise StepError("with tool_calls, each call carries its own observation and error")
        vars(self).update(  # a frozen dataclass refuses setattr
            thought=_one_of("thought or reasoning", thought, reasoning), tool_calls=calls, code=code,
            output=observation, failure=error, signals=noted, is_final=is_final,
            raw_llm_response=raw_llm_response, style=style, id=id,
            timestamp=utc_now() if timestamp is None else timestamp, session=session, speaker=speaker,
            step_number=step_number, pinned=pinned, metadata=NOTHING if metadata is None else metadata,
            overlay=overlay,
        )  # fmt: skip
        self.__post_init__()

    def _check(self) -> None:
        _check_all("tool_calls", self.tool_calls, ToolCall)
        _check_all("signals", self.signals, Signal)
        if not isinstance(self.is_final, bool):
            raise StepError(f"is_final must be a bool, not {safe_repr(self.is_final)}")
        if self.style not in ("tools", "observation"):
            raise StepError(f'style must be "tools" or "observation", not {safe_repr(self.style)}')

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Step:
        calls = [ToolCall(**record) for record in fields.pop("tool_calls", ())]
        signals = [Signal(**record) for record in fields.pop("signals", ())]
        return cls(tool_calls=calls, signals=signals, **fields)

    @property
    def reasoning(self) -> Content | None:
        """The thought, by its other name."""
        return self.thought

    @property
    def tool_name(self) -> str | None:
        """The name of the one tool that was called; None for no call, or several."""
        return self.tool_calls[0].name if len(self.tool_calls) == 1 else None

    @property
    def tool_args(self) -> Mapping[str, Any] | str | None:
        """The arguments of the one call; None for no call, or several."""
        return self.tool_calls[0].arguments if len(self.tool_calls) == 1 else None

    @property
    def action(self) -> str | None:
        """The name of the one tool, by its other name."""
        return self.tool_name

    @property
    def observation(self) -> Content | None:
        """The result: of the code or the one call as it is, of parallel calls as one text."""
        if not self.tool_calls:
            return self.output
        if len(self.tool_calls) == 1:
            return self.tool_calls[0].observation
        found = [as_text(call.observation) for call in self.tool_calls if call.observation is not None]
        return "\n".join(found) if found else None

    @property
    def error(self) -> str | None:
        """The errors of all calls, as one text."""
        if not self.tool_calls:
            return self.failure
        return "\n".join(call.error for call in self.tool_calls if call.error is not None) or None

    @property
    def results(self) -> list[ToolCall]:
        """The calls that have their results, in the order in which these came."""
        answered = [call for call in self.tool_calls if call.answered]
        came = self.overlay[0].get(CAME, ()) if self.overlay else ()
        if len(came) != len(answered):
            return answered
        return [answered[place] for place in sorted(range(len(came)), key=came.__getitem__)]

    @property
    def _form(self) -> Style:
        return self.style

    def _parts(self) -> Iterable[Part]:
        thought = as_text(self.thought)
        yield Part("thought", thought if thought.strip() else self.raw_llm_response or "")
        if self.code is not None:
            yield Part("code", self.code)
        for signal in self.signals:
            yield Part("signal", f"[{signal.type}] {signal.message}")
        for call in self.tool_calls:
            yield Part("call", call.text)
        results = [(call.observation, call.error) for call in self.results] or [(self.output, self.failure)]
        for number, (content, error) in enumerate(results, 1):
            yield Part("observation", as_text(content), number)
            yield Part("error", error or "", number)

    def _render(self, summary_mode: bool, style: Style) -> list[Message]:
        said = None if summary_mode else self.thought
        if self.code is not None:
            said = join_contents(said, f"```python\n{self.code}\n```")
        if style == "tools" and self.tool_calls:
            return self._as_tools(said)
        if self.raw_llm_response and not summary_mode:
            said = self.raw_llm_response
        else:  # a bare name says nothing beside a reasoning
            said = join_contents(said, *(c.text for c in self.tool_calls if c.arguments != "" or is_empty(said)))
        results = self._as_observations()
        return ([] if is_empty(said) else [{"role": "assistant", "content": to_mutable(said)}]) + results

    def _as_tools(self, said: Content | None) -> list[Message]:
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_json}}
            for c in self.tool_calls
        ]
        messages: list[Message] = [{"role": "assistant", "content": to_mutable(said), "tool_calls": calls}]
        for call in self.results:
            observed = call.observation
            content = observed if call.error is None else join_contents(observed, f"Error: {call.error}")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": to_mutable(content)})
        return messages

    def _as_observations(self) -> list[Message]:
        pairs = [(c.observation, c.error) for c in self.tool_calls] or [(self.output, self.failure)]
        said: Content | None = None
        for observation, error in pairs:
            if error is not None:
                said = join_contents(said, f"Error: {error}")
            if observation is not None and not (error and is_empty(observation)):
                said = join_contents(said, add_label("Observation", observation))
        return [] if said is None else [{"role": "user", "content": to_mutable(said)}]

    def _map_observation(self, change: TextChange) -> Self:
        return self.map_observations(lambda content: map_text(content, change), lambda error: error)

    def _map_text(self, change: TextChange) -> Self:
        changed = self.map_observations(lambda content: map_text(content, change))
        return changed.evolve(
            thought=map_text(self.thought, change),
            code=None if self.code is None else change(self.code),
            raw_llm_response=None if self.raw_llm_response is None else change(self.raw_llm_response),
            signals=tuple(Signal(signal.type, change(signal.message)) for signal in self.signals),
        )

    def shorten_arguments(self, max_length: int) -> ActionStep:
        """Make a copy in which no text in the arguments of its calls has over `max_length` characters."""
        calls = tuple(_with_shorter_arguments(call, max_length) for call in self.tool_calls)
        if calls == self.tool_calls:
            return self
        layers = [dict(layer) for layer in self.overlay]
        for layer in layers:
            layer["set"] = {key: value for key, value in layer.get("set", {}).items() if key != "tool_calls"}
        return self.evolve(tool_calls=calls, overlay=layers)

    def map_observations(self, change: Change, change_error: Change | None = None) -> Self:
        """Make a copy with `change` (None stays None) applied to every observation, and to errors if no other is."""

        def changed(error: str | None) -> str | None:
            return None if error is None else as_text((change_error or change)(error))

        calls = tuple(
            dataclasses.replace(call, observation=change(call.observation), error=changed(call.error))
            for call in self.tool_calls
        )
        return self.evolve(tool_calls=calls, output=change(self.output), failure=changed(self.failure))


def _with_shorter_arguments(call: ToolCall, most: int) -> ToolCall:
    """Return the call with texts of at most `most` characters in its arguments, which stay a JSON object."""
    text = call.arguments_json
    if len(text) <= most:
        return call
    try:
        read = json.loads(text) if isinstance(call.arguments, str) else to_mutable(call.arguments)
    except (ValueError, RecursionError):
        read = None
    shorter = map_strings(read, lambda inside: shorten(inside, most))
    if not isinstance(shorter, dict) or len(to_json(shorter)) > 2 * most + ROOM:
        shorter = {"input": shorten(text, most)}
    return dataclasses.replace(call, arguments=to_json(shorter) if isinstance(call.arguments, str) else shorter)


def _check_all(name: str, values: Iterable[object], kind: type) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise StepError(f"{name} must be of type {kind.__name__}, not {safe_repr(value)}")


def _one_of(names: str, first: _T | None, second: _T | None) -> _T | None:
    if first is not None and second is not None:
        raise StepError(f"give {names}, not both")
    return second if first is None else first

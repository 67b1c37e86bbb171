"""ExecutionResult, and steps of a task: from plain dicts, and with the result kept in them without loss."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tinymem.actions import ActionStep
from tinymem.content import Content, as_text
from tinymem.errors import FormatError, InputError, StepError
from tinymem.quiet import kind_of, shown
from tinymem.shown import short_repr
from tinymem.values import decode, encode

__all__ = ["ExecutionResult", "as_action", "execution_result", "iteration_of"]

RECORD = "execution_result"  # the metadata that keep what an ActionStep has no field for
ITERATION = "iteration"
FIELDS = ("number", "thought", "action", "result")
RESULT_SHOWN = 100_000  # characters of a result that is no text


class _Shown(str):
    """A repr that was shortened already."""

    __slots__ = ()


@dataclass(frozen=True)
class ExecutionResult:
    """What came of an action: how running it went, how the task stands, and what is next.

    `result` is a text, or any value that `AgentMemory.dump` could keep; the step shows it as its observation, and
    `error` as its error. `execution_time` is in seconds. Of `local_variables` (name to value) only the names and the
    first 100 characters of each repr are kept.

    >>> ExecutionResult(result="12 passed", execution_time=0.8, local_variables={"n": 12}).local_variables
    {'n': '12'}

    Raises StepError, with the name of the field, for a value that is not of its kind.
    """

    execution_status: str = "success"
    task_status: str = "in_progress"
    result: Any = None
    error: str | None = None
    next_step: str | None = None
    execution_time: float | None = None
    local_variables: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("execution_status", "task_status"):
            _text_of(f"ExecutionResult.{name}", getattr(self, name))
        for name in ("error", "next_step"):
            _text_or_none(f"ExecutionResult.{name}", getattr(self, name))
        _seconds(self.execution_time)
        object.__setattr__(self, "result", _copy(self.result))
        object.__setattr__(self, "local_variables", _shown(self.local_variables))

    def to_dict(self) -> dict[str, Any]:
        """The fields that are not at their defaults, as JSON values."""
        defaults = {f.name: f.default for f in dataclasses.fields(self)} | {"local_variables": {}}
        plain = {name: getattr(self, name) for name in defaults}
        plain |= {"result": encode(self.result), "local_variables": dict(self.local_variables)}
        return {name: value for name, value in plain.items() if value != defaults[name]}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> ExecutionResult:
        """The result that `to_dict` wrote. Raises StepError, with the name of the field that is wrong."""
        fields = dict(_known("a result", record, [f.name for f in dataclasses.fields(ExecutionResult)]))
        try:
            fields["result"] = decode(fields.get("result"))
        except FormatError as error:
            raise StepError(f"result: {error}") from error
        reprs = fields.get("local_variables", {})
        if not isinstance(reprs, Mapping) or not all(isinstance(text, str) for text in reprs.values()):
            raise StepError(f"local_variables must be a mapping of names to reprs, not {kind_of(reprs)}")
        return ExecutionResult(**{**fields, "local_variables": {name: _Shown(text) for name, text in reprs.items()}})

    @property
    def text(self) -> str | None:
        """The result as the observation that a step shows: itself if it is a text, else its repr."""
        if self.result is None or isinstance(self.result, str):
            return self.result
        return short_repr(self.result, RESULT_SHOWN)


def execution_result(step: ActionStep) -> ExecutionResult:
    """The result that `step` keeps; of a step that knows none, what its observation and error say.

    >>> execution_result(ActionStep(code="1 / 0", error="division by zero")).execution_status
    'error'

    Raises StepError if what it keeps is malformed.
    """
    kept = step.metadata.get(RECORD, {"execution_status": "error"} if step.error is not None else {})
    if not isinstance(kept, Mapping):
        raise StepError(f"metadata.{RECORD} of step {step.id} must be a mapping, not {kind_of(kept)}")
    return ExecutionResult.from_dict({"result": encode(_plain(step.observation)), "error": step.error, **kept})


def as_action(step: ActionStep | Mapping[str, Any]) -> tuple[ActionStep, int | None]:
    """`step` as an ActionStep, made of a dict as `WorkingMemory.add` describes it; and the number that a dict gives."""
    if isinstance(step, ActionStep):
        execution_result(step)  # so that what is malformed is refused when it comes, not when it is shown
        return step, None
    given = _known("a step", step, FIELDS)
    if all(given.get(name) is None for name in FIELDS[1:]):
        raise StepError("a step needs one of thought, action and result, and this has none")
    number = None if given.get("number") is None else _number(given["number"])
    result = _result(given.get("result"))
    acted = ActionStep(_text_or_none("thought", given.get("thought")), **_action(given.get("action"), result))
    return acted.evolve(metadata=_record(acted, result)), number


def iteration_of(step: ActionStep) -> int | None:
    """Which iteration of its task `step` is, from 1; None for one that was never added to a WorkingMemory."""
    given = step.metadata.get(ITERATION)
    return given if isinstance(given, int) else None


def _action(action: object, result: ExecutionResult | None) -> dict[str, Any]:
    """The arguments of an ActionStep for an action (code, or a call of a tool) and what came of it."""
    came = {} if result is None else {"observation": result.text, "error": result.error}
    if not isinstance(action, Mapping):
        return {"code": _text_or_none("action", action), **came}
    call = _known("action", action, ("tool", "arguments"))
    arguments = call.get("arguments", {})
    if not isinstance(arguments, (str, Mapping)):
        raise StepError(f"action.arguments must be a mapping or JSON text, not {type(arguments).__name__}")
    if came and came["observation"] is came["error"] is None:
        came["observation"] = ""  # or the call would count as one that nobody has answered
    return {"tool_name": _text_of("action.tool", call.get("tool")), "tool_args": arguments, **came}


def _record(step: ActionStep, result: ExecutionResult | None) -> dict[str, Any]:
    """The metadata with what `step` itself does not say about its result."""
    if result is None:
        return {}
    said = {"result": encode(_plain(step.observation)), "error": step.error}
    told = {"result": encode(result.result), "error": result.error}
    differing = {name: value for name, value in told.items() if value != said[name]}
    return {RECORD: {**{k: v for k, v in result.to_dict().items() if k not in told}, **differing}}


def _plain(observation: Content | None) -> Any:
    """An observation as a value: texts as they are, parts by their text, as no content need be JSON."""
    return observation if observation is None else as_text(observation)


def _result(value: object) -> ExecutionResult | None:
    if value is None or isinstance(value, ExecutionResult):
        return value
    if isinstance(value, str):
        return ExecutionResult(result=value)
    if not isinstance(value, Mapping):
        raise StepError(
            f"result must be an ExecutionResult, a dict of its fields or a text, not {type(value).__name__}"
        )
    return ExecutionResult(**_known("result", value, [f.name for f in dataclasses.fields(ExecutionResult)]))


def _known(name: str, given: object, fields: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise StepError(f"{name} must be a mapping, not {type(given).__name__}")
    if unknown := [key for key in given if key not in fields]:
        raise StepError(f"{name} has no field {shown(unknown[0])}; its fields are {', '.join(fields)}")
    return given


def _text_of(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise StepError(f"{name} must be a string, not {type(value).__name__}")
    return value


def _text_or_none(name: str, value: Any) -> str | None:
    return None if value is None else _text_of(name, value)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StepError(f"number must be a whole number of 1 or more, not {shown(value)}")
    return value


def _seconds(value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise StepError(f"ExecutionResult.execution_time must be seconds of 0 or more, or None, not {shown(value)}")


def _copy(value: Any) -> Any:
    """A private copy, so that the result cannot be changed from outside."""
    try:
        return decode(encode(value))
    except InputError as error:
        raise StepError(f"ExecutionResult.result: {error}; give its repr instead") from error


def _shown(values: Any) -> dict[str, str]:
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise StepError(f"ExecutionResult.local_variables must be a mapping of names to values, not {kind_of(values)}")
    return {name: value if isinstance(value, _Shown) else _Shown(short_repr(value)) for name, value in values.items()}

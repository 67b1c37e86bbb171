"""ExecutionResult, and the steps of a task: made from plain dicts, their results kept in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tinymem.errors import InputError, StepError, describe_type, safe_repr
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int, check_number, check_str
from tinymem.steps.content import Content, as_text
from tinymem.steps.display import SHOWN, short_repr
from tinymem.steps.values import to_plain

__all__ = ["ExecutionResult", "as_action", "execution_result", "iteration_of"]

RECORD = "execution_result"  # the metadata for what an ActionStep has no field for
ITERATION = "iteration"
FIELDS = ("step_number", "thought", "action", "result")
REPRS = "local_reprs"  # in the record of a result: local variables of which only the repr is kept
RESULT_SHOWN = 100_000  # characters of the repr of a result
KEPT = 10_000  # characters of the repr of a local variable whose value is kept


@contextmanager
def _errors_of_steps() -> Iterator[None]:
    """Raise errors of arguments as errors of the step that they belong to."""
    try:
        yield
    except StepError:
        raise
    except InputError as error:
        raise StepError(str(error)) from error


class _Repr(str):
    """The short repr of a local variable, in place of its value."""

    __slots__ = ()


@dataclass(frozen=True)
class ExecutionResult:
    """The result of an action: how the execution went, the state of the task, and the next step.

    `result` is a text or another value; the step has it as its observation, and `error` as its error. `execution_time`
    is in seconds. `local_variables` and `more` hold values by name. Values that JSON holds are copied (a tuple as a
    list); any other is replaced by the first 100 characters of its repr, a `result` by the first 100,000. So are
    `local_variables` whose repr has over 10,000 characters.

    >>> ran = ExecutionResult(result="12 passed", execution_time=0.8, local_variables={"n": 12, "run": print})
    >>> ran.local_variables
    {'n': 12, 'run': '<built-in function print>'}

    Raises:
        StepError: A field has a value of another kind; the error names it.
    """

    execution_status: str = "success"
    task_status: str = "inprogress"
    result: Any = None
    error: str | None = None
    next_step: str | None = None
    execution_time: float | None = None
    local_variables: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @_errors_of_steps()
    def __post_init__(self) -> None:
        for name in ("execution_status", "task_status"):
            check_str(f"ExecutionResult.{name}", getattr(self, name))
        for name in ("error", "next_step"):
            _text_or_none(f"ExecutionResult.{name}", getattr(self, name))
        if self.execution_time is not None:
            check_number("ExecutionResult.execution_time", self.execution_time)
        _check_names("local_variables", self.local_variables)
        _check_names("more", self.more)
        object.__setattr__(self, "result", _plain_or_repr(self.result, RESULT_SHOWN))
        object.__setattr__(self, "local_variables", _kept_variables(self.local_variables))
        object.__setattr__(self, "more", {name: _plain_or_repr(value) for name, value in self.more.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not at their defaults, as JSON values."""
        defaults: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(self)}
        defaults |= {"local_variables": {}, "more": {}, REPRS: {}}
        reprs = {name: str(value) for name, value in self.local_variables.items() if isinstance(value, _Repr)}
        values = {name: value for name, value in self.local_variables.items() if name not in reprs}
        plain = {name: getattr(self, name, None) for name in defaults}
        plain |= {"local_variables": values, REPRS: reprs}
        return {name: value for name, value in plain.items() if value != defaults[name]}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> ExecutionResult:
        """Read what `to_dict` wrote. Raises StepError, with the name of the field that is wrong."""
        fields = dict(_check_fields("a result", record, [*RESULT_FIELDS, REPRS]))
        reprs = fields.pop(REPRS, {})
        if not isinstance(reprs, Mapping) or not all(isinstance(text, str) for text in reprs.values()):
            raise StepError(f"{REPRS} must be a mapping of names to reprs, not {describe_type(reprs)}")
        values = fields.get("local_variables", {})
        _check_names("local_variables", values)
        fields["local_variables"] = {**values, **{name: _Repr(text) for name, text in reprs.items()}}
        return ExecutionResult(**fields)

    @property
    def text(self) -> str | None:
        """The result as the observation of a step: a text as it is, any other value as its repr."""
        if self.result is None or isinstance(self.result, str):
            return self.result
        return short_repr(self.result, RESULT_SHOWN)

    @property
    def local_reprs(self) -> dict[str, str]:
        """The local variables as name to the first 100 characters of the repr."""
        kept = self.local_variables.items()
        return {name: str(value) if isinstance(value, _Repr) else short_repr(value) for name, value in kept}


RESULT_FIELDS = tuple(one.name for one in dataclasses.fields(ExecutionResult))


def execution_result(step: ActionStep) -> ExecutionResult:
    """Return the result that `step` keeps; for a step without one, make it of its observation and error.

    >>> execution_result(ActionStep(code="1 / 0", error="division by zero")).execution_status
    'error'

    Raises:
        StepError: What the step keeps is malformed.
    """
    if not isinstance(step, ActionStep):
        raise InputError(f"step must be an ActionStep, not {describe_type(step)}")
    kept = step.metadata.get(RECORD, {"execution_status": "error"} if step.error is not None else {})
    if not isinstance(kept, Mapping):
        raise StepError(f"metadata.{RECORD} of step {step.id} must be a mapping, not {describe_type(kept)}")
    return ExecutionResult.from_dict({"result": _said(step.observation), "error": step.error, **kept})


@_errors_of_steps()
def as_action(step: ActionStep | Mapping[str, Any]) -> tuple[ActionStep, int | None]:
    """Make an ActionStep of what `WorkingMemory.add` takes; return the step number of a dict, too."""
    if isinstance(step, ActionStep):
        execution_result(step)  # refuses what is malformed now, not when it is shown
        return step, None
    given = _check_fields("a step", step, FIELDS)
    if all(given.get(name) is None for name in FIELDS[1:]):
        raise StepError("a step needs one of thought, action and result, and this has none")
    number = None if given.get("step_number") is None else check_non_negative_int("step_number", given["step_number"])
    result = _result(given.get("result"))
    acted = ActionStep(_text_or_none("thought", given.get("thought")), **_action(given.get("action"), result))
    return acted.evolve(metadata=_record_of(acted, result)), number


def iteration_of(step: ActionStep) -> int | None:
    """Return the number of `step` in its task; None for a step that was never added to a WorkingMemory."""
    given = step.metadata.get(ITERATION)
    return given if isinstance(given, int) else None


def _action(action: object, result: ExecutionResult | None) -> dict[str, Any]:
    """Return the arguments of an ActionStep for an action (code, or a call of a tool) and its result."""
    came = {} if result is None else {"observation": result.text, "error": result.error}
    if not isinstance(action, Mapping):
        return {"code": _text_or_none("action", action), **came}
    call = _check_fields("action", action, ("tool", "arguments"))
    arguments = call.get("arguments", {})
    if not isinstance(arguments, (str, Mapping)):
        raise StepError(f"action.arguments must be a mapping or JSON text, not {type(arguments).__name__}")
    if came and came["observation"] is came["error"] is None:
        came["observation"] = ""  # or the call would count as unanswered
    tool: Any = call.get("tool")
    check_str("action.tool", tool)
    return {"tool_name": tool, "tool_args": arguments, **came}


def _record_of(step: ActionStep, result: ExecutionResult | None) -> dict[str, Any]:
    """Return metadata with the part of the result that `step` itself does not have."""
    if result is None:
        return {}
    said = {"result": _said(step.observation), "error": step.error}
    given = {"result": result.result, "error": result.error}
    differing = {name: value for name, value in given.items() if value != said[name]}
    return {RECORD: {**{k: v for k, v in result.to_dict().items() if k not in given}, **differing}}


def _said(observation: Content | None) -> str | None:
    """Return an observation as a text, since content need not be JSON."""
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
    _check_names("result", value)
    given = {name: it for name, it in value.items() if name in RESULT_FIELDS and it is not None}
    _check_names("more", given.get("more", {}))
    more = {name: it for name, it in value.items() if name not in RESULT_FIELDS}
    return ExecutionResult(**{**given, "more": {**given.get("more", {}), **more}})


def _check_fields(name: str, given: object, fields: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise StepError(f"{name} must be a mapping, not {type(given).__name__}")
    if unknown := [key for key in given if key not in fields]:
        raise StepError(f"{name} has no field {safe_repr(unknown[0])}; its fields are {', '.join(fields)}")
    return given


def _text_or_none(name: str, value: Any) -> str | None:
    if value is not None:
        check_str(name, value)
    text: str | None = value
    return text


def _plain_or_repr(value: Any, shown: int = SHOWN) -> Any:
    """Copy a value, so that the result cannot be changed from outside; what JSON does not hold becomes its repr."""
    try:
        return to_plain(value)
    except InputError:
        return short_repr(value, shown)


def _check_names(name: str, values: Any) -> None:
    """Raise StepError unless `values` maps names to values."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise StepError(f"ExecutionResult.{name} must be a mapping of names to values, not {describe_type(values)}")


def _kept_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the values that can be kept; after them come the short reprs of the others."""
    kept = {name: _value_or_repr(value) for name, value in variables.items()}
    return dict(sorted(kept.items(), key=lambda item: isinstance(item[1], _Repr)))


def _value_or_repr(value: Any) -> Any:
    if isinstance(value, _Repr):
        return value
    if len(short_repr(value, KEPT)) <= KEPT:  # reads no more than that of a long value
        with suppress(InputError):
            return to_plain(value)
    return _Repr(short_repr(value))

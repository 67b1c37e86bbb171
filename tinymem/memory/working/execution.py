"""ExecutionResult, and the steps of a task: made from plain dicts, their results kept in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tinymem.errors import InputError, describe_type, safe_repr
from tinymem.steps.actions import ActionStep
from tinymem.steps.checks import check_non_negative_int, check_number, check_str
from tinymem.steps.content import as_text
from tinymem.steps.display import SHOWN, short_repr
from tinymem.steps.values import to_plain

__all__ = ["ExecutionResult", "as_action", "execution_result", "iteration_of"]

RECORD = "execution_result"  # the metadata for what an ActionStep has no field for
ITERATION = "iteration"
STEP_FIELDS = ("step_number", "thought", "action", "result")
RESULT_SHOWN = 100_000  # characters of the repr of a result
MOST_KEPT = 10_000  # characters of the repr of a local variable whose value is kept


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
        InputError: A field has a value of another kind; the error names it.
    """

    execution_status: str = "success"
    task_status: str = "inprogress"
    result: Any = None
    error: str | None = None
    next_step: str | None = None
    execution_time: float | None = None
    local_variables: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("execution_status", "task_status", "error", "next_step"):
            if (value := getattr(self, name)) is not None or name.endswith("_status"):
                check_str(f"ExecutionResult.{name}", value)
        if self.execution_time is not None:
            check_number("ExecutionResult.execution_time", self.execution_time)
        variables = _check_names("local_variables", self.local_variables).items()
        more = _check_names("more", self.more).items()
        vars(self).update(
            result=_plain_or_repr(self.result, RESULT_SHOWN),
            local_variables={name: _kept_value(value) for name, value in variables},
            more={name: _plain_or_repr(value) for name, value in more},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not at their defaults, as JSON values."""
        return {name: value for name, value in vars(self).items() if value != _DEFAULTS[name]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ExecutionResult:
        """Read a dict of fields; None leaves a field at its default, and other names are kept under `more`.

        Raises InputError, with the name of the field that is wrong.
        """
        _check_names("result", record)
        given = {name: value for name, value in record.items() if name in _DEFAULTS and value is not None}
        others = {name: value for name, value in record.items() if name not in _DEFAULTS}
        return cls(**{**given, "more": {**_check_names("more", given.get("more", {})), **others}})

    @property
    def text(self) -> str | None:
        """The result as the observation of a step: a text as it is, any other value as its repr."""
        if self.result is None or isinstance(self.result, str):
            return self.result
        return short_repr(self.result, RESULT_SHOWN)


def execution_result(step: ActionStep) -> ExecutionResult:
    """Return the result that `step` keeps; for a step without one, make it of its observation and error.

    >>> execution_result(ActionStep(code="1 / 0", error="division by zero")).execution_status
    'error'

    Raises:
        InputError: What the step keeps is malformed.
    """
    if not isinstance(step, ActionStep):
        raise InputError(f"step must be an ActionStep, not {describe_type(step)}")
    kept = step.metadata.get(RECORD, {"execution_status": "error"} if step.error is not None else {})
    if not isinstance(kept, Mapping):
        raise InputError(f"metadata.{RECORD} of step {step.id} must be a mapping, not {describe_type(kept)}")
    return ExecutionResult.from_dict({**_outcome_of(step), **kept})


def as_action(step: ActionStep | Mapping[str, Any]) -> tuple[ActionStep, int | None]:
    """Make an ActionStep of what `WorkingMemory.add` takes; return the step number of a dict, too."""
    if isinstance(step, ActionStep):
        execution_result(step)  # refuses what is malformed now, not when it is shown
        return step, None
    given = _check_fields("a step", step, STEP_FIELDS)
    thought, action, came = map(given.get, STEP_FIELDS[1:])
    if thought is action is came is None:
        raise InputError("a step needs one of thought, action and result, and this has none")
    number = given.get("step_number")
    if number is not None:
        check_non_negative_int("step_number", number)
    result = _result_of(came)
    acted = ActionStep(_check_text("thought", thought), **_action(action, result))
    if result is None:
        return acted, number
    known = {**_DEFAULTS, **_outcome_of(acted)}
    record = {name: value for name, value in vars(result).items() if value != known[name]}
    return acted.evolve(metadata={RECORD: record}), number


def iteration_of(step: ActionStep) -> int | None:
    """Return the number of `step` in its task; None for a step that was never added to a WorkingMemory."""
    given = step.metadata.get(ITERATION)
    return given if isinstance(given, int) else None


def _action(action: object, result: ExecutionResult | None) -> dict[str, Any]:
    """Return the arguments of an ActionStep for an action (code, or a call of a tool) and its result."""
    came = {} if result is None else {"observation": result.text, "error": result.error}
    if not isinstance(action, Mapping):
        return {"code": _check_text("action", action), **came}
    call = _check_fields("action", action, ("tool", "arguments"))
    arguments = call.get("arguments", {})
    if not isinstance(arguments, (str, Mapping)):
        raise InputError(f"action.arguments must be a mapping or JSON text, not {type(arguments).__name__}")
    if came and came["observation"] is came["error"] is None:
        came["observation"] = ""  # or the call would count as unanswered
    tool: Any = call.get("tool")
    return {"tool_name": check_str("action.tool", tool), "tool_args": arguments, **came}


def _outcome_of(step: ActionStep) -> dict[str, Any]:
    """Return what a step itself says of its result."""
    observation = step.observation
    return {"result": observation if observation is None else as_text(observation), "error": step.error}


def _result_of(value: object) -> ExecutionResult | None:
    if isinstance(value, str):
        value = {"result": value}
    if isinstance(value, Mapping):
        return ExecutionResult.from_dict(value)
    if value is None or isinstance(value, ExecutionResult):
        return value
    raise InputError(f"result must be an ExecutionResult, a dict of its fields or a text, not {type(value).__name__}")


def _check_fields(name: str, given: object, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must be a mapping, not {type(given).__name__}")
    for key in given:
        if key not in allowed:
            raise InputError(f"{name} has no field {safe_repr(key)}; its fields are {', '.join(allowed)}")
    return given


def _check_text(name: str, value: Any) -> str | None:
    return None if value is None else check_str(name, value)


def _check_names(name: str, values: Any) -> Mapping[str, Any]:
    """Raise InputError unless `values` maps names to values."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InputError(f"ExecutionResult.{name} must be a mapping of names to values, not {describe_type(values)}")
    return values


def _plain_or_repr(value: Any, shown: int = SHOWN) -> Any:
    """Copy a value, so that the result cannot be changed from outside; what JSON does not hold becomes its repr."""
    try:
        return to_plain(value)
    except InputError:
        return short_repr(value, shown)


def _kept_value(variable: Any) -> Any:
    is_long = len(short_repr(variable, MOST_KEPT)) > MOST_KEPT  # reads no more than that of a long value
    return short_repr(variable) if is_long else _plain_or_repr(variable)


_DEFAULTS = vars(ExecutionResult())

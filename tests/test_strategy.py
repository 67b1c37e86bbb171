"""What a window is, whatever strategy made it."""

from __future__ import annotations

from typing import Any

import pytest

from tinymem.errors import InputError
from tinymem.steps import ActionStep, MessageStep, Step, TaskStep, ToolCall
from tinymem.strategy import check_window, critical

CALL = ActionStep("x", [ToolCall("f", id="1")], number=1)
WINDOW: list[Step] = [TaskStep("t", number=0), CALL, MessageStep("tool", "ok", "1", number=2), MessageStep("user", "a")]


@pytest.mark.parametrize(
    ("after", "says_what"),
    [
        (None, "must return a list of steps"),
        ("steps", "must return a list of steps"),
        ([*WINDOW, "text"], "must return a list of steps"),
        (iter(WINDOW), "must return a list of steps"),
        ([*WINDOW, MessageStep("user", "new")], "was not in the window"),
        ([WINDOW[0], WINDOW[0]], "twice, or after"),
        ([WINDOW[3], WINDOW[0]], "twice, or after"),
        ([WINDOW[0], WINDOW[1]], "split a call from its results"),
        ([WINDOW[2]], "split a call from its results"),
        ([WINDOW[0].evolve(number=7)], "changed more of step"),
        ([CALL.evolve(tool_calls=()), WINDOW[2]], "changed more of step"),
        ([TaskStep("t", id=WINDOW[3].id)], "changed more of step"),
    ],
)
def test_what_is_no_window_is_refused_and_why(after: Any, says_what: str) -> None:
    with pytest.raises(InputError, match=says_what):
        check_window(WINDOW, after)


@pytest.mark.parametrize(
    "after", [[], WINDOW, WINDOW[:1], WINDOW[1:3], tuple(WINDOW), [step.truncate(1) for step in WINDOW]]
)
def test_what_is_a_window_is_accepted(after: Any) -> None:
    check_window(WINDOW, after)


def test_critical_refuses_an_unknown_choice() -> None:
    with pytest.raises(InputError, match="tasks must be one of"):
        critical([], tasks="none")  # type: ignore[arg-type]

"""Old tool output, cut by how many actions came since and by age."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from strategies import IMAGE, THOROUGH, histories

from tinymem.steps.types import ActionStep, MessageStep, Step, ToolCall
from tinymem.window.strategies import prune_old_observations

NOON = datetime(2025, 3, 1, 12, tzinfo=timezone.utc)


def texts(steps: list[Step]) -> list[str]:
    return [step.text for step in steps]


def action(minutes: float, length: int = 900) -> ActionStep:
    return ActionStep(tool_name="ls", observation="x" * length, timestamp=NOON + timedelta(minutes=minutes))


def lengths(steps: list[Step]) -> list[int]:
    return [len(str(step.observation)) for step in steps if isinstance(step, ActionStep)]


@THOROUGH
@given(histories(), st.integers(0, 4), st.integers(0, 30))
def test_only_old_results_are_shortened_and_nothing_is_taken_out(steps: list[Step], n: int, length: int) -> None:
    after = prune_old_observations(keep_last_n=n, max_length=length)(steps)
    assert [step.id for step in after] == [step.id for step in steps]
    actions = [at for at, step in enumerate(steps) if isinstance(step, ActionStep)]
    border = actions[-n] if 0 < n <= len(actions) else 0 if n else len(steps)
    for at, (old, new) in enumerate(zip(steps, after, strict=True)):
        if at >= border or old.pinned:
            assert new is old
        elif isinstance(old, ActionStep) and isinstance(new, ActionStep):
            assert (new.thought, new.code, new.signals) == (old.thought, old.code, old.signals)
            assert [(c.id, c.name, c.arguments) for c in new.tool_calls] == [
                (c.id, c.name, c.arguments) for c in old.tool_calls
            ]
            for content in (new.output, new.failure, *(r for c in new.tool_calls for r in (c.observation, c.error))):
                parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content or ()]
                assert all(len(text) <= length for text in parts)
        elif not (isinstance(old, MessageStep) and old.role == "tool"):
            assert new is old


def test_images_in_old_observations_stay() -> None:
    step = ActionStep(tool_name="look", observation=[{"type": "text", "text": "x" * 500}, IMAGE])
    (short,) = prune_old_observations(keep_last_n=0, max_length=50)([step])
    assert isinstance(short, ActionStep) and short.observation is not None
    assert len(short.observation[0]["text"]) == 50 and short.observation[1] == IMAGE  # type: ignore[index]


def test_an_old_error_keeps_its_end() -> None:
    trace = "Traceback (most recent call last):\n" + '  File "shed.py", line 7, in feed\n' * 90 + "KeyError: 'oats'\n"
    steps: list[Step] = [ActionStep("x", [ToolCall("f", error=trace)]), ActionStep(code="feed()", error=trace)]
    for step in prune_old_observations(keep_last_n=0, max_length=100)(steps):
        assert isinstance(step, ActionStep)
        error = step.failure or step.tool_calls[0].error or ""
        assert error.endswith("KeyError: 'oats'") and len(error) == 100


def test_late_tool_results_are_shortened_too() -> None:
    steps = [
        ActionStep("x", [ToolCall("f", id="1")]),
        MessageStep("tool", "r" * 200, "1"),
        MessageStep("user", "u" * 200),
    ]
    after = prune_old_observations(keep_last_n=0, max_length=60)(steps)
    assert [len(text) for text in texts(after[1:])] == [60, 200]
    assert prune_old_observations(keep_last_n=1, max_length=60)(steps) == steps


# -- age


def test_exactly_max_age_is_not_old_yet() -> None:
    steps: list[Step] = [action(0)]
    for seconds, length in ((60, 900), (59.999, 100), (0, 100)):
        prune = prune_old_observations(max_length=100, max_age_seconds=seconds, now=NOON + timedelta(minutes=1))
        assert lengths(prune(steps)) == [length]


def test_a_clock_is_asked_at_every_pruning() -> None:
    times = iter([NOON, NOON + timedelta(hours=2)])
    prune = prune_old_observations(max_length=100, max_age_seconds=3600, now=lambda: next(times))
    steps: list[Step] = [action(0)]
    assert [lengths(prune(steps)), lengths(prune(steps))] == [[900], [100]]


def test_by_default_age_is_told_by_the_wall_clock() -> None:
    steps: list[Step] = [action(0), ActionStep(tool_name="ls", observation="y" * 900)]
    assert lengths(prune_old_observations(max_length=100, max_age_seconds=3600)(steps)) == [100, 900]


@THOROUGH
@given(histories(), st.integers(0, 4), st.integers(-99, 99))
def test_age_only_adds_to_what_is_cut(steps: list[Step], n: int, seconds: int) -> None:
    steps = [step.evolve(timestamp=NOON + timedelta(seconds=7 * at)) for at, step in enumerate(steps)]
    now = NOON + timedelta(seconds=seconds)
    plain = prune_old_observations(keep_last_n=n, max_length=20)(steps)
    aged = prune_old_observations(keep_last_n=n, max_length=20, max_age_seconds=30, now=now)(steps)
    everything = prune_old_observations(keep_last_n=0, max_length=20)(steps)
    for step, one, two, most in zip(steps, plain, aged, everything, strict=True):
        old = now - step.timestamp > timedelta(seconds=30)
        assert two == (most if old else one)


# -- batches


def test_in_batches_nothing_changes_until_a_batch_is_old() -> None:
    prune = prune_old_observations(keep_last_n=1, max_length=100, batch=3)
    window: list[Step] = []
    cut = []
    for _ in range(8):
        window = prune([*window, action(0)])
        cut.append(lengths(window).count(100))
    assert cut == [0, 0, 0, 3, 3, 3, 6, 6]

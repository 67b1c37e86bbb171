"""The newest steps that fit an exact token budget, in order, as one text that says how many came before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinymem.messages.fitting import longest
from tinymem.protocols import TokenCounter
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import shorten

__all__ = ["history"]


def history(
    steps: Sequence[ActionStep], most: int | None, max_tokens: int, render: Callable[[ActionStep], str],
    counter: TokenCounter,
) -> str:  # fmt: skip
    """Render the newest of `steps`, at most `most` of them (None: all), in at most `max_tokens`.

    A newest step that is too long alone is shortened; "" when nothing of it fits.
    """
    considered = steps if most is None else steps[max(0, len(steps) - most) :]
    shown = _newest(considered, max_tokens, render, counter)
    while shown:
        text = _joined(shown, len(steps) - len(shown))
        if counter.count(text) <= max_tokens:
            return text
        if len(shown) == 1:
            return _shortened(steps[-1], shown[0], len(steps) - 1, max_tokens, render, counter)
        del shown[0]
    return ""


def _newest(
    steps: Sequence[ActionStep], room: int, render: Callable[[ActionStep], str], counter: TokenCounter
) -> list[str]:
    """Render the newest of `steps`, in order: all that fit, and at most one more."""
    shown: list[str] = []
    for step in reversed(steps):
        shown.append(render(step))
        room -= counter.count(shown[-1])
        if room < 0:
            break
    return shown[::-1]


def _shortened(
    step: ActionStep, text: str, before: int, room: int, render: Callable[[ActionStep], str], counter: TokenCounter
) -> str:
    """Shorten the texts of the step, or else its rendered `text`; keep the note of what came before if it fits."""
    attempts: list[Callable[[int], str]] = [
        lambda length: _joined([render(step.shortened(length))], before),
        lambda length: _joined([shorten(text, length)], before),
        lambda length: shorten(text, length),
    ]
    found = (longest(make, room, counter) for make in attempts)
    return next(filter(None, found), "")


def _joined(texts: Sequence[str], before: int) -> str:
    note = [f"({before} earlier steps are not shown)"] if before else []
    return "\n\n".join([*note, *texts])

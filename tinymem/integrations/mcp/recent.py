"""The newest steps of a memory as text, as many as fit a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.fitting import longest
from tinymem.recall.render import block, header, one_line, quoted, without_echoes
from tinymem.steps.content import clean
from tinymem.steps.step import Step

__all__ = ["list_steps", "newest_steps"]

LOOKED_AT, LISTED = 2_000, 200  # steps that are read, and that are shown, at most
SHARE = 4  # of the budget, one excerpt gets at most one part of so many
LONGEST_HEAD = 40  # characters of a speaker's name


def newest_steps(
    memory: HierarchicalMemory,
    max_tokens: int,
    before: str | int | None = None,
    session: str | None = None,
    only: Callable[[Step], bool] | None = None,
    namespace: str = "",
) -> str:
    """Render the newest steps, the oldest of them first, in at most `max_tokens` tokens; long ones are cut.

    "" where there is none.

    Args:
        memory: The memory.
        max_tokens: The most tokens, fence and hint included.
        before: Only steps before this one, by its id or number.
        session: Only steps of this session.
        only: Only steps of which this is true.
        namespace: What stands before each number.
    """
    newest = islice(memory.history(session, after=before, newest=True), LOOKED_AT)
    return _as_many_as_fit(memory, (step for step in newest if only is None or only(step)), max_tokens, namespace, True)


def list_steps(memory: HierarchicalMemory, steps: Iterable[Step], max_tokens: int, namespace: str = "") -> str:
    """Render steps in their order, up to the first that does not fit `max_tokens` tokens; long ones are cut."""
    return _as_many_as_fit(memory, steps, max_tokens, namespace, False)


def _as_many_as_fit(
    memory: HierarchicalMemory, steps: Iterable[Step], max_tokens: int, namespace: str, is_backward: bool
) -> str:
    """Render steps up to the first that does not fit; backward with the call that shows the rest, if there is one."""
    counter, key = memory.long_term.counter, memory.long_term.key
    lines: list[tuple[str, str]] = []
    fitting = ""
    for step in islice(steps, LISTED):
        line = (header(step), _line(memory, step, max_tokens // SHARE, namespace))
        lines = [line, *lines] if is_backward else [*lines, line]
        rest = f'\nOlder ones: recent(before="{namespace}#{step.step_number}").' if is_backward else ""
        if counter.count(block(lines, key) + rest) > max_tokens:
            return fitting
        fitting = block(lines, key) + rest
    return fitting if len(lines) == LISTED else block(lines, key)


def _line(memory: HierarchicalMemory, step: Step, most: int, namespace: str) -> str:
    """Return a step's number, speaker and first words in at most `most` tokens."""
    text = clean(without_echoes(step, memory.long_term.key).text).strip()
    name = one_line(step.speaker or getattr(step, "role", None) or step.type)[:LONGEST_HEAD]

    def shown(length: int) -> str:
        return quoted(f"{namespace}#{step.step_number} {name}: ", f"{text[:length]}{'…' if length < len(text) else ''}")

    return longest(shown, most, memory.long_term.counter)

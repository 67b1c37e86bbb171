"""Interrupts: whatever line Ctrl-C, an alarm or a cancellation comes at, the memory goes on, with nothing lost."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tinymem
from tinymem import HierarchicalMemory, MessageStep

PACKAGE = str(Path(tinymem.__file__).parent)
TRIED, STRIDE = 16, 331  # interrupts of each test, and the lines between them


class Interrupting:
    """Raises KeyboardInterrupt at the n-th line that the package runs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame: FrameType, event: str, _: Any) -> Interrupting | None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def turn(memory: HierarchicalMemory, number: int) -> None:
    memory.add(
        MessageStep("user", f"Remark {number}: lot {number} holds {number * 7} crates, see src/file_{number}.py.")
    )
    memory.context(f"How many crates are in lot {number}?", max_tokens=400)


@pytest.mark.parametrize("first", range(1, STRIDE, STRIDE // 5))
def test_a_memory_goes_on_after_an_interrupt_at_any_line(first: int) -> None:
    interrupted = 0
    with HierarchicalMemory(embedder="hashing:64", store="exact", max_tokens=400, window_tokens=100) as memory:
        for number in range(8):
            turn(memory, number)
        for at in range(TRIED):
            traced = sys.gettrace()
            sys.settrace(Interrupting(first + at * STRIDE))
            try:
                turn(memory, 100 + at)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                sys.settrace(traced)
            turn(memory, 200 + at)
            found = memory.recall(f"crates in lot {200 + at}", 200, min_relevance=0).text
            assert f"lot {200 + at} holds" in found
        held = [step.text.partition(":")[0] for step in memory.history(None)]
    assert interrupted > TRIED // 2
    assert len(held) == len(set(held))
    assert {f"Remark {number}" for number in (*range(8), *range(200, 200 + TRIED))} <= set(held)

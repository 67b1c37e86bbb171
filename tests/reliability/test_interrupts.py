"""Interrupts: wherever Ctrl-C, an alarm or a cancellation comes, the memory goes on, with nothing lost."""

from __future__ import annotations

import contextlib
import linecache
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tinymem
from tinymem import HierarchicalMemory, MessageStep

PACKAGE = str(Path(tinymem.__file__).parent)
TRIED = 40  # interrupts of each test


class Interrupting:
    """Raises KeyboardInterrupt at one of the moments at which Python would, and counts these.

    They are the beginning of a function, also of those by which context managers begin and end, and each line. A line
    with `with` is none, though it is traced: where a lock in C is released, nothing is raised in between.
    """

    def __init__(self, at: int | None, blocks_only: bool) -> None:
        self.at, self.seen, self._blocks_only = at, 0, blocks_only

    def __call__(self, frame: FrameType, event: str, _: Any) -> Interrupting | None:
        file = frame.f_code.co_filename
        is_ours = file.startswith(PACKAGE)
        is_traced = is_ours and not self._blocks_only
        begins = event == "call" and (is_traced or file == contextlib.__file__)
        if begins or (event == "line" and not linecache.getline(file, frame.f_lineno).lstrip().startswith("with ")):
            self.seen += 1
            if self.seen == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self if is_traced else None


def turn(memory: HierarchicalMemory, number: int, tracer: Interrupting | None = None) -> None:
    traced = sys.gettrace()
    sys.settrace(tracer or traced)
    try:
        memory.add(
            MessageStep("user", f"Remark {number}: lot {number} holds {number * 7} crates, see src/file_{number}.py.")
        )
        memory.context(f"How many crates are in lot {number}?", max_tokens=400)
    finally:
        sys.settrace(traced)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one in a generator that is dropped
@pytest.mark.parametrize("blocks_only", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_a_memory_goes_on_after_an_interrupt_at_any_moment(tmp_path: Path, part: int, blocks_only: bool) -> None:
    held: BaseException | None = None  # as at a prompt, which keeps the last error
    with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact", window_tokens=100) as memory:
        for number in range(8):
            turn(memory, number)
        turn(memory, 8, counting := Interrupting(None, blocks_only))
        step = max(1, counting.seen // TRIED)
        for number, at in enumerate(range(1 + part * step // 4, counting.seen, step), 100):
            try:
                turn(memory, -number, Interrupting(at, blocks_only))
            except KeyboardInterrupt as error:
                held = error
            turn(memory, number)
            found = memory.recall(f"crates in lot {number}", 200, min_relevance=0).text
            assert f"lot {number} holds" in found
    with HierarchicalMemory(tmp_path, store="exact") as memory:
        said = [step.text.partition(":")[0] for step in memory.history(None)]
    assert held is not None
    assert len(said) == len(set(said))
    assert {f"Remark {one}" for one in (*range(8), *range(100, number + 1))} <= set(said)

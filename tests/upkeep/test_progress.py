"""Progress: whatever may take long calls one kind of function, with the work done and all of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import InputError
from tinymem.upkeep import Retention, rebuild

open_memory = partial(HierarchicalMemory, store="exact")
STEPS = 30


def test_what_takes_long_counts_its_work_and_a_dry_run_none(tmp_path: Path) -> None:
    heard: list[tuple[int, int | None]] = []

    def hear(done: int, total: int | None) -> None:
        heard.append((done, total))

    with open_memory(tmp_path, embedder="hashing", window_tokens=100) as memory:
        memory.archive([MessageStep("user", f"Shed {n} has code {n * 7}.", id=f"step-{n}") for n in range(STEPS)])
        memory.flush()
        limits = Retention(max_steps=STEPS - 3)
        memory.forget("step-3", dry_run=True, progress=hear)
        memory.retain(limits, dry_run=True, progress=hear)
        assert heard == []
        memory.forget("step-3", progress=hear)
        memory.retain(limits, progress=hear)
        assert heard == [(1, 2), (2, 2)] * 2
        with pytest.raises(InputError, match="progress"):
            memory.forget("step-4", progress=3)  # type: ignore[arg-type]
    assert rebuild(tmp_path, progress=hear) == STEPS - 3
    assert heard[-1] == (STEPS - 3, STEPS - 3)

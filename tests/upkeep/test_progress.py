"""Progress: whatever may take long calls one kind of function, with the work done and all of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import InputError
from tinymem.upkeep import rebuild

open_memory = partial(HierarchicalMemory, store="exact")
STEPS = 30


def test_what_takes_long_counts_its_work(tmp_path: Path) -> None:
    heard: list[tuple[int, int | None]] = []

    def hear(done: int, total: int | None) -> None:
        heard.append((done, total))

    with open_memory(tmp_path, embedder="hashing", window_tokens=100) as memory:
        memory.archive([MessageStep("user", f"Shed {n} has code {n * 7}.", id=f"step-{n}") for n in range(STEPS)])
        memory.flush(progress=hear)
    assert rebuild(tmp_path, progress=hear) == STEPS
    assert heard[-1] == (STEPS, STEPS)
    with pytest.raises(InputError, match="progress"):
        rebuild(tmp_path, progress=3)  # type: ignore[arg-type]

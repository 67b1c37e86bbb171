"""Progress: whatever may take long calls one kind of function, with the work done and all of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory, MessageStep
from tinymem.archive import snapshots
from tinymem.errors import InputError
from tinymem.upkeep import Retention, rebuild

open_memory = partial(HierarchicalMemory, store="exact")
STEPS = 30


class Heard:
    """A progress, and what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int | None]] = []

    def __call__(self, done: int, total: int | None) -> None:
        self.calls.append((done, total))


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    with open_memory(tmp_path / "memory", embedder="hashing", window_tokens=100) as opened:
        opened.archive([MessageStep("user", f"Shed {n} has code {n * 7}.", id=f"step-{n}") for n in range(STEPS)])
        opened.flush()
    return tmp_path / "memory"


def test_a_rebuild_counts_vectors(memory: Path) -> None:
    heard = Heard()
    assert rebuild(memory, progress=heard) == STEPS
    assert heard.calls[-1] == (STEPS, STEPS)


def test_forgetting_counts_parts(memory: Path) -> None:
    heard = Heard()
    with open_memory(memory) as opened:
        assert opened.forget("step-3", dry_run=True, progress=heard) == 1 and heard.calls == []
        assert opened.forget("step-3", progress=heard) == 1
    assert heard.calls == [(1, 2), (2, 2)]


def test_a_retention_counts_parts(memory: Path) -> None:
    heard, limits = Heard(), Retention(max_steps=STEPS - 3)
    with open_memory(memory) as opened:
        assert len(opened.retain(limits, dry_run=True, progress=heard).removed) == 3 and heard.calls == []
        assert len(opened.retain(limits, progress=heard).removed) == 3
    assert heard.calls == [(1, 2), (2, 2)]


def test_the_first_opening_counts_passages(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LEAST", 0)
    for wanted in ([(STEPS, STEPS)], []):  # the files are there the second time
        heard = Heard()
        with open_memory(memory) as opened:
            assert len(opened.long_term.current(heard)) == STEPS
        assert heard.calls == wanted


def test_what_is_no_function_is_refused(memory: Path, tmp_path: Path) -> None:
    with open_memory(memory) as opened:
        for call in (
            lambda: opened.forget("step-3", progress=3),  # type: ignore[arg-type]
            lambda: opened.retain(Retention(max_steps=1), progress=3),  # type: ignore[arg-type]
            lambda: opened.export(tmp_path / "x", progress=3),  # type: ignore[arg-type]
        ):
            with pytest.raises(InputError, match="progress"):
                call()
        assert opened.stats().steps == STEPS
    with pytest.raises(InputError, match="progress"):
        rebuild(memory, progress=3)  # type: ignore[arg-type]

"""Exact filters hold in what a recall brings back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from memories import LATER, START, fill, open_archive, said

from tinymem.recall.search import Search
from tinymem.stores.filter import Filter


def test_filters_and_hidden_steps_hold_in_recall(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    fill(archive, [
        said(f"the key number {at}", at, session=f"s{at % 3}", speaker=["Ana", "Ben"][at % 2]) for at in range(1, 61)
    ])  # fmt: skip

    def numbers(**more: Any) -> list[int]:
        found = Search(archive).recall("the key number", 4_000, LATER, diversity=0, **more)
        return [item.step.step_number or 0 for item in found.items]

    assert numbers() == list(range(1, 61))
    assert numbers(hidden={3, 4, 60}) == [at for at in range(1, 61) if at not in (3, 4, 60)]
    assert numbers(hidden=range(1, 61)) == []
    assert numbers(only=Filter(session="s1", speaker="Ana")) == list(range(4, 61, 6))
    assert numbers(only=Filter(session="s9")) == []
    minute = timedelta(minutes=1)
    assert numbers(only=Filter(START + 10 * minute, START + 12 * minute)) == [10, 11, 12]
    assert numbers(only=Filter(since=START + 59 * minute, session="s0")) == [60]
    archive.close()

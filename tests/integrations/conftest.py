"""The world and the memory of the suite that every adapter runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_model import World, first_sheets

from tinymem import HierarchicalMemory

pytest.register_assert_rewrite("adapter_contract")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """As many sheets as are twice what the budget holds, and then the checklist."""
    return first_sheets(tmp_path_factory.mktemp("world"), 24)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path / "memory", embedder="static", store="exact") as opened:
        yield opened

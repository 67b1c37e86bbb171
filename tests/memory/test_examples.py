"""The examples in the docstrings of the memories run as they are written."""

from __future__ import annotations

import doctest
import importlib

import pytest

import tinymem

MODULES = [
    "aio.hierarchy", "aio.memories", "conversation.conversation", "conversation.views", "hierarchy", "memories",
    "scratchpad.scratchpad", "working.execution", "working.templates", "working.working",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    public = {name: getattr(tinymem, name) for name in tinymem.__all__}
    found = doctest.testmod(importlib.import_module(f"tinymem.memory.{name}"), extraglobs=public)
    assert found.failed == 0 < found.attempted

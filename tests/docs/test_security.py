"""SECURITY.md: every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "SECURITY.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the tests run beside an installed wheel")
def test_every_test_that_is_named_is_there() -> None:
    text = PAGE.read_text("utf-8")
    sources = {path.name: path.read_text("utf-8") for path in TESTS.rglob("test_*.py")}
    files, functions = (set(re.findall(pattern, text)) for pattern in (r"`(test_\w+\.py)`", r"`(test_\w+)`"))
    assert len(functions) > 15 and files <= sources.keys()
    assert {name for name in functions if not any(f"def {name}(" in source for source in sources.values())} == set()


@pytest.mark.skipif(not PAGE.exists(), reason="the tests run beside an installed wheel")
def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) > 15
    assert [row for row in rows if not re.search(r"`test_\w+(\.py)?`", row) and "shown by" not in row] == []

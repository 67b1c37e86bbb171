"""The tables of promises and the tests that hold them, in tests/README.md and SECURITY.md: each test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import REPOSITORY, needs_sources

TESTS = Path(__file__).resolve().parents[1]
PROMISES, SECURITY = TESTS / "README.md", REPOSITORY / "SECURITY.md"


def rows_of(page: Path) -> list[str]:
    """The rows of a page's tables, without their heads."""
    lines = page.read_text("utf-8").splitlines()
    heads = {at - 1 for at, line in enumerate(lines) if line.startswith("| ---")}
    return [line for at, line in enumerate(lines) if re.match(r"\| [^-]", line) and at not in heads]


@needs_sources
@pytest.mark.parametrize("page", [PROMISES, SECURITY], ids=lambda page: page.name)
def test_every_promise_names_a_test_and_every_test_is_there(page: Path) -> None:
    sources = {path.name: path.read_text("utf-8") for path in TESTS.rglob("test_*.py")}
    sources |= {path.name: path.read_text("utf-8") for path in (TESTS / "support").glob("*.py")}
    rows = rows_of(page)
    assert len(rows) > 15 and [row for row in rows if not re.search(r"`test_\w+(\.py)?`", row)] == []
    files, functions = (set(re.findall(rf"`(test_\w+{end})`", page.read_text("utf-8"))) for end in (r"\.py", ""))
    assert files <= sources.keys()
    assert {name for name in functions if not any(f"def {name}(" in source for source in sources.values())} == set()


@needs_sources
def test_every_page_that_promises_something_is_in_the_table() -> None:
    named = {row.split(" | ")[0].strip("| ") for row in rows_of(PROMISES)}
    assert {page.stem for page in (REPOSITORY / "docs").glob("*.md")} - {"api"} - named == set()

"""The engines stay behind their protocols: outside stores/ there is no SQL, and nobody knows an adapter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TINYMEM = Path(__file__).resolve().parents[2] / "tinymem"
pytestmark = pytest.mark.skipif(not TINYMEM.is_dir(), reason="the tests run beside an installed wheel")
ADAPTERS = ("embedders", "stores")  # links to folders of the repository
SQL = r"\b(SELECT|INSERT (OR|INTO)|DELETE FROM|UPDATE \w+ SET|CREATE (TABLE|INDEX)|PRAGMA|VACUUM|BEGIN IMMEDIATE)\b"
OUTSIDE = {
    "SQL": SQL,
    "an engine's errors": r"\bsqlite3\b|\bpsycopg",
    "an engine": r"tinymem\.stores\.(sqlite|postgres)\b|SqliteJournal",
    "the name of an adapter, asked for": r"""[!=]= *["'](chroma|exact|static|hashing|openai)\b""",
    "an adapter": r"\bChromaStore\b(?!\.from_name)",  # as the registry has it
}


def lines_with(pattern: str) -> list[str]:
    files = (file for file in TINYMEM.rglob("*.py") if file.relative_to(TINYMEM).parts[0] not in ADAPTERS)
    found = re.compile(pattern)
    return [
        f"{file}: {line.strip()}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if found.search(line)
    ]


@pytest.mark.parametrize("what", OUTSIDE)
def test_none_stands_outside_the_stores(what: str) -> None:
    assert lines_with(OUTSIDE[what]) == []


@pytest.mark.parametrize("what", ["SQL", "an engine's errors", "an engine", "an adapter"])
def test_the_patterns_find_what_stands_inside_them(what: str) -> None:
    inside = "\n".join(file.read_text("utf-8") for file in (TINYMEM / "stores").rglob("*.py"))
    assert re.search(OUTSIDE[what], inside)

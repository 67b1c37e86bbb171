"""The pages on memories and on their upkeep: their code runs, and their commands are commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from pages import REPOSITORY, commands, run_python
from typer.testing import CliRunner

from tinymem.cli.main import app

DOCS = REPOSITORY / "docs"


@pytest.mark.parametrize("name", ["formats.md", "memories.md", "upkeep.md"])
def test_the_code_on_the_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_python(DOCS / name, capsys) >= 3


@pytest.mark.parametrize("page", sorted([REPOSITORY / "README.md", *DOCS.rglob("*.md")]), ids=lambda page: page.name)
def test_commands_that_are_shown_have_these_options(page: Path) -> None:
    for call in commands(page):
        told = CliRunner().invoke(app, [call[1], "--help"])
        assert told.exit_code == 0, call
        assert [word for word in call if word.startswith("--") and word not in told.output] == []


@pytest.mark.skipif(not (REPOSITORY / "tinymem").is_dir(), reason="the tests run beside an installed wheel")
def test_benchmarks_that_are_named_can_be_run() -> None:
    pages = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), REPOSITORY / "benchmarks" / "README.md"]
    named = {name for page in pages for name in re.findall(r"python -m\s+(benchmarks[\w.]*)", page.read_text("utf-8"))}
    assert len(named) >= 15
    for name in named:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.submodule_search_locations is None or importlib.util.find_spec(f"{name}.__main__"), name

"""The pages on memories and on their upkeep: their code runs, and their commands are commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import REPOSITORY, commands, run_python
from typer.testing import CliRunner

from tinymem.cli.main import app

DOCS = REPOSITORY / "docs"


@pytest.mark.parametrize("name", ["memories.md", "upkeep.md"])
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

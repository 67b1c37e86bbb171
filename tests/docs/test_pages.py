"""The pages: their code runs and prints what they show, and their commands are commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from pages import REPOSITORY, blocks, commands, run_page
from servers import KEY, chat_answer_with, openai_server
from typer.testing import CliRunner

import tinymem
from tinymem.cli.main import app

DOCS = REPOSITORY / "docs"


ELSEWHERE = ("adapters.md", "agents.md", "embedders.md", "integrations.md", "strategies.md")  # have tests of their own
SOURCES = (REPOSITORY / "tinymem").is_dir()
PAGES = sorted(DOCS.glob("*.md"))
WITH_CODE = [page.name for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.mark.parametrize("name", [name for name in WITH_CODE if name not in ELSEWHERE])
def test_the_code_on_the_page_runs_and_prints_what_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [block for block in blocks(DOCS / name) if block.language in ("python", "bash") and not block.title]
    assert run_page(DOCS / name, monkeypatch, capsys) == len(shown) >= 1


def test_the_model_of_the_tutorial_can_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [block.code for block in blocks(DOCS / "tutorial.md") if block.title == "llm.py"]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with openai_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        server.chat = lambda body: chat_answer_with("15432.")
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(code, "llm.py", "exec"), names)
        assert names["model"]([{"role": "user", "content": "Which port?"}]) == "15432."
        names["client"].close()


def test_every_page_with_code_has_a_test_that_runs_it() -> None:
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in ELSEWHERE if name not in WITH_CODE or f'"docs" / "{name}"' not in tests] == []


@pytest.mark.parametrize("page", sorted([REPOSITORY / "README.md", *DOCS.rglob("*.md")]), ids=lambda page: page.name)
def test_commands_that_are_shown_have_these_options(page: Path) -> None:
    for call in commands(page):
        told = CliRunner().invoke(app, [call[1], "--help"])
        assert told.exit_code == 0, call
        assert [word for word in call if word.startswith("--") and word not in told.output] == []


@pytest.mark.skipif(not SOURCES, reason="the tests run beside an installed wheel")
def test_benchmarks_that_are_named_can_be_run() -> None:
    pages = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "benchmarks").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"python -m\s+(benchmarks[\w.]*)", page.read_text("utf-8"))}
    assert len(named) >= 15
    for name in named:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.submodule_search_locations is None or importlib.util.find_spec(f"{name}.__main__"), name


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", (DOCS / "api.md").read_text("utf-8")))))
    assert set(tinymem.__all__) - named - {"ConversationManager"} == set()


def test_every_extra_is_in_the_readme() -> None:
    extras = set(re.findall(r"^([a-z0-9-]+) = \[", project_table("project.optional-dependencies"), re.MULTILINE))
    assert extras
    assert extras - set(re.findall(r"`([a-z0-9-]+)`", (REPOSITORY / "README.md").read_text("utf-8"))) == set()


def project_table(name: str) -> str:
    """The text of a table of pyproject.toml."""
    _, _, rest = (REPOSITORY / "pyproject.toml").read_text("utf-8").partition(f"[{name}]\n")
    return rest.partition("\n[")[0]

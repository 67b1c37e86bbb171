"""The pages: their code runs and prints what they show, and what they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import REPOSITORY, blocks, broken_links, commands, needs_sources, python_of, run_page
from scripted_model import calling, in_turn
from servers import OpenAIServer, chat_answer_with
from typer.testing import CliRunner

from tinymem import HierarchicalMemory
from tinymem.cli.main import app
from tinymem.messages import problems

DOCS = REPOSITORY / "docs"
WITH_OTHERS = ("adapters.md", "agents.md", "embedders.md", "integrations.md")  # have tests of their own below
PAGES = sorted(DOCS.glob("*.md"))
WITH_CODE = [page.name for page in PAGES if any(block.language == "python" for block in blocks(page))]


@pytest.fixture
def server(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OpenAIServer:
    """A server that the pages' clients call, and a folder of its own for what they write."""
    monkeypatch.chdir(tmp_path)
    return server


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.fills_index, pytest.mark.slow] if name == "stores.md" else [])
        for name in WITH_CODE
        if name not in WITH_OTHERS
    ],
)
def test_the_code_on_the_page_runs_and_prints_what_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [block for block in blocks(DOCS / name) if block.language in ("python", "bash") and not block.title]
    assert run_page(DOCS / name, monkeypatch, capsys) == len(shown) >= 1


def test_the_model_of_the_tutorial_can_be_one(server: OpenAIServer) -> None:
    server.chat = lambda body: chat_answer_with("15432.")
    names = python_of(DOCS / "tutorial.md", title="llm.py")
    assert names["model"]([{"role": "user", "content": "Which port?"}]) == "15432."
    names["client"].close()


def test_the_agent_on_its_page_calls_its_tools(server: OpenAIServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.chat = in_turn([calling(("system", {}), ("system", {})), chat_answer_with("It is what it is.")])
    python_of(DOCS / "agents.md")["client"].close()
    said, _, reminder = capsys.readouterr().out.partition("\n")
    assert said == "It is what it is."
    assert "failed like this; it passed in #3, after an edit of .env in #2" in reminder
    assert [problems(body["messages"]) for body in server.requests] == [[], []]
    with HierarchicalMemory("memory") as memory:
        assert [step.type for step in memory.short_term.steps[1:]] == ["task", "action", *["message"] * 3]


@pytest.mark.slow
def test_the_code_on_embedders_runs_with_real_weights(minilm: Path, server: OpenAIServer) -> None:
    python_of(DOCS / "embedders.md", instead={"all-MiniLM-L6-v2": minilm.as_posix()})
    assert server.requests
    with HierarchicalMemory("memory") as memory:
        assert memory.stats().embedder == f"sentence-transformers:{minilm.as_posix()}" and memory.stats().steps == 1


def test_the_first_blocks_on_integrations_need_no_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = python_of(DOCS / "integrations.md", first=2)
    assert list(names["request"]) == ["system", "messages"]
    names["memory"].close()


def test_every_adapter_is_on_its_page() -> None:
    text = (DOCS / "integrations.md").read_text("utf-8")
    found = sorted((REPOSITORY / "tinymem" / "integrations").glob("*.py"))
    adapters = [path.stem for path in found if path.name not in ("__init__.py", "native.py", "numbers.py", "recent.py")]
    assert [name for name in adapters if f"from tinymem.integrations.{name} import" not in text] == []


def test_the_adapters_on_their_page_pass_their_checks_and_are_those_of_the_package() -> None:
    page, package = DOCS / "adapters.md", REPOSITORY / "tests" / "example_adapter"
    assert {"check_embedder", "check_store", "check_summarizer"} <= python_of(page).keys()
    written = "".join((package / name).read_text("utf-8") for name in ("example_adapter.py", "pyproject.toml"))
    code = [block.code for block in blocks(page) if block.language == "python"]
    starts = [(one, re.search("^(class|def) ", one, re.MULTILINE)) for one in code]
    shown = [one[start.start() :] for one, start in starts if start]
    shown += [block.code for block in blocks(page) if block.language == "toml"]
    assert len(shown) >= 5 and [one for one in shown if one not in written] == []


# -- what pages name --------------------------------------------------------------------------------------------------

TEXTS = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "benchmarks").rglob("*.md")]


@needs_sources
@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", sorted([REPOSITORY / "README.md", *DOCS.rglob("*.md")]), ids=lambda page: page.name)
def test_commands_that_are_shown_have_these_options(page: Path) -> None:
    for call in commands(page):
        told = CliRunner().invoke(app, [call[1], "--help"])
        assert told.exit_code == 0, call
        assert [word for word in call if word.startswith("--") and word not in told.output] == []


def test_every_extra_is_in_the_readme() -> None:
    _, _, rest = (REPOSITORY / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]\n")
    extras = set(re.findall(r"^([a-z0-9-]+) = \[", rest.partition("\n[")[0], re.MULTILINE))
    assert len(extras) > 10
    assert extras - set(re.findall(r"`([a-z0-9-]+)`", (REPOSITORY / "README.md").read_text("utf-8"))) == set()


@needs_sources
@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_and_folders_that_are_named_are_there(page: str) -> None:
    named = r"`((?:tinymem|stores|embedders|tests|benchmarks|docs|examples)/[\w./-]*)`"
    paths = [path for path in re.findall(named, (REPOSITORY / page).read_text("utf-8")) if "NAME" not in path]
    assert len(paths) >= 10 and [path for path in paths if not (REPOSITORY / path).exists()] == []

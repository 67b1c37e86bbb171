"""What an error tells its reader to type is there, and works."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from public import PACKAGES
from sources import syntax_tree
from test_packaging import PYPROJECT
from typer.main import get_command

from tinymem import AsyncHierarchicalMemory, HierarchicalMemory, MemoryManager, TaskStep
from tinymem.cli.main import app
from tinymem.errors import DISTRIBUTION, EmbedderMismatchError
from tinymem.runs.hooks.quick import OPTIONS
from tinymem.steps.collection import CALLS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "tinymem").is_dir(), reason="the tests run beside an installed wheel")
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
SQL = r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|DROP|ANY|CALL|string_agg|current_setting|set_config)\b"
QUERY = re.compile(rf"{SQL}|\(\?[:P=!<]|\\[bn]|\(\.\*\)")  # or patterns


def _texts(tree: ast.AST) -> Iterator[str]:
    """The texts in the code, with {} for what is filled in; without docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = list(ast.walk(tree))
    docs = {id(n.body[0].value) for n in nodes if isinstance(n, documented) and isinstance(n.body[0], ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@cache
def trees() -> list[tuple[str, ast.AST]]:
    """The modules of the library, without what is for those who write adapters."""
    paths = [path for folder in ("tinymem", "stores", "embedders") for path in (ROOT / folder).glob("**/*.py")]
    return [(path.name, syntax_tree(path)) for path in paths if "testing" not in path.parts]


@cache
def messages() -> list[tuple[str, str]]:
    """Where it stands, and what it says: each text that people may read."""
    texts = [(name, text) for name, tree in trees() for text in _texts(tree)]
    return [(name, text) for name, text in texts if " " in text and not QUERY.search(text)]


def told(pattern: str) -> list[tuple[str, str, str]]:
    """The file, what matched (its first group), and the whole text."""
    return [(name, match[1], text) for name, text in messages() for match in re.finditer(pattern, text)]


def public() -> dict[str, Any]:
    """All public names, of every package."""
    packages = [import_module(package) for package in PACKAGES]
    return {name: getattr(package, name) for package in packages for name in package.__all__}


def test_each_command_that_a_message_names_is_there() -> None:
    found = told(r"(?:^|[`:\]>] ?|so )tinymem ([a-z]+)")
    assert {command for _, command, _ in found} >= {"reindex", "rebuild", "ingest"}
    assert [(name, command) for name, command, _ in found if command not in COMMANDS] == []


def test_each_option_that_a_message_names_is_one_of_the_command() -> None:
    options = {name: {option for one in command.params for option in one.opts} for name, command in COMMANDS.items()}
    options["hook"] = {*re.findall(r"--[\w-]+", OPTIONS)}  # of tinymem-hook
    for name, option, text in told(r"(--[a-z][a-z-]+)"):
        if "pip install" in text:
            continue
        commands = [word for word in re.findall(r"tinymem ([a-z]+)", text) if word in COMMANDS] or list(options)
        assert any(option in options[command] for command in commands), (name, option, text)


def test_each_package_that_a_message_names_is_a_dependency() -> None:
    needed = {re.split(r"[^\w-]", one)[0] for one in PYPROJECT["project"]["dependencies"]} | {DISTRIBUTION}
    found = told(r"pip install (?:--?[a-z-]+ )*'?([a-z{][\w{}-]*)")
    assert len(found) >= 2
    assert {(name, package) for name, package, _ in found if package not in needed | {"{}"}} == set()


def test_the_command_of_another_embedder_does_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with HierarchicalMemory("memory", embedder="hashing:8", store="exact") as memory:
        memory.add(TaskStep("Ship it."))
    with pytest.raises(EmbedderMismatchError) as caught:
        HierarchicalMemory("memory", embedder="hashing:16", store="exact")
    found = re.search(r"tinymem (reindex --embedder \S+)", str(caught.value))
    assert found is not None
    get_command(app).main([*shlex.split(found[1]), "--path", "memory"], standalone_mode=False)
    with HierarchicalMemory("memory", embedder="hashing:16", store="exact") as memory:
        assert memory.stats().steps == 1


# names of other libraries


def test_each_name_of_another_library_leads_to_one_that_is_there() -> None:
    calls = {ours.partition("(")[0] for ours in CALLS.values()}
    assert [name for name in calls if not callable(getattr(HierarchicalMemory, name, None))] == []


@pytest.mark.parametrize("kind", [HierarchicalMemory, MemoryManager, AsyncHierarchicalMemory])
@pytest.mark.parametrize(
    ("name", "ours"), [("search", "recall(query)"), ("get_all", "history()"), ("delete", "forget(id)"), ("colour", "")]
)
def test_a_call_of_another_library_says_what_it_is_called_here(kind: Any, name: str, ours: str) -> None:
    memory = kind()
    assert not hasattr(memory, name)
    with pytest.raises(AttributeError, match=f"'{kind.__name__}' object has no attribute '{name}'") as caught:
        getattr(memory, name)
    assert str(caught.value).endswith(f": a HierarchicalMemory has {ours}" if ours else "'colour'")

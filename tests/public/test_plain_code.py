"""Code that reads once: one thought in a statement, and names that say what they hold. Each count may only fall."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import REPOSITORY
from sources import syntax_tree

pytestmark = pytest.mark.skipif(not (REPOSITORY / "tinymem").is_dir(), reason="the tests run beside an installed wheel")

LONGEST = 60  # lines of a function
MOST_FILES = 14  # of a folder
VAGUE = {"one", "own", "held", "at", "some"}  # names that say nothing of what they hold
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
OPENING = re.compile(r"(What|Whether|How|That|Those|Where|Which|Who)\b")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What the library still has of each. Whoever mends one lowers its number.
LEFT = {
    "a comprehension with two loops": 0,
    "a comprehension inside another": 0,
    "a function that is too long": 0,
    "a vague name": 0,
    "a docstring that opens like a clause": 0,
    "a class of the same name as another": 3,
    "a folder with too many files": 0,
}


def files() -> list[Path]:
    packages = ("tinymem", "stores", "embedders")
    return sorted(path for package in packages for path in (REPOSITORY / package).rglob("*.py"))


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Its lines without the docstring."""
    text = ast.get_docstring(function, clean=False)
    return (function.end_lineno or 0) - function.lineno + 1 - (len(text.splitlines()) if text else 0)


def name_of(node: ast.AST) -> str:
    """The name that is given to something here, or none."""
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr.lstrip("_")
    return node.arg if isinstance(node, ast.arg) else ""


def faults_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, DOCUMENTED) and OPENING.match(ast.get_docstring(node) or ""):
        yield "a docstring that opens like a clause"
    if isinstance(node, COMPREHENSIONS):
        if len(node.generators) > 1:
            yield "a comprehension with two loops"
        if len([part for part in ast.walk(node) if isinstance(part, COMPREHENSIONS)]) > 1:
            yield "a comprehension inside another"
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and lines_of(node) > LONGEST:
        yield "a function that is too long"
    if name_of(node) in VAGUE:
        yield "a vague name"


def test_statements_are_plain_and_names_say_something() -> None:
    found: dict[str, list[str]] = {kind: [] for kind in LEFT}
    classes, folders = Counter[str](), Counter[Path]()
    for path in files():
        folders[path.parent] += path.name != "__init__.py"
        for node in ast.walk(syntax_tree(path)):
            for kind in faults_of(node):
                found[kind].append(f"{path}:{getattr(node, 'lineno', '')}")
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")] += 1
    found["a class of the same name as another"] = [name for name, count in classes.items() if count > 1]
    found["a folder with too many files"] = [str(path) for path, count in folders.items() if count > MOST_FILES]
    assert {kind: len(places) for kind, places in found.items()} == LEFT, found

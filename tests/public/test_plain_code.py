"""Code that reads once: one thought in a statement, and names that say what they hold. Each count may only fall."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import REPOSITORY

pytestmark = pytest.mark.skipif(not (REPOSITORY / "tinymem").is_dir(), reason="the tests run beside an installed wheel")

LONGEST = 60  # lines of a function
MOST_FILES = 14  # of a folder
VAGUE = {"one", "own", "held", "at", "some"}  # names that say nothing of what they hold
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What the library still has of each. Whoever mends one lowers its number.
LEFT = {
    "a comprehension with two loops": 0,
    "a comprehension inside another": 0,
    "a function that is too long": 0,
    "a vague name": 0,
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


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that are given to something, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr.lstrip("_")


def faults_in(path: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    where = path.relative_to(REPOSITORY)
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS):
            inner = [part for part in ast.walk(node) if isinstance(part, COMPREHENSIONS)]
            if len(node.generators) > 1:
                yield "a comprehension with two loops", f"{where}:{node.lineno}"
            if len(inner) > 1:
                yield "a comprehension inside another", f"{where}:{node.lineno}"
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and lines_of(node) > LONGEST:
            yield "a function that is too long", f"{where}:{node.lineno} {node.name}"
    for line, name in names_in(tree):
        if name in VAGUE:
            yield "a vague name", f"{where}:{line} {name}"


def class_names() -> Counter[str]:
    return Counter(
        node.name.lstrip("_")
        for path in files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )


def all_faults() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {kind: [] for kind in LEFT}
    for path in files():
        for kind, place in faults_in(path):
            found[kind].append(place)
    found["a class of the same name as another"] = [name for name, count in class_names().items() if count > 1]
    sizes = Counter(path.parent for path in files() if path.name != "__init__.py")
    full = [str(folder.relative_to(REPOSITORY)) for folder, count in sizes.items() if count > MOST_FILES]
    found["a folder with too many files"] = full
    return found


def test_statements_are_plain_and_names_say_something() -> None:
    found = all_faults()
    assert {kind: len(places) for kind, places in found.items()} == LEFT, found

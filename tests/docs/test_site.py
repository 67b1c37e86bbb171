"""The documentation site: every public name is on it, it builds strictly, and all its links lead somewhere."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest
from pages import REPOSITORY, needs_sources
from public import PACKAGES

import tinymem
from tinymem.errors import MissingExtraError, TinymemError

REFERENCE = REPOSITORY / "docs" / "reference"
FRAMEWORKS = "tinymem.integrations."  # which take seconds to import
DESCRIBED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def described() -> set[str]:
    """The names on the pages of the reference."""
    return {name for page in REFERENCE.glob("*.md") for name in DESCRIBED.findall(page.read_text("utf-8"))}


def things_at(names: Iterable[str]) -> dict[str, object]:
    found = {}
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            found[name] = getattr(import_module(module), attribute)
        except MissingExtraError:
            continue  # the framework is not installed
    return found


@needs_sources
def test_every_public_name_is_in_the_reference() -> None:
    shown = described()
    missing = [f"tinymem.{name}" for name in tinymem.__all__ if f"tinymem.{name}" not in shown]
    things = {id(thing) for thing in things_at(name for name in shown if FRAMEWORKS not in name).values()}
    for package in PACKAGES[1:]:
        held = import_module(package)
        missing += [f"{package}.{name}" for name in held.__all__ if id(getattr(held, name)) not in things]
    errors = [thing for thing in vars(import_module("tinymem.errors")).values() if inspect.isclass(thing)]
    missing += [error.__name__ for error in errors if issubclass(error, TinymemError) and id(error) not in things]
    assert missing == []


@needs_sources
@pytest.mark.parametrize("with_frameworks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_everything_in_the_reference_is_there_and_documented(with_frameworks: bool) -> None:
    things = things_at(name for name in described() if with_frameworks or FRAMEWORKS not in name)
    assert len(things) >= 100
    for name, thing in things.items():
        assert inspect.getdoc(thing) or name.endswith("PruneStrategy"), name
        for method in public_methods(thing):
            assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


def public_methods(thing: object) -> list[str]:
    """The public methods and properties of a class, those of its bases here too."""
    if not inspect.isclass(thing):
        return []
    held = {name: value for base in reversed(thing.__mro__) for name, value in vars(base).items()}
    code = {name: getattr(value, "fget", None) or getattr(value, "__func__", value) for name, value in held.items()}
    ours = {name for name, one in code.items() if inspect.isfunction(one) and one.__module__.startswith("tinymem")}
    return sorted(name for name in ours if not name.startswith("_"))


# -- the built site ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs is not installed (extra: test-all)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


LOADED = re.compile(r'<(?:img|script|source|iframe)\b[^>]* src="?([^"\s>]+)|<link\b[^>]* href="?([^"\s>]+)[^>]*>')


@pytest.mark.slow
@needs_sources
def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    assert len(pages) >= 40
    for path, text in pages.items():
        loaded = [source or link for source, link in LOADED.findall(text)]
        assert loaded and [address for address in loaded if "//" in address] == [], path
    for path in site.rglob("*.css"):
        assert "@import" not in path.read_text("utf-8") and "url(http" not in path.read_text("utf-8")

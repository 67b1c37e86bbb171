"""What is published: the wheel and the source distribution, built here."""

from __future__ import annotations

import email
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import tinymem

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "tinymem", "embedders", "stores")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "tinymem").is_dir(), reason="the tests run beside an installed wheel"),
    pytest.mark.skipif(importlib.util.find_spec("build") is None, reason="build is not installed (extra: test-all)"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, built from what is committed, without the network."""
    folder = tmp_path_factory.mktemp("built")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(source, folder / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    assert path.name == f"tinymem_agents-{tinymem.__version__}-py3-none-any.whl"
    return zipfile.ZipFile(path)


def test_the_wheel_has_all_modules_and_data_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    sources = {
        Path("tinymem" if folder == "tinymem" else f"tinymem/{folder}") / path.relative_to(ROOT / folder)
        for folder in ("tinymem", "embedders", "stores")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted = {path.as_posix() for path in sources}
    assert names == wanted and len(names) > 150
    assert {"tinymem/py.typed", "tinymem/data/fusion.json", "tinymem/data/demo.jsonl"} <= names


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    (path,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    about = email.message_from_bytes(wheel.read(path))
    assert (about["Name"], about["Version"], about["License-Expression"]) == (
        "tinymem-agents", tinymem.__version__, "Apache-2.0",
    )  # fmt: skip
    assert about["Requires-Python"] == ">=3.10" and about["Description-Content-Type"] == "text/markdown"
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)}
    assert versions <= set(about.get_all("Classifier", []))
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_wheel_can_be_built_from_the_source_distribution(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "setup.py", "tinymem/stores/sqlite/journal.py"} <= names
    assert not {name for name in names if name.startswith(("tests/", "benchmarks/", ".github/"))}


def test_the_index_would_take_them(built: Path) -> None:
    if importlib.util.find_spec("twine") is None:
        pytest.skip("twine is not installed (extra: test-all)")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

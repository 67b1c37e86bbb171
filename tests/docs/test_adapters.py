"""Adapters by other people: a package of them, really installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "tests" / "example_adapter"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the package, built by its own backend, offline."""
    if not all(map(importlib.util.find_spec, ("pip", "setuptools"))):
        pytest.skip("pip or setuptools is not installed (extra: test)")
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--target", str(folder / "target"), str(folder / "source")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return folder / "target"


@pytest.mark.slow
def test_an_installed_package_is_found_by_name(installed: Path, tmp_path: Path) -> None:
    program = """
import sys
from tinymem import HierarchicalMemory
from tinymem.registry import embedder_names, store_names, summarizer_from, summarizer_names
assert "example" in embedder_names() and "example" in store_names() and "example" in summarizer_names()
assert "example_adapter" not in sys.modules
with HierarchicalMemory(sys.argv[1], embedder="example:64", store="example", window_tokens=50) as memory:
    memory.add_messages([{"role": "user", "content": f"Message {n} is about nothing."} for n in range(30)])
    memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])
    memory.long_term.queue.embed_pending()
    memory.long_term.index.follow()
    assert memory.long_term.index.notes.passage == 31
    print(memory.recall("stagign sevrer", max_tokens=100).text)
    assert summarizer_from("example").summarize(memory.short_term.steps, 2).startswith("Message ")
    print(memory.stats().embedder, memory.stats().store, "example_adapter" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(REPOSITORY)])}
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "memory")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    assert "10.0.0.7" in done.stdout
    assert done.stdout.splitlines()[-1] == "example:64 example True"
    assert list((tmp_path / "memory").rglob("vectors.npz"))

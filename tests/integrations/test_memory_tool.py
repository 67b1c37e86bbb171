"""Claude's memory tool: the SDK's own carries out the commands, and its files are steps of a memory."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinymem import AsyncHierarchicalMemory, HierarchicalMemory

anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed (extra: test-all)")
pytest.importorskip("anthropic.tools.memory", reason="this anthropic has no memory tool on files")

from anthropic.lib.tools import ToolError  # noqa: E402

from tinymem.integrations.anthropic import AsyncTinymemMemoryTool, TinymemMemoryTool  # noqa: E402

Command = dict[str, Any]


def answer(tool: Any, command: Command) -> str:
    try:
        return str(tool.call(command))
    except ToolError as error:
        return f"error: {error}"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path / "memory", store="exact") as opened:
        yield opened


def write(tool: Any, path: str, text: str) -> None:
    tool.call({"command": "create", "path": path, "file_text": text})


def test_what_a_file_says_now_is_recalled_under_the_name_that_it_has_now(memory: HierarchicalMemory) -> None:
    tool = TinymemMemoryTool(memory)
    write(tool, "/memories/ann.md", "Ann likes pasta.\r\n")
    tool.call({"command": "str_replace", "path": "/memories/ann.md", "old_str": "pasta", "new_str": "soup"})
    tool.call({"command": "rename", "old_path": "/memories/ann.md", "new_path": "/memories/people/ann.md"})
    assert [(step.text, step.speaker) for step in memory.history()] == [
        ("Ann likes soup.\r\n", "/memories/people/ann.md")
    ]
    assert "soup" in memory.recall("What does Ann like?").text
    shown = str(tool.call({"command": "view", "path": "/memories"}))
    assert [line.partition("\t")[2] for line in shown.splitlines()[2:]] == [
        "/memories/people/",
        "/memories/people/ann.md",
    ]


@pytest.mark.parametrize("path", ["/etc/passwd", "/memories/../x", "/memories/\0", "/memories/" + "x" * 300])
def test_no_path_leads_out_of_the_folder(memory: HierarchicalMemory, tmp_path: Path, path: str) -> None:
    tool = TinymemMemoryTool(memory)
    write(tool, "/memories/a", "kept")
    hostile = tool._step(path, "stolen")
    memory.archive([hostile])  # as a file of another's export may have it
    for command in ({"command": "create", "path": path, "file_text": "x"}, {"command": "delete", "path": path}):
        assert answer(tool, command).startswith("error: ")
    assert answer(tool, {"command": "view", "path": "/memories"}).count("\n") == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["memory"]


def test_a_deleted_file_is_forgotten_with_all_that_it_said(memory: HierarchicalMemory) -> None:
    tool = TinymemMemoryTool(memory)
    write(tool, "/memories/notes/secret.md", "The word is xylophone.")
    tool.call({"command": "insert", "path": "/memories/notes/secret.md", "insert_line": 0, "insert_text": "Hush:"})
    tool.call({"command": "delete", "path": "/memories/notes"})
    assert list(memory.history()) == []
    memory.flush()
    files = [path for path in memory.path.rglob("*") if path.is_file()]
    assert [path.name for path in files if b"xylophone" in path.read_bytes()] == []


def test_edits_at_once_are_all_there(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, store="exact") as one, HierarchicalMemory(tmp_path, store="exact") as other:
        write(TinymemMemoryTool(one), "/memories/log", "begin\n")

        def work(memory: HierarchicalMemory, name: str) -> None:
            for at in range(10):
                command = {"command": "insert", "path": "/memories/log", "insert_line": 1, "insert_text": f"{name}{at}"}
                TinymemMemoryTool(memory).call(command)

        threads = [threading.Thread(target=work, args=(memory, name)) for memory, name in ((one, "x"), (other, "y"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shown = str(TinymemMemoryTool(one).call({"command": "view", "path": "/memories/log"}))
    lines = {line.partition("\t")[2] for line in shown.splitlines()}
    assert lines >= {f"{name}{at}" for name in "xy" for at in range(10)}


def test_the_async_tool_does_the_same_and_clears_all(memory: HierarchicalMemory) -> None:
    async def use() -> str:
        tool = AsyncTinymemMemoryTool(AsyncHierarchicalMemory.over(memory))
        assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
        await tool.call({"command": "create", "path": "/memories/a", "file_text": "x"})
        await tool.call({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"})
        shown = str(await tool.call({"command": "view", "path": "/memories/b"}))
        with pytest.raises(ToolError, match="does not exist"):
            await tool.call({"command": "delete", "path": "/memories/a"})
        await tool.call({"command": "delete", "path": "/memories/b"})
        assert await tool.clear_all_memory() == "All memory cleared"
        return shown

    assert asyncio.run(use()) == "Here's the content of /memories/b with line numbers:\n     1\tx"
    assert list(memory.history()) == []


def test_a_file_whose_name_is_redacted_is_read_and_written_by_the_name_it_was_given() -> None:
    def redact(text: str) -> str:
        return re.sub(r"\w+@\w+", "[mail]", text)

    with HierarchicalMemory(redact=redact, embedder="hashing:64", store="exact") as memory:
        tool = TinymemMemoryTool(memory)
        made = {"command": "create", "path": "/memories/for/ann@home.md", "file_text": "Ann likes pasta."}
        assert "created" in answer(tool, made)
        assert "already exists" in answer(tool, made)
        answer(tool, {"command": "str_replace", "path": made["path"], "old_str": "pasta", "new_str": "pizza"})
        assert "Ann likes pizza." in answer(tool, {"command": "view", "path": made["path"]})
        assert "[mail].md" in answer(tool, {"command": "view", "path": "/memories/for"})
        assert "ann@home" not in "".join(str(step.to_dict()) for step in memory.history())

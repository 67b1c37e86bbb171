"""Claude's memory tool: it answers as the SDK's own does on a disk, and its files are steps of a memory."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tinymem import AsyncHierarchicalMemory, HierarchicalMemory
from tinymem.upkeep import Retention

anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed (extra: test-all)")
tools = pytest.importorskip("anthropic.tools.memory", reason="this anthropic has no memory tool on files")

from anthropic.lib.tools import ToolError  # noqa: E402

from tinymem.integrations.anthropic import AsyncTinymemMemoryTool, TinymemMemoryTool  # noqa: E402

Command = dict[str, Any]

NAMES = ("a", "b.md", ".c")
PATHS = st.lists(st.sampled_from([*NAMES, "..", "."]), max_size=3).map(lambda names: "/".join(["/memories", *names]))
ODD = st.sampled_from(["/memories/", "/memoriesa", "/etc/passwd", "/memories//a/", "/memories/../x", "a"])
PLACES = st.one_of(PATHS, PATHS, ODD)
TEXTS = st.text("ab\n\ré", max_size=8)


def commands(name: str, **arguments: Any) -> st.SearchStrategy[Command]:
    return st.fixed_dictionaries({"command": st.just(name), **arguments})


COMMANDS = st.one_of(
    commands("create", path=PLACES, file_text=TEXTS),
    commands("view", path=PLACES),
    commands("view", path=PLACES, view_range=st.lists(st.integers(-2, 6), max_size=3)),
    commands("str_replace", path=PLACES, old_str=TEXTS, new_str=TEXTS),
    commands("insert", path=PLACES, insert_line=st.integers(-1, 4), insert_text=TEXTS),
    commands("delete", path=PLACES),
    commands("rename", old_path=PLACES, new_path=PLACES),
)


def answer(tool: Any, command: Command) -> str:
    try:
        return str(tool.call(command))
    except ToolError as error:
        return f"error: {error}"
    except OSError:  # of the disk, which the SDK does not put into words
        return "error of the disk"


def alike(command: Command, ours: str, theirs: str) -> bool:
    if theirs == "error of the disk":
        return ours.startswith("error: ")
    if theirs.startswith("Here're"):  # a folder's own size is its file system's
        ours, theirs = (re.sub(r"(?m)^\S+\t(?=.*/$)", "", text) for text in (ours, theirs))
        ours, theirs = (re.sub(r":\n\S+\t", ":\n", text, count=1) for text in (ours, theirs))
    return ours == theirs


@settings(max_examples=60, deadline=None)
@given(st.lists(COMMANDS, max_size=14))
@example([
    {"command": "create", "path": "/memories/a/b.md", "file_text": "one\ntwo\none"},
    {"command": "str_replace", "path": "/memories/a/b.md", "old_str": "one", "new_str": "1"},
    {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/c/a"},
    {"command": "create", "path": "/memories/a/b.md", "file_text": ""},
    {"command": "delete", "path": "/memories/c"},
    {"command": "rename", "old_path": "/memories/x", "new_path": "/memories/x/y"},
    {"command": "create", "path": "/memories/a/b.md/c", "file_text": ""},
    {"command": "view", "path": "/memories/a/b.md", "view_range": [0, 0]},
])  # fmt: skip
def test_every_command_is_answered_as_the_sdk_answers_it(commands: list[Command]) -> None:
    with TemporaryDirectory() as folder, HierarchicalMemory(embedder="hashing:16", store="exact") as memory:
        ours, theirs = TinymemMemoryTool(memory), tools.BetaLocalFilesystemMemoryTool(folder)
        for command in [*commands, {"command": "view", "path": "/memories"}]:
            found, expected = answer(ours, command), answer(theirs, command)
            assert alike(command, found, expected), f"{command}: {found!r} instead of {expected!r}"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(tmp_path / "memory", store="exact") as opened:
        yield opened


def write(tool: Any, path: str, text: str) -> None:
    tool.call({"command": "create", "path": path, "file_text": text})


def test_what_a_file_says_now_is_recalled_and_what_it_said_is_history(memory: HierarchicalMemory) -> None:
    tool = TinymemMemoryTool(memory)
    write(tool, "/memories/ann.md", "Ann likes pasta.\n")
    tool.call({"command": "str_replace", "path": "/memories/ann.md", "old_str": "pasta", "new_str": "soup"})
    found = memory.recall("What does Ann like?").text
    assert "soup" in found and "pasta" not in found
    assert [step.text for step in memory.history()] == ["Ann likes pasta.\n", "Ann likes soup.\n"]


def test_a_deleted_file_is_forgotten_with_all_its_versions(memory: HierarchicalMemory) -> None:
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


def test_sessions_have_files_of_their_own(memory: HierarchicalMemory) -> None:
    for session in ("ann", "bob"):
        write(TinymemMemoryTool(memory, session=session), "/memories/name", session)
    shown = TinymemMemoryTool(memory, session="bob").call({"command": "view", "path": "/memories/name"})
    assert str(shown).endswith("\tbob")


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


def test_retention_forgets_old_versions_and_keeps_the_newest_of_each_file() -> None:
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        tool = TinymemMemoryTool(memory)
        for name in ("a", "b"):
            answer(tool, {"command": "create", "path": f"/memories/{name}", "file_text": "It is 0."})
            for at in range(3):
                change = {"old_str": str(at), "new_str": str(at + 1)}
                answer(tool, {"command": "str_replace", "path": f"/memories/{name}", **change})
        for limit in (Retention(max_steps=1), Retention(max_age=timedelta(0)), Retention(max_bytes=1)):
            memory.retain(limit, now=datetime.now(timezone.utc) + timedelta(days=1))
            assert [step.text for step in memory.history("memories")] == ["It is 3.", "It is 3."]
            for name in ("a", "b"):
                assert "It is 3." in answer(tool, {"command": "view", "path": f"/memories/{name}"})

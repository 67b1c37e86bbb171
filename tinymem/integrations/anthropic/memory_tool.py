"""Claude's memory tool (`memory_20250818`), with its files in a memory instead of on a disk.

    from tinymem.integrations.anthropic import TinymemMemoryTool

    runner = client.beta.messages.tool_runner(
        model="claude-sonnet-4-5", max_tokens=1_024, messages=messages, tools=[TinymemMemoryTool(memory)],
        betas=["context-management-2025-06-27"],
    )

What Claude writes to a file is a step of the memory: `recall` finds it, `export` has it, `delete` forgets it for
good, and every edit is a version of its own, of which only the newest one is recalled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinymem.errors import MissingExtraError, TinymemError
from tinymem.integrations.anthropic.files import FileError, MemoryFiles
from tinymem.integrations.native import AnyMemory, run_on, to_sync

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise MissingExtraError("the memory tool", "anthropic") from error

__all__ = ["AsyncTinymemMemoryTool", "TinymemMemoryTool"]

SESSION = "memories"


class TinymemMemoryTool(BetaAbstractMemoryTool):
    """The files of Claude's memory tool, kept in a memory.

    It answers as the SDK's `BetaLocalFilesystemMemoryTool` does, word for word. Any number of threads and processes may
    have the tool over one memory.

    Args:
        memory: The memory.
        session: The session of the steps that the files are; each has its own files.
        cache_control: As for the SDK's own tools.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     tool = TinymemMemoryTool(memory)
    ...     tool.call({"command": "create", "path": "/memories/ann.md", "file_text": "Ann likes pasta."})
    ...     [item.text for item in memory.recall("What does Ann like?").items]
    'File created successfully at: /memories/ann.md'
    ['Ann likes pasta.']
    """

    def __init__(self, memory: AnyMemory, *, session: str = SESSION, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(to_sync(memory), session)

    def view(self, command: Any) -> str:
        """Return the lines of a file, or what is in a folder."""
        return _said(lambda: self._files.view(command.path, command.view_range))

    def create(self, command: Any) -> str:
        """Make a new file."""
        return _said(lambda: self._files.create(command.path, command.file_text))

    def str_replace(self, command: Any) -> str:
        """Replace a text that a file has once."""
        return _said(lambda: self._files.replace(command.path, command.old_str, command.new_str))

    def insert(self, command: Any) -> str:
        """Insert lines into a file."""
        return _said(lambda: self._files.insert(command.path, command.insert_line, command.insert_text))

    def delete(self, command: Any) -> str:
        """Forget a file or a folder for good."""
        return _said(lambda: self._files.delete(command.path))

    def rename(self, command: Any) -> str:
        """Move a file or a folder."""
        return _said(lambda: self._files.rename(command.old_path, command.new_path))

    def clear_all_memory(self) -> str:
        """Forget all files for good."""
        return _said(self._files.clear)


class AsyncTinymemMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`: the event loop goes on while the memory works. Arguments as for the other one."""

    def __init__(self, memory: AnyMemory, *, session: str = SESSION, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        self._tool = TinymemMemoryTool(memory, session=session)

    async def _run(self, answer: Callable[..., str], *given: Any) -> str:
        return await run_on(self._memory, lambda memory: answer(*given))

    async def view(self, command: Any) -> str:
        """Return the lines of a file, or what is in a folder."""
        return await self._run(self._tool.view, command)

    async def create(self, command: Any) -> str:
        """Make a new file."""
        return await self._run(self._tool.create, command)

    async def str_replace(self, command: Any) -> str:
        """Replace a text that a file has once."""
        return await self._run(self._tool.str_replace, command)

    async def insert(self, command: Any) -> str:
        """Insert lines into a file."""
        return await self._run(self._tool.insert, command)

    async def delete(self, command: Any) -> str:
        """Forget a file or a folder for good."""
        return await self._run(self._tool.delete, command)

    async def rename(self, command: Any) -> str:
        """Move a file or a folder."""
        return await self._run(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """Forget all files for good."""
        return await self._run(self._tool.clear_all_memory)


def _said(answer: Callable[[], str]) -> str:
    """Return an answer; what goes wrong is raised as an error whose words reach the model."""
    try:
        return answer()
    except (FileError, TinymemError) as error:
        raise ToolError(str(error)) from error

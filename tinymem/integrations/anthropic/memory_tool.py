"""Claude's memory tool (`memory_20250818`), with its files in a memory instead of on a disk.

    from tinymem.integrations.anthropic import TinymemMemoryTool

    runner = client.beta.messages.tool_runner(
        model="claude-sonnet-4-5", max_tokens=1_024, messages=messages, tools=[TinymemMemoryTool(memory)],
        betas=["context-management-2025-06-27"],
    )

What Claude writes to a file is a step of the memory: `recall` finds it, `export` has it, `delete` forgets it for
good. Needs `anthropic` (pip install "tinymem-agents[anthropic]").
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock

from tinymem.errors import MissingExtraError, TinymemError
from tinymem.integrations.native import AnyMemory, run_on, to_sync
from tinymem.steps.types import FILE, MessageStep

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
except ImportError as error:
    raise MissingExtraError("the memory tool", "anthropic") from error

__all__ = ["AsyncTinymemMemoryTool", "TinymemMemoryTool"]

SESSION = "memories"


class TinymemMemoryTool(BetaAbstractMemoryTool):
    """The files of Claude's memory tool, kept in a memory: a step for each file.

    The SDK's own `BetaLocalFilesystemMemoryTool` carries out each command, in a folder that has the files for as long
    as that takes. Any number of threads and processes may have the tool over one memory in a folder.

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
        self._memory, self._session = to_sync(memory), session

    def view(self, command: Any) -> str:
        """Carry out a command."""
        return self._use(lambda tool: tool.execute(self._redacted(command)))

    create = str_replace = insert = delete = rename = view

    def clear_all_memory(self) -> str:
        """Forget all files for good."""
        return self._use(lambda tool: tool.clear_all_memory())

    def _use(self, act: Callable[[BetaLocalFilesystemMemoryTool], object]) -> str:
        """Do something with the SDK's own tool; what goes wrong is raised as an error whose words reach the model."""
        try:
            with self._alone(), TemporaryDirectory() as folder:
                tool = BetaLocalFilesystemMemoryTool(folder)
                known = self._unpack(tool)
                said = str(act(tool))
                self._pack(tool.memory_root, known)
                return said
        except OSError as error:
            raise ToolError(error.strerror or "The file system cannot do that.") from error
        except (TinymemError, ValueError) as error:
            raise ToolError(str(error)) from error

    def _alone(self) -> AbstractContextManager[Any]:
        """Keep others from the files: of two who edit one at once, neither may lose what the other wrote."""
        path = self._memory.path
        return FileLock(path / "files.lock", mode=0o600) if isinstance(path, Path) else nullcontext()

    def _unpack(self, tool: BetaLocalFilesystemMemoryTool) -> dict[str, str]:
        """Write the files that the memory has, by way of the tool, which lets none out of its folder."""
        known = {}
        for step in self._memory.history(self._session):
            path = str(step.metadata.get(FILE))
            if isinstance(step, MessageStep) and step.id == self._id(path):
                with suppress(ToolError, OSError, ValueError):
                    tool.call({"command": "create", "path": path, "file_text": step.content})
                    known[path] = str(step.content)
        return known

    def _pack(self, root: Path, known: dict[str, str]) -> None:
        """Archive the files that changed, and forget those that are gone."""
        files = {f"/memories/{file.relative_to(root).as_posix()}": file for file in root.rglob("*") if file.is_file()}
        texts = {path: file.read_bytes().decode() for path, file in files.items()}
        changed = [self._step(path, text) for path, text in texts.items() if text != known.get(path)]
        self._memory.archive(changed, on_conflict="replace")
        if gone := [self._id(path) for path in known if path not in texts]:
            self._memory.forget(gone)

    def _step(self, path: str, text: str) -> MessageStep:
        metadata = {FILE: path}
        return MessageStep("assistant", text, id=self._id(path), session=self._session, speaker=path, metadata=metadata)

    def _id(self, path: str) -> str:
        return hashlib.sha256(f"{self._session}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:22]

    def _redacted(self, command: Any) -> Any:
        """Return a command as the memory's redaction leaves it: files are known by the names that are kept."""
        texts = {name: value for name, value in command if isinstance(value, str) and name != "command"}
        redacted = {name: self._memory.apply_redaction(MessageStep("user", text)).text for name, text in texts.items()}
        return command.model_copy(update=redacted)


class AsyncTinymemMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`: the event loop goes on while the memory works. Arguments as for the other one."""

    def __init__(self, memory: AnyMemory, *, session: str = SESSION, cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        self._tool = TinymemMemoryTool(memory, session=session)

    async def view(self, command: Any) -> str:
        """Carry out a command."""
        return await run_on(self._memory, lambda memory: self._tool.view(command))

    create = str_replace = insert = delete = rename = view

    async def clear_all_memory(self) -> str:
        """Forget all files for good."""
        return await run_on(self._memory, lambda memory: self._tool.clear_all_memory())

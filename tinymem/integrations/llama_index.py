"""LlamaIndex: a block of its Memory, which recalls what left the short-term memory, and all other conversations.

from tinymem.integrations.llama_index import TinymemMemoryBlock

memory = Memory.from_defaults(session_id="thread-7", memory_blocks=[TinymemMemoryBlock(memory=own)])
await agent.run("Where is staging?", memory=memory)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tinymem.errors import MissingExtraError
from tinymem.integrations.native import AnyMemory, archive, find_relevant, list_tools, run_on
from tinymem.messages.formats.parts import strings
from tinymem.steps.step import Message

try:
    from llama_index.core.memory.memory import BaseMemoryBlock
    from llama_index.core.tools import FunctionTool, ToolMetadata
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.llama_index", "llama-index") from error

__all__ = ["TinymemMemoryBlock", "memory_tools"]

ROLES = {"user": "user", "system": "system", "developer": "developer"}


class TinymemMemoryBlock(BaseMemoryBlock):
    """A memory block over a memory.

    Attributes:
        memory: The memory.
        max_tokens: The most tokens of what is recalled.
        name: The name of the block.
        session: The name of the session that is written to, where the framework gives none.
    """

    memory: Any
    max_tokens: int = 1_000
    name: str = "tinymem"
    session: str = "llama-index"

    async def _aget(self, messages: Sequence[Any] | None = None, **options: Any) -> str:
        """Return what bears on the newest message of the user."""
        asked = [message.content for message in messages or () if message.role.value == "user" and message.content]
        return (await run_on(self.memory, find_relevant, asked[-1], self.max_tokens)).text if asked else ""

    async def _aput(self, messages: Sequence[Any]) -> None:
        """Archive messages that left the short-term memory."""
        sessions: dict[str, list[Any]] = {}
        for message in messages:
            sessions.setdefault(message.additional_kwargs.get("session_id") or self.session, []).append(message)
        for session, said in sessions.items():
            await run_on(self.memory, archive, list(_messages(said)), session, on_conflict="add")

    async def atruncate(self, content: str, tokens_to_truncate: int) -> None:
        """Leave the block out where the budget of the framework has no room for it."""
        return


class _Metadata(ToolMetadata):
    """Name, description and parameters of a tool, the parameters as the memory has them."""

    def __init__(self, schema: Message) -> None:
        super().__init__(schema["description"], schema["name"], fn_schema=None)
        self._parameters: dict[str, Any] = schema["parameters"]

    def get_parameters_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON schema."""
        return self._parameters


def memory_tools(memory: AnyMemory, **filters: Any) -> list[FunctionTool]:
    """Return tools by which the model searches the memory: `search_memory` and `open_memory`.

    Args:
        memory: The memory.
        filters: `session` and `where`, as for `HierarchicalMemory.tools`.
    """
    return [
        FunctionTool(tool.call, _Metadata(schema), async_fn=tool.acall) for tool, schema in list_tools(memory, filters)
    ]


def _messages(messages: Sequence[Any]) -> Iterator[Message]:
    """Yield messages of a chat, with calls and results of tools as text."""
    for message in messages:
        text = "\n".join(strings([block.model_dump(exclude={"block_type"}) for block in message.blocks]))
        if text:
            yield {"role": ROLES.get(message.role.value, "assistant"), "content": text}

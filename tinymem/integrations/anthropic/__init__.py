"""Anthropic's SDK: what to send of a history that you keep, and files for Claude's memory tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.integrations.anthropic.memory_tool import AsyncTinymemMemoryTool, TinymemMemoryTool
    from tinymem.integrations.anthropic.messages import amessages_request, messages_request, messages_tools
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "memory_tool": "AsyncTinymemMemoryTool TinymemMemoryTool",
        "messages": "amessages_request messages_request messages_tools",
    })  # fmt: skip

__all__ = ["AsyncTinymemMemoryTool", "TinymemMemoryTool", "amessages_request", "messages_request", "messages_tools"]

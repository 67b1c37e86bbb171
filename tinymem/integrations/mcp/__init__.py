"""A server of the Model Context Protocol: five tools over a memory, for any client.

    tinymem mcp --path ./memory

It needs the extra `mcp`, with version 2 of the official SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.integrations.mcp.server import memory_server
else:
    __getattr__, __dir__ = lazy_names(__name__, {"server": "memory_server"})

__all__ = ["memory_server"]

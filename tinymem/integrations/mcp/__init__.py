"""A server of the Model Context Protocol: five tools over a memory, for any client.

    tinymem mcp --path ./memory

It needs the extra `mcp`, and works with versions 1 and 2 of the official SDK.
"""

from tinymem.integrations.mcp.server import memory_server

__all__ = ["memory_server"]

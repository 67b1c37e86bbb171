"""The MCP server over HTTP without a token, at the port that is given, for the official conformance suite."""

from __future__ import annotations

import sys

import uvicorn

from tinymem import HierarchicalMemory
from tinymem.integrations.mcp import memory_server
from tinymem.integrations.mcp.server import web_app

HOSTS = ("127.0.0.1:*", "localhost:*")

if __name__ == "__main__":
    with HierarchicalMemory(embedder="hashing:64", store="exact") as memory:
        memory.add_message("user", "The staging server is at 10.0.0.7.")
        app = web_app(memory_server(memory), list(HOSTS), [f"http://{host}" for host in HOSTS])
        uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")

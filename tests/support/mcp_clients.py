"""The official client, and a server of ours in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from commands import command_environment
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

T = TypeVar("T")
TOKEN = "secret-of-a-test"


def options(path: Path) -> list[str]:
    return ["--path", str(path), "--embedder", "hashing:64"]


def stdio_server(path: Path, *more: str) -> StdioServerParameters:
    """The command of `tinymem mcp`."""
    command = ["-m", "tinymem.cli", "mcp", *options(path), *more]
    return StdioServerParameters(command=sys.executable, args=command, env=command_environment())


@asynccontextmanager
async def over_stdio(path: Path, *more: str) -> AsyncIterator[ClientSession]:
    """A client of `tinymem mcp` as a subprocess."""
    async with stdio_client(stdio_server(path, *more)) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def http_transport(url: str, token: str = TOKEN) -> AsyncIterator[Any]:
    """A transport to a server that listens."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=600) as http:
        yield streamable_http_client(url, http_client=http)


@asynccontextmanager
async def over_http(url: str, token: str = TOKEN) -> AsyncIterator[ClientSession]:
    """A client of a server that listens."""
    async with (
        http_transport(url, token) as transport,
        transport as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


@contextmanager
def listening(path: Path, *more: str, code: Sequence[str] = (), interrupt: float = 0) -> Iterator[str]:
    """The address of `tinymem mcp --http` as a subprocess, or of `code` in its place.

    With `interrupt` it is to end by itself, within so many seconds after Ctrl-C.
    """
    program = ["-c", *code] if code else ["-m", "tinymem.cli"]
    command = [sys.executable, *program, "mcp", *options(path), "--http", "--port", "0", *more]
    env = command_environment() | {"TINYMEM_TOKEN": TOKEN}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            line = running.stderr.readline()
            assert TOKEN not in line
            yield line.split()[0]
            if interrupt:
                running.send_signal(signal.SIGINT)
                running.wait(interrupt)
        finally:
            running.kill() if interrupt else running.terminate()
            running.communicate()


def text_of(result: Any) -> str:
    """What the model reads of a tool's result, which is all of it."""
    written = result.model_dump(by_alias=True, exclude_none=True, mode="json")
    assert "structuredContent" not in written
    (content,) = written["content"]
    assert content["type"] == "text"
    return str(content["text"])


def failed(result: Any) -> bool:
    return bool(result.model_dump(by_alias=True)["isError"])


async def call(session: ClientSession, tool: str, /, **arguments: Any) -> str:
    """The answer of a tool that works."""
    result = await session.call_tool(tool, arguments)
    text = text_of(result)
    assert not failed(result), text
    return text


def run(main: Callable[[], Awaitable[T]]) -> T:
    return anyio.run(main)

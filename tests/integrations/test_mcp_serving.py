"""`tinymem mcp` in a process of its own, asked by the official client over standard input and over HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from work import PATIENCE

import tinymem
from tinymem import HierarchicalMemory
from tinymem.errors import InputError

pytest.importorskip("mcp")

import mcp
from commands import command_environment
from mcp_clients import (
    TOKEN,
    call,
    failed,
    http_transport,
    listening,
    options,
    over_http,
    over_stdio,
    run,
    stdio_server,
    text_of,
)

from tinymem.integrations.mcp.serving import read_tokens

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
# A server with a tool that prints in every way there is.
PRINTING = """
import os, sys, tempfile
from tinymem import HierarchicalMemory
from tinymem.integrations.mcp import memory_server
from tinymem.integrations.mcp.serving import serve_stdio
def shout() -> str:
    print("printed")
    sys.stdout.write("written")
    sys.stdout.flush()
    os.write(1, b"to the descriptor")
    return "done"
server = memory_server(HierarchicalMemory(embedder="hashing:64", store="exact"))
server.add_tool(shout)
serve_stdio(server)
"""

# The command, which says at its end what it has imported.
LISTING = """
import atexit, sys
from tinymem.cli.main import main
atexit.register(lambda: print("imported", *sys.modules, file=sys.stderr))
main()
"""


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


READY = request(1, "initialize", **HELLO) + json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n"


class Raw:
    """A server that is spoken to line by line."""

    def __init__(self, code: str, *args: str) -> None:
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._running = subprocess.Popen(
            [sys.executable, "-c", code, *args], env=command_environment(), text=True, **pipes
        )

    def ask(self, lines: str) -> dict[str, Any]:
        """Send lines, and read one."""
        assert self._running.stdin is not None and self._running.stdout is not None
        self._running.stdin.write(lines)
        self._running.stdin.flush()
        answer: dict[str, Any] = json.loads(self._running.stdout.readline())
        return answer

    def end(self) -> tuple[str, str]:
        """Close its input; return what else it wrote."""
        out, err = self._running.communicate(timeout=PATIENCE)
        assert self._running.returncode == 0
        return out, err


def test_an_agent_uses_the_memory_over_stdio(tmp_path: Path) -> None:
    async def main() -> None:
        async with over_stdio(tmp_path / "m", "--also", "user", "--redact", "7tree") as session:
            assert len((await session.list_tools()).tools) == 5
            assert await call(session, "remember", text="The staging server is at 10.0.0.7.") == "Remembered as #1."
            assert "10.0.0.7" in await call(session, "recall", query="Where is staging?")
            wrong = await session.call_tool("open", {"id": "#9"})
            assert failed(wrong) and "no step 9" in text_of(wrong)
            assert "10.0.0.7" in await call(session, "recent")
            assert "\n#1 " in await call(session, "recall", query="Where is staging?")
            assert not (tmp_path / "m" / "user").exists()
            with HierarchicalMemory(tmp_path / "m", namespace="user", embedder="hashing:64") as memory:
                memory.add_message("user", "Staging is in Oslo.")
            assert "\nuser#1 " in await call(session, "recall", query="Where is staging?")
            await call(session, "remember", text="It is in 7tree.", replaces="user#1")
            assert "It is in [redacted]." in await call(session, "open", id="user#2")

    run(main)
    with HierarchicalMemory(tmp_path / "m", embedder="hashing:64") as memory:
        assert [step.text for step in memory.history()] == ["The staging server is at 10.0.0.7."]


@pytest.mark.slow
def test_only_the_protocol_reaches_standard_output() -> None:
    server = Raw(PRINTING)
    server.ask(READY)
    answer = server.ask(request(2, "tools/call", name="shout", arguments={}))
    assert answer["result"]["content"][0]["text"] == "done"
    out, err = server.end()
    assert out == "" and all(text in err for text in ("printed", "written", "to the descriptor"))


@pytest.mark.slow
def test_a_handshake_imports_the_sdk_and_opens_no_memory(tmp_path: Path) -> None:
    server = Raw(LISTING, "mcp", *options(tmp_path / "m"))
    answer = server.ask(READY)["result"]
    assert "tools" in server.ask(request(2, "tools/list"))["result"]
    out, err = server.end()
    (names,) = (set(line.split()[1:]) for line in err.splitlines() if line.startswith("imported "))
    assert names & {"numpy", "sqlite3", "tinymem.memory", "tinymem.embedders", "tinymem.stores"} == set()
    assert "tinymem.integrations.mcp.server" in names and not (tmp_path / "m").exists()
    assert answer["serverInfo"] == {"name": "tinymem", "version": tinymem.__version__} and out == ""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tmp_path_factory.mktemp("http") / "m") as address:
        yield address


def status(url: str, method: str = "POST", **headers: str) -> int:
    place = urlsplit(url)
    assert place.hostname is not None
    accepts = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection = http.client.HTTPConnection(place.hostname, place.port)
    body = request(1, "initialize", **HELLO) if method == "POST" else None
    connection.request(method, place.path, body, accepts | {name.title(): value for name, value in headers.items()})
    answer = connection.getresponse().status
    connection.close()
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_one_server_answers_clients_with_and_without_a_handshake(mode: str, url: str, tmp_path: Path) -> None:
    async def talk(transport: Any) -> str:
        async with mcp.Client(transport, mode=mode) as client:
            assert len((await client.list_tools()).tools) == 5
            await client.call_tool("remember", {"text": "The staging server is at 10.0.0.7."})
            assert "10.0.0.7" in text_of(await client.call_tool("recall", {"query": "Where is staging?"}))
            return str(client.session.protocol_version)

    async def main() -> None:
        async with http_transport(url) as transport:
            versions = {await talk(transport), await talk(stdio_server(tmp_path / "m"))}
        assert versions == {"2025-11-25" if mode == "legacy" else "2026-07-28"}

    run(main)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer other"}, {"authorization": TOKEN}])
def test_without_the_token_nothing_is_answered(url: str, method: str, given: dict[str, str]) -> None:
    assert urlsplit(url).hostname == "127.0.0.1"
    assert status(url, method, **given) == 401


def test_each_token_opens_its_namespace_and_no_other(tmp_path: Path) -> None:
    (file := tmp_path / "tokens").write_text("# ours\nfirst-token shop\nsecond-token farm\n", encoding="utf-8")
    file.chmod(0o600)
    with HierarchicalMemory(tmp_path / "m", namespace="all", embedder="hashing:64") as memory:
        memory.add_message("user", "The well is shut.")

    async def main(address: str) -> None:
        async with over_http(address, "first-token") as shop, over_http(address, "second-token") as farm:
            await call(shop, "remember", text="The staging server is at 10.0.0.7.")
            assert "10.0.0.7" in await call(shop, "recall", query="Where is staging?")
            assert "10.0.0.7" not in await call(farm, "recall", query="Where is staging?")
            await call(farm, "remember", text="The north field is dry.")
            assert "field" not in await call(shop, "recent")
            assert "all#1 user: The well is shut." in await call(shop, "recall", query="well")
            for tool, arguments in (("forget", {"ids": ["all#1"]}), ("remember", {"text": "x", "replaces": "all#1"})):
                refused = await shop.call_tool(tool, arguments)
                assert failed(refused) and "the namespace all is only read here" in text_of(refused)

    with listening(tmp_path / "m", "--tokens", str(file), "--also", "all") as address:
        run(lambda: main(address))
        assert status(address, authorization="Bearer third") == 401


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [("a b c\n", 0o600, "line 1"), ("a b\na c\n", 0o600, "line 2"), ("# none\n", 0o600, "no tokens"),
     ("a b\n", 0o644, "chmod 600"), ("a b\u2028c d\n", 0o600, "line 1"), ("tök b\n", 0o600, "line 1")],
)  # fmt: skip
def test_a_file_of_tokens_that_is_wrong_is_refused(text: str, mode: int, said: str, tmp_path: Path) -> None:
    (file := tmp_path / "tokens").write_text(text, encoding="utf-8")
    file.chmod(mode)
    with pytest.raises(InputError, match=said):
        read_tokens(file)


@pytest.mark.slow
def test_the_server_ends_when_it_is_interrupted_though_clients_are_there(tmp_path: Path) -> None:
    with ExitStack() as kept, listening(tmp_path / "m", interrupt=60) as address:
        place = urlsplit(address)
        begun = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nAuthorization: Bearer {TOKEN}"
        for said in ("", begun, f"{begun}\r\n\r\n"):
            kept.enter_context(socket.create_connection((place.hostname, place.port))).sendall(said.encode())
        assert status(address, authorization=f"Bearer {TOKEN}") == 200


def test_foreign_hosts_and_origins_are_refused(url: str) -> None:
    token = f"Bearer {TOKEN}"
    assert status(url, authorization=token) == status(url, authorization=f"bearer {TOKEN}") == 200
    assert status(url, authorization=token, host="evil.example") == 421
    assert status(url, authorization=token, origin="http://evil.example") == 403

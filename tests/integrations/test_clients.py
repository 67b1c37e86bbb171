"""Real clients against an API that was made up, on the loopback interface: `just clients` installs and runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels
from servers import running

from tinymem import HierarchicalMemory
from tinymem.runs.harness import ABOUT
from tinymem.runs.hooks.repositories import namespace_of

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
CLIENTS = Path(os.environ.get("TINYMEM_CLIENTS", "nowhere"))  # the folder with their programs
FACT = "The staging server of the shop is at 10.0.0.7, port 8443."
ASKED = "On which port does the staging server listen?"
NOTED = "Noted: port 8443."
SAID = [FACT, NOTED, ASKED, NOTED, "What did I say first?", NOTED]
CODEX = """
model = "m"
model_provider = "loopback"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = false
"""

Claude = Callable[..., str]


def program(name: str) -> str:
    if not (found := shutil.which(name, path=str(CLIENTS))):
        pytest.skip(f"{name} is not installed (just clients)")
    return found


@pytest.fixture
def api() -> Iterator[FakeModels]:
    with running(FakeModels(NOTED)) as server:
        yield server


@pytest.fixture
def claude(api: FakeModels, tmp_path: Path) -> Iterator[Claude]:
    """Claude Code in a repository, with a home of its own."""
    own = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    own |= {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
    own |= {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "120000"}  # the first prompt has the tools
    environment = {**os.environ, **own, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = program("claude")
    (tmp_path / "shop").mkdir()
    subprocess.run(["git", "init", "-q", "shop"], cwd=tmp_path, check=True)

    def run(*arguments: str, **where: Any) -> str:
        done = subprocess.run(
            [command, *arguments], cwd=tmp_path / where.get("folder", "shop"), env=environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    yield run
    subprocess.run(["pkill", "-f", f"hooks.warm {tmp_path}"], check=False)


def injected(body: dict[str, Any]) -> str:
    """All that stands in a prompt beside what was typed."""
    return json.dumps([one for one in body["messages"] if one["role"] != "assistant"])


def install_plugin(claude: Claude) -> None:
    claude("plugin", "validate", str(ROOT))
    claude("plugin", "marketplace", "add", str(ROOT))
    claude("plugin", "install", "tinymem@tinymem")


def install(client: str, home: Path) -> None:
    command = [sys.executable, "-m", "tinymem.cli", "install", client]
    subprocess.run(command, env={**os.environ, "HOME": str(home)}, check=True, capture_output=True)


def history(home: Path) -> list[str]:
    with HierarchicalMemory(home / ".tinymem", namespace=namespace_of(home / "shop")) as memory:
        return [step.text for step in memory.history()]


@pytest.mark.parametrize("way", ["plugin", "command"])
def test_what_one_session_of_claude_code_said_reaches_the_next(
    way: str, claude: Claude, api: FakeModels, tmp_path: Path
) -> None:
    install_plugin(claude) if way == "plugin" else install("claude-code", tmp_path)
    listed = claude("mcp", "list")
    assert "Connected" in listed and "SessionEnd" not in listed  # a hook that fails is named
    claude("-p", FACT)
    claude("-p", ASKED)
    first, second = api.prompts
    assert {"recall", "remember"} <= {tool["name"].rpartition("__")[2] for tool in first["tools"]}
    assert "hook success" not in injected(first)
    assert injected(second).count("The staging server of the shop") == 1  # by the greeting, and not again
    claude("-p", "--continue", "What did I say first?")
    assert history(tmp_path) == SAID


@pytest.fixture(params=["codex", "gemini"])
def other(request: pytest.FixtureRequest, api: FakeModels, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Codex and Gemini CLI in a repository, with a home of their own and what `tinymem install` gives them."""
    name: str = request.param
    command = program(name)
    (shop := tmp_path / "shop").mkdir()
    subprocess.run(["git", "init", "-q", "shop"], cwd=tmp_path, check=True)
    (folder := tmp_path / f".{name}").mkdir()
    if name == "codex":
        (folder / "config.toml").write_text(CODEX.format(url=api.url), "utf-8")
    else:
        (folder / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}', "utf-8")
        (folder / "trustedFolders.json").write_text(json.dumps({str(shop): "TRUST_FOLDER"}), "utf-8")
    install(name, tmp_path)
    if name == "codex":  # wait for the server, so that the first prompt has its tools on a slow machine too
        with (folder / "config.toml").open("a") as settings:
            settings.write("required = true\n")
    own = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "GEMINI_API_KEY": "none"}
    own |= {"GOOGLE_GEMINI_BASE_URL": api.url, "CODEX_HOME": str(tmp_path / ".codex")}
    environment = {**os.environ, **own, "PATH": f"{CLIENTS}{os.pathsep}{os.environ['PATH']}"}

    def run(prompt: str, resume: bool = False) -> str:
        if name == "codex":
            arguments = ["exec", *(["resume", "--last"] if resume else []), "--dangerously-bypass-hook-trust", prompt]
        else:
            arguments = ["-m", "gemini-2.5-pro", "--yolo", *(["--resume", "latest"] if resume else []), "-p", prompt]
        done = subprocess.run(
            [command, *arguments], cwd=shop, env=environment, text=True, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    subprocess.run(["pkill", "-f", f"hooks.warm {tmp_path}"], check=False)


def test_codex_and_gemini_remember_over_sessions_too(
    other: Callable[..., str], api: FakeModels, tmp_path: Path
) -> None:
    for prompt in (FACT, ASKED):
        assert NOTED in other(prompt)
    first, second = (json.dumps(prompt) for prompt in api.prompts)
    assert all(f'{name}"' in json.dumps(api.prompts[0]["tools"]) for name in ("recall", "remember"))
    assert ABOUT not in first and second.count("The staging server of the shop") == 1
    other("What did I say first?", resume=True)
    assert history(tmp_path) == SAID


def test_the_inspector_of_mcp_lists_and_calls(tmp_path: Path) -> None:
    server = [sys.executable, "-m", "tinymem.cli", "mcp", "--path", str(tmp_path / "memory")]

    def inspect(*arguments: str) -> Any:
        command = [program("mcp-inspector"), "--cli", *server, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return json.loads(done.stdout)

    assert len(inspect("--method", "tools/list")["tools"]) == 5
    inspect("--method", "tools/call", "--tool-name", "remember", "--tool-arg", f"text={FACT}")
    found = inspect("--method", "tools/call", "--tool-name", "recall", "--tool-arg", "query=Where is staging?")
    assert FACT in found["content"][0]["text"]

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
from fake_claude import FakeClaude
from servers import running

from tinymem import HierarchicalMemory
from tinymem.runs.hooks.repositories import namespace_of

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
CLIENTS = Path(os.environ.get("TINYMEM_CLIENTS", "nowhere"))  # the folder with their programs
FACT = "The staging server of the shop is at 10.0.0.7, port 8443."
ASKED = "On which port does the staging server listen?"

Claude = Callable[..., str]


def program(name: str) -> str:
    if not (found := shutil.which(name, path=str(CLIENTS))):
        pytest.skip(f"{name} is not installed (just clients)")
    return found


@pytest.fixture
def api() -> Iterator[FakeClaude]:
    with running(FakeClaude("Noted: port 8443.")) as server:
        yield server


@pytest.fixture
def claude(api: FakeClaude, tmp_path: Path) -> Iterator[Claude]:
    """Claude Code in a repository, with a home of its own."""
    own = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    own |= {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
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
        return done.stdout

    yield run
    subprocess.run(["pkill", "-f", f"hooks.warm {tmp_path}"], check=False)


def injected(body: dict[str, Any]) -> str:
    """All that stands in a prompt beside what was typed."""
    return json.dumps([one for one in body["messages"] if one["role"] != "assistant"])


def install_plugin(claude: Claude) -> None:
    claude("plugin", "validate", str(ROOT))
    claude("plugin", "marketplace", "add", str(ROOT))
    claude("plugin", "install", "tinymem@tinymem")


def install_by_command(claude: Claude, home: Path) -> None:
    command = [sys.executable, "-m", "tinymem.cli", "install", "claude-code"]
    subprocess.run(command, env={**os.environ, "HOME": str(home)}, check=True, capture_output=True)


@pytest.mark.parametrize("way", ["plugin", "command"])
def test_what_one_session_of_claude_code_said_reaches_the_next(
    way: str, claude: Claude, api: FakeClaude, tmp_path: Path
) -> None:
    install_plugin(claude) if way == "plugin" else install_by_command(claude, tmp_path)
    assert "Connected" in claude("mcp", "list")
    claude("-p", FACT)
    claude("-p", ASKED)
    first, second = api.prompts
    assert {"recall", "remember"} <= {tool["name"].rpartition("__")[2] for tool in first["tools"]}
    assert "hook success" not in injected(first)
    assert injected(second).count("The staging server of the shop") == 1  # by the greeting, and not again
    claude("-p", "--continue", "What did I say first?")
    with HierarchicalMemory(tmp_path / ".tinymem", namespace=namespace_of(tmp_path / "shop")) as memory:
        said = [(step.speaker, step.text) for step in memory.history()]
    assert [text for _, text in said] == [FACT, "Noted: port 8443.", ASKED, "Noted: port 8443.",
                                          "What did I say first?", "Noted: port 8443."]  # fmt: skip


def test_worktrees_share_what_was_said_and_the_prompt_gets_what_bears_on_it(
    claude: Claude, api: FakeClaude, tmp_path: Path
) -> None:
    install_by_command(claude, tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Begin"], cwd=tmp_path / "shop", check=True)
    subprocess.run([*git, "worktree", "add", "-q", "../tree"], cwd=tmp_path / "shop", check=True)
    with HierarchicalMemory(tmp_path / ".tinymem", namespace=namespace_of(tmp_path / "shop")) as memory:
        memory.add_message("user", FACT)
        for at in range(200):
            memory.add_message("user", f"Invoice {at} of the north farm is paid.")
    claude("-p", "Hello.", folder="tree")
    claude("-p", ASKED, folder="tree")
    assert FACT not in injected(api.prompts[0]) and FACT in injected(api.prompts[1])


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

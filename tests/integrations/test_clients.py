"""Real clients against an API that was made up, on the loopback interface: `just clients` installs and runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_models import FakeModels, Use
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
OPENCODE = {"model": "loopback/m", "autoupdate": False, "share": "disabled"}

Claude = Callable[..., str]


def program(name: str) -> str:
    if not (found := shutil.which(name, path=str(CLIENTS))):
        pytest.skip(f"{name} is not installed (just clients)")
    return found


def environment_of(home: Path, url: str) -> dict[str, str]:
    """The variables by which clients find their home and the made-up API."""
    own = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    own |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
    own |= {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "120000"}  # the first prompt has the tools
    own |= {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none", "CODEX_HOME": str(home / ".codex")}
    own |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "m"}
    own |= {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "m", "COPILOT_OFFLINE": "true"}
    own |= xdg_of(home)
    folders = [str(Path(sys.executable).parent), str(CLIENTS), os.environ["PATH"]]
    return {**os.environ, **own, "PATH": os.pathsep.join(folders)}


def xdg_of(home: Path) -> dict[str, str]:
    return {f"XDG_{name.upper()}_HOME": str(home / f".{name}") for name in ("config", "data", "cache", "state")}


@pytest.fixture
def api() -> Iterator[FakeModels]:
    with running(FakeModels(NOTED)) as server:
        yield server


@pytest.fixture
def claude(api: FakeModels, tmp_path: Path) -> Iterator[Claude]:
    """Claude Code in a repository, with a home of its own."""
    environment = environment_of(tmp_path, api.url)
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


def install(client: str, home: Path, command: str = "install") -> None:
    environment = {**os.environ, "HOME": str(home), **xdg_of(home)}
    subprocess.run([sys.executable, "-m", "tinymem.cli", command, client], env=environment, check=True)


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


OTHERS = ("codex", "gemini", "qwen", "copilot")
DEPLOY = "test -f .env && echo deployed && exit; echo 'error: DEPLOY_KEY is not set, see .env'; exit 1"
SHELLS: dict[str, tuple[str, str, dict[str, object]]] = {  # a client's tool, and what it is given
    "claude": ("Bash", "command", {"description": "Deploy"}),
    "codex": ("exec_command", "cmd", {}),
    "copilot": ("bash", "command", {"description": "Deploy"}),
    "gemini": ("run_shell_command", "command", {}),
    "opencode": ("bash", "command", {"description": "Deploy"}),
    "qwen": ("run_shell_command", "command", {"is_background": False}),
}


def write_settings(name: str, home: Path, url: str) -> None:
    """Write what a client needs to ask the made-up API in the repository."""
    (folder := home / {"opencode": ".config/opencode"}.get(name, f".{name}")).mkdir(parents=True)
    if name == "opencode":
        served = {"options": {"baseURL": f"{url}/v1", "apiKey": "none"}, "models": {"m": {}}}
        provider = {"loopback": {"npm": "@ai-sdk/openai-compatible", **served}}
        (folder / "opencode.json").write_text(json.dumps({**OPENCODE, "provider": provider}), "utf-8")
    elif name == "codex":
        (folder / "config.toml").write_text(CODEX.format(url=url), "utf-8")
    elif name in ("gemini", "qwen"):
        auth = {"gemini": "gemini-api-key", "qwen": "openai"}[name]
        memory = {"memory": {"enableManagedAutoMemory": False}}  # which Qwen Code asks the model for after each turn
        settings = {"security": {"auth": {"selectedType": auth}}, **(memory if name == "qwen" else {})}
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
        (folder / "trustedFolders.json").write_text(json.dumps({str(home / "shop"): "TRUST_FOLDER"}), "utf-8")
    install({"claude": "claude-code"}.get(name, name), home)
    if name == "codex":  # wait for the server, so that the first prompt has its tools on a slow machine too
        with (folder / "config.toml").open("a") as config:
            config.write("required = true\n")


def arguments(name: str, prompt: str, resume: bool) -> Sequence[str]:
    """The arguments with which a client answers a prompt, in its newest session or a new one."""
    return {
        "claude": ["--allowedTools", "Bash", "-p", prompt],
        "codex": ["exec", *(["resume", "--last"] if resume else []), "--dangerously-bypass-hook-trust", prompt],
        "gemini": ["-m", "gemini-2.5-pro", "--yolo", *(["--resume", "latest"] if resume else []), "-p", prompt],
        "copilot": ["--allow-all-tools", "--allow-all-paths", *(["--continue"] if resume else []), "-p", prompt],
        "opencode": ["run", *(["--continue"] if resume else []), *prompt.split()],
        "qwen": ["--yolo", *(["--continue"] if resume else []), "-p", prompt],
    }[name]


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, api: FakeModels, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """A client in a repository, with a home of its own and what `tinymem install` gives it."""
    name: str = request.param
    command = program(name)
    (shop := tmp_path / "shop").mkdir()
    subprocess.run(["git", "init", "-q", "shop"], cwd=tmp_path, check=True)
    write_settings(name, tmp_path, api.url)
    environment = environment_of(tmp_path, api.url) | {"PWD": str(shop)}

    def run(prompt: str, resume: bool = False) -> str:
        done = subprocess.run(
            [command, *arguments(name, prompt, resume)], cwd=shop, env=environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    subprocess.run(["pkill", "-f", f"hooks.warm {tmp_path}"], check=False)


def test_the_other_clients_remember_over_sessions_too(
    other: Callable[..., str], api: FakeModels, tmp_path: Path
) -> None:
    for prompt in (FACT, ASKED):
        assert NOTED in other(prompt)
    first, second = (json.dumps(prompt) for prompt in api.prompts)
    assert all(name in first for name in ("recall", "remember"))  # as tools, or as names of some to look up
    assert ABOUT not in first and second.count("The staging server of the shop") == 1
    other("What did I say first?", resume=True)
    other("Thanks.")  # Copilot CLI writes the end of a session behind its hooks: the next one reads it
    assert history(tmp_path)[: len(SAID)] == SAID


@pytest.mark.parametrize("other", ["claude", *OTHERS], indirect=True)
def test_a_command_that_fails_as_it_did_before_gets_a_reminder(
    other: Callable[..., str], api: FakeModels, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    tool, key, more = SHELLS[request.node.callspec.params["other"]]
    uses = [Use(tool, {key: command, **more}) for command in ("sh deploy.sh", "touch .env", "sh deploy.sh")]
    (tmp_path / "shop/deploy.sh").write_text(DEPLOY, "utf-8")
    api.script += uses
    other("Deploy the shop.")
    (tmp_path / "shop/.env").unlink()
    assert "failed like this" not in json.dumps(api.prompts)
    api.script += uses[:1]
    other("Deploy it again.")
    assert "sh deploy.sh failed like this; it passed in #" in json.dumps(api.prompts[-1])


@pytest.mark.parametrize("other", ["opencode"], indirect=True)
def test_opencode_has_all_that_in_two_sessions(other: Callable[..., str], api: FakeModels, tmp_path: Path) -> None:
    tool, key, more = SHELLS["opencode"]
    uses = [Use(tool, {key: command, **more}) for command in ("sh deploy.sh", "touch .env", "sh deploy.sh")]
    (tmp_path / "shop/deploy.sh").write_text(DEPLOY, "utf-8")
    api.script += uses
    assert NOTED in other(FACT)
    (tmp_path / "shop/.env").unlink()
    first = json.dumps(api.prompts)
    assert "tinymem_recall" in first and ABOUT not in first and "failed like this" not in first
    api.script += uses[:1]
    other(ASKED)
    last = json.dumps(api.prompts[-1])
    assert last.count("The staging server of the shop") == 1 and "sh deploy.sh failed like this; it passed in #" in last
    said = history(tmp_path)
    assert [text for text in said if "deploy.sh" not in text and ".env" not in text] == SAID[:4]
    assert [text.rpartition("code ")[2] for text in said if "DEPLOY_KEY" in text] == ["1", "1"]
    install("opencode", tmp_path, "uninstall")
    config = tmp_path / ".config/opencode"
    assert "tinymem" not in (config / "opencode.json").read_text("utf-8") and not [*config.glob("plugin/*")]


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

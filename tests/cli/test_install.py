"""`tinymem install`: what a client needs is written, what is there stays, and `uninstall` leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture

from tinymem import __version__
from tinymem.cli.install import EVENTS, GEMINI_EVENTS

ROOT = Path(__file__).parents[2]
OWN = json.dumps({"model": "x", "hooks": {"Stop": [{"hooks": []}]}}, indent=4) + "\n"
TABLES = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"\n'
CLIENTS = {
    "claude-code": {".claude/settings.json": OWN, ".claude.json": ""},
    "codex": {".codex/hooks.json": OWN, ".codex/config.toml": TABLES},
    "gemini": {".gemini/settings.json": OWN},
    "cursor": {".cursor/mcp.json": '{\n  "mcpServers": {\n    "other": {}\n  }\n}\n'},
    "vscode": {".config/Code/User/mcp.json": ""},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "TINYMEM_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


def texts(home: Path, names: dict[str, str]) -> dict[str, str]:
    return {name: (home / name).read_text("utf-8") if (home / name).exists() else "" for name in names}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_there_stays_and_what_was_added_goes(tinymem: Run, home: Path, client: str) -> None:
    before = CLIENTS[client]
    for name, text in before.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        if text:
            (home / name).write_text(text, "utf-8")
    assert "tinymem" in tinymem("install", client, "--dry-run").out and texts(home, before) == before
    assert tinymem("install", client).status == 0
    after = texts(home, before)
    assert all("tinymem" in text for text in after.values()) and str(home / ".tinymem") in "".join(after.values())
    assert "has it already" in tinymem("install", client).out and texts(home, before) == after
    assert tinymem("uninstall", client).status == 0
    assert texts(home, before) == before
    assert "nothing of ours" in tinymem("uninstall", client).out


def test_hooks_and_server_have_the_repository_and_the_user_beside_it(tinymem: Run, home: Path) -> None:
    tinymem("install", "claude-code")
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    commands = {event: groups[0]["hooks"][0]["command"] for event, groups in hooks.items()}
    assert {event: command.split()[1] for event, command in commands.items()} == EVENTS
    assert all("--also user" in command and "--namespace" not in command for command in commands.values())
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["tinymem"]
    assert {"mcp", "--repository", "user"} <= set(server["args"])
    tinymem("install", "claude-code", "--namespace", "work")
    assert "--namespace work" in (home / ".claude/settings.json").read_text()
    assert "--repository" not in (home / ".claude.json").read_text()


def test_gemini_gets_its_own_names_of_the_events_and_milliseconds(tinymem: Run, home: Path) -> None:
    tinymem("install", "gemini")
    hooks = json.loads((home / ".gemini/settings.json").read_text())["hooks"]
    ours = {event: groups[0]["hooks"][0] for event, groups in hooks.items()}
    assert {event: one["command"].split()[1:3] for event, one in ours.items()} == {
        event: [name, "--json"] for event, name in GEMINI_EVENTS.items()
    }
    assert {one["timeout"] for one in ours.values()} == {30_000}


def test_settings_that_are_no_json_are_left_as_they_are(tinymem: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{ // mine\n}")
    done = tinymem("install", "cursor")
    assert (
        done.status == 2 and "not plain JSON" in done.err and (home / ".cursor/mcp.json").read_text() == "{ // mine\n}"
    )
    assert "claude-code, codex" in tinymem("install", "emacs").err


@pytest.mark.skipif(not (ROOT / "hooks").is_dir(), reason="the tests run beside an installed wheel")
def test_the_plugin_runs_what_install_sets_up() -> None:
    hooks = json.loads((ROOT / "hooks/hooks.json").read_text())["hooks"]
    assert {event: groups[0]["hooks"][0]["command"].split()[1] for event, groups in hooks.items()} == EVENTS
    assert json.loads((ROOT / ".claude-plugin/plugin.json").read_text())["version"] == __version__
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text())
    assert [plugin["source"] for plugin in market["plugins"]] == ["./"]
    assert "--repository" in json.loads((ROOT / ".mcp.json").read_text())["mcpServers"]["tinymem"]["args"]
    assert (ROOT / "skills/memory/SKILL.md").read_text().startswith("---\nname: memory\n")

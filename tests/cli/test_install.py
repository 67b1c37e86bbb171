"""`tinymem install`: what a client needs is written, what is there stays, and `uninstall` leaves no trace."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from commands import Run
from commands import tinymem as tinymem  # the fixture

from tinymem import __version__
from tinymem.cli.install import EVENTS, GEMINI_EVENTS
from tinymem.cli.install.clients import SettingsFile, Setup, clients
from tinymem.cli.install.files import Revision, replace_all
from tinymem.errors import InputError

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugin"
OWN = json.dumps({"model": "x", "hooks": {"Stop": [{"hooks": []}]}}, indent=4)
TABLES = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"'
CLIENTS = {
    "claude-code": {".claude/settings.json": OWN, ".claude.json": ""},
    "codex": {".codex/hooks.json": OWN, ".codex/config.toml": TABLES},
    "gemini": {".gemini/settings.json": OWN},
    "qwen": {".qwen/settings.json": OWN},
    "copilot": {".copilot/hooks/tinymem.json": "", ".copilot/mcp-config.json": ""},
    "opencode": {
        ".config/opencode/plugin/tinymem.js": "",
        ".config/opencode/opencode.json": '{\n  "$schema": "x",\n  "mcp": {\n    "other": {}\n  }\n}',
    },
    "cursor": {".cursor/mcp.json": '{\n  "mcpServers": {\n    "other": {}\n  }\n}'},
    "vscode": {".config/Code/User/mcp.json": ""},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "QWEN_HOME", "TINYMEM_PATH", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


def texts(home: Path, names: dict[str, str]) -> dict[str, str]:
    return {name: (home / name).read_text("utf-8").rstrip() if (home / name).exists() else "" for name in names}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_there_stays_and_what_was_added_goes(tinymem: Run, home: Path, client: str) -> None:
    before = CLIENTS[client]
    for name, text in before.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        if text:
            (home / name).write_text(text, "utf-8")
    assert "tinymem" in tinymem("install", client, "--dry-run").out and texts(home, before) == before
    assert tinymem("install", client).status == 0
    assert texts(home, {f"{name}.bak": "" for name, text in before.items()}) == {
        f"{name}.bak": text for name, text in before.items()
    }
    after = texts(home, before)
    assert all("tinymem" in text for text in after.values()) and str(home / ".tinymem") in "".join(after.values())
    assert "has it already" in tinymem("install", client).out and texts(home, before) == after
    assert tinymem("uninstall", client).status == 0
    assert texts(home, before) == before
    assert "nothing of ours" in tinymem("uninstall", client).out


def test_hooks_and_server_have_the_repository_and_the_user_beside_it(tinymem: Run, home: Path) -> None:
    tinymem("install", "claude-code")
    hooks = json.loads((home / ".claude/settings.json").read_text("utf-8"))["hooks"]
    commands = {event: groups[0]["hooks"][0]["command"] for event, groups in hooks.items()}
    assert {event: command.split()[1] for event, command in commands.items()} == EVENTS
    assert all("--also user" in command and "--namespace" not in command for command in commands.values())
    server = json.loads((home / ".claude.json").read_text("utf-8"))["mcpServers"]["tinymem"]
    assert {"mcp", "--repository", "user"} <= set(server["args"]) and server["alwaysLoad"] is True
    tinymem("install", "claude-code", "--namespace", "work")
    assert "--namespace work" in (home / ".claude/settings.json").read_text("utf-8")
    assert "--repository" not in (home / ".claude.json").read_text("utf-8")


def test_settings_with_comments_are_left_alone_and_what_to_write_is_said(tinymem: Run, home: Path) -> None:
    (home / ".gemini").mkdir()
    file = home / ".gemini/settings.json"
    file.write_text('{ // mine\n  "model": "x"\n}', "utf-8")
    done = tinymem("install", "gemini")
    assert (done.status, file.read_text("utf-8")) == (
        2,
        '{ // mine\n  "model": "x"\n}',
    ) and "not plain JSON" in done.err
    by_hand = json.loads("{" + done.err.partition("{")[2])
    assert by_hand["mcpServers"]["tinymem"]["command"] and [*by_hand["hooks"]] == [*GEMINI_EVENTS]
    assert "hooks that run tinymem-hook" in tinymem("uninstall", "gemini").err
    assert "claude-code, codex" in tinymem("install", "emacs").err


def test_opencode_gets_one_list_as_the_command_and_a_plugin_that_is_renewed(tinymem: Run, home: Path) -> None:
    folder = home / ".config/opencode"
    tinymem("install", "opencode")
    server = json.loads((folder / "opencode.json").read_text("utf-8"))["mcp"]["tinymem"]
    assert server["type"] == "local" and server["command"][1] == "mcp" and "--repository" in server["command"]
    tinymem("install", "opencode", "--redact", "secrets")
    assert '"--redact", "secrets"] //' in (folder / "plugin/tinymem.js").read_text("utf-8")
    (folder / "plugin/tinymem.js").write_text("export const Mine = 1\n", "utf-8")
    assert tinymem("uninstall", "opencode").status == 0
    assert (folder / "plugin/tinymem.js").exists() and not (folder / "opencode.json").exists()


DRIVER = """
import { Tinymem } from "./plugin.mjs"
const session = { get: async ({ path }) => ({ data: { parentID: path.id === "sub" ? "top" : undefined } }) }
const hooks = await Tinymem({ client: { session }, directory: "." })
const said = []
for (const sessionID of ["top", "sub"]) {
  const parts = [{ type: "text", text: "Where is staging?", id: "prt_1" }]
  await hooks["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts })
  said.push(parts.map(({ id, text, synthetic }) => [id, text, !!synthetic]))
}
for (const [tool, exit] of [["bash", 0], ["bash", 3], ["edit", 3]]) {
  const result = { output: "seen", metadata: { exit } }
  await hooks["tool.execute.after"]({ tool, sessionID: "top", args: { command: "make" } }, result)
  said.push(result.output)
}
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "top" } } })
await hooks.dispose()
console.log(JSON.stringify(said))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("answer", [None, "exit 1", "echo no JSON", """echo '{"additionalContext": "known"}'"""])
def test_the_plugin_of_opencode_adds_what_is_known_and_stops_nothing(answer: str | None, tmp_path: Path) -> None:
    hook, asked = tmp_path / "hook", tmp_path / "asked"
    if answer:
        hook.write_text(f"#!/bin/sh\ncat >> {asked}; echo >> {asked}\n{answer}\n", "utf-8")
        hook.chmod(0o755)
    program = (resources.files("tinymem.cli.install") / "opencode.js").read_text("utf-8")
    (tmp_path / "plugin.mjs").write_text(program.replace("HOOK = []", f"HOOK = {json.dumps([str(hook)])}"), "utf-8")
    (tmp_path / "driver.mjs").write_text(DRIVER, "utf-8")
    done = subprocess.run(["node", "driver.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    prompt, subagents, passed, failed, edited = json.loads(done.stdout)
    asked_alone = [["prt_1", "Where is staging?", False]]
    assert (subagents, passed, edited) == (asked_alone, "seen", "seen")
    if answer and "known" in answer:
        assert prompt == [*asked_alone, ["prt_1m", "known", True]]
        assert failed == "seen\n\n<system-reminder>\nknown\n</system-reminder>"
        about, use = map(json.loads, asked.read_text("utf-8").splitlines())
        assert about["prompt"] == "Where is staging?" and use["tool_response"] == "seen\nCommand exited with code 3"
    else:
        assert (prompt, failed) == (asked_alone, "seen")


@pytest.mark.skipif(not PLUGIN.is_dir(), reason="the tests run beside an installed wheel")
def test_the_plugin_runs_what_install_sets_up() -> None:
    hooks = json.loads((PLUGIN / "hooks/hooks.json").read_text("utf-8"))["hooks"]
    assert {event: groups[0]["hooks"][0]["command"].split()[1] for event, groups in hooks.items()} == EVENTS
    assert json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text("utf-8"))["version"] == __version__
    market = json.loads((ROOT / ".claude-plugin/marketplace.json").read_text("utf-8"))
    assert [plugin["source"] for plugin in market["plugins"]] == ["./plugin"]
    assert "--repository" in json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))["mcpServers"]["tinymem"]["args"]
    assert (PLUGIN / "skills/memory/SKILL.md").read_text("utf-8").startswith("---\nname: memory\n")


# -- layouts ----------------------------------------------------------------------------------------------------------

FILES = {
    f"{name} {Path(file.path).name}": file
    for name, client in clients().items()
    for file in client.files
    if isinstance(file, SettingsFile)
}
JSON = [
    "", ' \r\n', '{"a": [1.5, -0, true, null, "\\ud800 \\u00e9, }"], "servers": {}}\n',
    '{"hooks": {"Stop": [{"matcher": "x", "hooks": [{"command": "say done"}]}], "Other": 3}, "z": 1e22}',
    '{"hooks": {"Stop": [{"hooks": [{"command": "my-tinymem-hook stop"}]}]}}',
    '{"mcpServers": {"b": {"url": "x"}}, "servers": {"b": {"url": "x"}}}',
]  # fmt: skip
TOML = [
    "", "x = 1\r\ny = 2", "# c\n\n\n", "mcp_servers = {}\n", TABLES, 'mcp_servers.other.command = "x"\n',
    "mcp_servers = { other = { command = 'x' } } # c\r\n", 's = """\n[mcp_servers.tinymem]\ncommand = 1\n"""\n',
]  # fmt: skip


def without_empties(value: Any) -> Any:
    """Return settings without the objects and lists on top that hold nothing, which mean nothing to a client."""
    parts = value.items() if isinstance(value, dict) else ()
    inner = {
        key: without_empties(part)
        for key, part in parts
        if key in ("mcp", "mcpServers", "servers", "hooks", "mcp_servers")
    }
    rest = {**value, **inner} if isinstance(value, dict) else value
    return {key: part for key, part in rest.items() if part not in ({}, [])} if isinstance(rest, dict) else rest


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name in FILES for text in (TOML if name.endswith("toml") else JSON)]
)
def test_settings_of_any_layout_say_afterwards_what_they_said_before(name: str, text: str) -> None:
    read: Any = tomlkit.parse if name.endswith("toml") else lambda found: json.loads(found.strip() or "{}")
    file = FILES[name]
    installed, _ = file.edit(text, Setup())
    assert installed and "tinymem" in str(read(installed)) and file.edit(installed, Setup()) == (installed, [])
    assert without_empties(read(text)) == without_empties(read(file.edit(installed, None)[0] or ""))
    assert [line for line in text.splitlines() if "# " in line and line.partition("# ")[2] not in installed] == []


def test_another_setup_keeps_the_keys_and_comments_that_a_user_added(tinymem: Run, home: Path) -> None:
    tinymem("install", "codex")
    config, hooks = home / ".codex/config.toml", home / ".codex/hooks.json"
    config.write_text(config.read_text("utf-8") + "required = true # wait\n\n# of z\n[z]\nq = 1\n", "utf-8")
    edited = hooks.read_text("utf-8").replace('"timeout": 30', '"timeout": 5, "statusMessage": "tea"')
    hooks.write_text(edited, "utf-8")
    tinymem("install", "codex", "--redact", "secrets", "--leave-alone", "~/diary")
    assert "required = true # wait\n\n# of z\n[z]\nq = 1\n" in config.read_text("utf-8")
    assert (
        hooks.read_text("utf-8").count('"statusMessage": "tea"') == hooks.read_text("utf-8").count('"timeout": 5,') == 6
    )
    assert all(
        file.read_text("utf-8").count("--redact") and "--leave-alone" in file.read_text("utf-8")
        for file in (config, hooks)
    )
    tinymem("uninstall", "codex")
    assert config.read_text("utf-8") == "[z]\nq = 1\n# of z\n" and not hooks.exists()


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("claude-code", ".claude.json", '{"mcpServers": "none"}'),
        ("claude-code", ".claude.json", '{"mcpServers": {"tinymem": {"url": "http://x"}}}'),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": {"hooks": []}}}'),
        ("codex", ".codex/config.toml", "mcp_servers = 3\n"),
        ("codex", ".codex/config.toml", "a = \n"),
        ("opencode", ".config/opencode/plugin/tinymem.js", "export const Mine = 1\n"),
    ],
)
def test_what_cannot_be_edited_is_refused_and_no_file_is_changed(
    tinymem: Run, home: Path, client: str, file: str, text: str
) -> None:
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text(text, "utf-8")
    done = tinymem("install", client)
    assert done.status == 2 and file in done.err and "was left as it is" in done.err
    assert [path for path in home.rglob("*") if path.is_file()] == [home / file] and (home / file).read_text(
        "utf-8"
    ) == text


# -- files ------------------------------------------------------------------------------------------------------------


def test_links_and_modes_stay_and_a_neighbours_token_is_not_shown(tinymem: Run, home: Path) -> None:
    (home / "dotfiles").mkdir()
    kept = home / "dotfiles/mcp.json"
    kept.write_text('{"mcpServers":{"bank":{"env":{"TOKEN":"geheim-77"}}}}', "utf-8")
    kept.chmod(0o640)
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(kept)
    done = tinymem("install", "cursor")
    assert "tinymem" in kept.read_text("utf-8") and (home / ".cursor/mcp.json").is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o640 and "geheim" not in done.out + done.err
    assert sorted(path.name for path in kept.parent.iterdir()) == ["mcp.json"]
    kept.unlink()  # and one that has nothing but ours goes with its link
    assert tinymem("install", "cursor").status == 0 and tinymem("uninstall", "cursor", "--dry-run").status == 0
    assert (home / ".cursor/mcp.json").exists() and kept.exists()
    assert tinymem("uninstall", "cursor").status == 0
    assert not kept.exists() and not (home / ".cursor/mcp.json").is_symlink()


def test_what_another_program_wrote_meanwhile_is_not_lost(home: Path) -> None:
    first, second = home / "a", home / "b"
    first.write_bytes(b"1")
    second.write_bytes(b"theirs")
    with pytest.raises(InputError, match="try again"):
        replace_all([Revision(first, b"1", b"2"), Revision(second, b"read before", b"ours")])
    assert {path.name: path.read_bytes() for path in home.iterdir()} == {"a": b"1", "b": b"theirs"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "address", ["postgresql://ann:s3cr:et@db/mem", "postgres://db/mem?sslpassword=x&password=s3cret&a=b"]
)
def test_the_password_of_a_database_is_written_and_not_printed(
    tinymem: Run, home: Path, client: str, address: str
) -> None:
    told = [tinymem(*args) for args in [("install", client, "--path", address), ("uninstall", client)]]
    assert all(done.status == 0 and "mem" in done.out and "s3cr" not in done.out + done.err for done in told)
    tinymem("install", client, "--path", address)
    assert address in "".join(texts(home, CLIENTS[client]).values())

"""The clients that `tinymem install` knows: their files, and what each is given."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tinymem.cli.install.events import CODEX_EVENTS, COPILOT_EVENTS, EVENTS, GEMINI_EVENTS, OURS, QWEN_EVENTS, TOOLS
from tinymem.cli.install.texts import read_json, read_toml, write_json, write_toml
from tinymem.cli.options import HOME
from tinymem.errors import InputError
from tinymem.runs.values import mapping_in, mappings_in, text_in, value_in

__all__ = ["Client", "SettingsFile", "Setup", "clients"]

NAME = "tinymem"  # of the server in a client's settings
USER = "user"  # the namespace that is read in all repositories
WAIT = 30  # seconds after which an agent gives a hook up
LOCAL = {"type": "local", "enabled": True, "timeout": 30_000}  # a server of OpenCode; it would wait for 5,000


@dataclass(frozen=True)
class Setup:
    """The memory that a client is given, which namespaces of it, and what is kept out of it."""

    path: str = HOME
    namespace: str | None = None
    per_worktree: bool = False
    redact: tuple[str, ...] = ()
    leave_alone: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """The options of server and hooks."""
        options = ["--path", str(Path(self.path).expanduser().absolute()) if "://" not in self.path else self.path]
        if self.namespace is not None:
            options += ["--namespace", self.namespace]
        else:
            options += [*(["--per-worktree"] if self.per_worktree else []), "--also", USER]
        for pattern in self.redact:
            options += ["--redact", pattern]
        for folder in self.leave_alone:
            options += ["--leave-alone", folder]
        return options

    @property
    def server(self) -> list[str]:
        """The command of the server, and its arguments."""
        shared = self.namespace is not None or self.per_worktree
        return [_program("tinymem"), "mcp", *self.options, *([] if shared else ["--repository"])]

    def hook(self, *words: str) -> list[str]:
        """The command of a hook, with an event and more options, and its arguments."""
        return [_program("tinymem-hook"), *words, *self.options]


def _program(name: str) -> str:
    """Return the whole path of one of our commands: clients start it from anywhere."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


class SettingsFile(NamedTuple):
    """A file of settings: the key of the servers in it, and the events that run hooks."""

    path: str
    servers: str = ""
    more: Mapping[str, Any] = {}  # of our server
    hooks: Mapping[str, str] = {}  # a client's event, and ours
    options: tuple[str, ...] = ()  # of the hooks
    unit: int = 1  # a hook's time is in parts of a second
    is_joined: bool = False  # a server's command and arguments are one list

    def edit(self, text: str, setup: Setup | None) -> tuple[str | None, list[str]]:
        """Put what is ours into a text, or take it out.

        Args:
            text: The text; an empty one for no file.
            setup: What is put; with None, ours is taken out.

        Returns:
            The text as it is to be, None where nothing is left in it, and what was added or taken out, in words.

        Raises:
            InputError: It cannot be read, or has something else where ours would stand.
        """
        read, write = (read_toml, write_toml) if self.path.endswith(".toml") else (read_json, write_json)
        settings: Any = read(text)
        changes = self._change(settings, setup)
        if not changes:
            return text, []
        after = write(settings, text)
        return after if after.strip() not in ("", "{}") else None, changes

    def _change(self, settings: Any, setup: Setup | None) -> list[str]:
        if setup is None:
            return [*_remove_server(settings, self.servers), *_remove_hooks(settings, self.hooks)]
        command, *arguments = setup.server
        server = {"command": setup.server} if self.is_joined else {"command": command, "args": arguments}
        changes = _put_server(settings, self.servers, self.more, server) if self.servers else []
        for event, name in self.hooks.items():
            command = " ".join(map(shlex.quote, setup.hook(name, *self.options)))
            changes += _put_hook(settings, event, {"type": "command", "command": command, "timeout": WAIT * self.unit})
        return changes


class PluginFile(NamedTuple):
    """A program that a client loads; all of it is ours."""

    path: str

    def edit(self, text: str, setup: Setup | None) -> tuple[str | None, list[str]]:
        """Write it as `SettingsFile.edit` does.

        Raises:
            InputError: It is not ours.
        """
        program = Path(__file__).with_name("opencode.js").read_text("utf-8")
        if text and not text.startswith(program.partition(",")[0]):
            if setup is None:
                return text, []
            raise InputError("it is a plugin of yours; take it out, or rename it, first")
        command = json.dumps(setup.hook() if setup else [])
        after = program.replace("HOOK = []", f"HOOK = {command}") if setup else ""
        return after or None, [f"+ {command}" if setup else "- all of it"] if after != text else []


class Client(NamedTuple):
    """A client: its files, and what to do then."""

    files: tuple[SettingsFile | PluginFile, ...]
    then: str


# -- editing ----------------------------------------------------------------------------------------------------------


def _put_server(settings: Any, key: str, more: Mapping[str, Any], server: dict[str, Any]) -> list[str]:
    """Put our server among those under a key; what a user added to it stays."""
    servers = _inner(settings, key, {})
    is_new = NAME not in servers
    entry = _inner(servers, NAME, {**more, **server})
    if "command" not in entry:
        raise InputError(f"{key}.{NAME} in it is a server of yours; take it out, or rename it, first")
    stale = {name: value for name, value in server.items() if entry.get(name) != value}
    entry.update(stale)
    return [f"+ {key}.{NAME}: {json.dumps(server)}"] if stale or is_new else []


def _inner(settings: Any, key: str, default: Any) -> Any:
    """Return what stands under a key, the default where nothing does; refuse another kind of value."""
    found = settings.setdefault(key, default)
    if not isinstance(found, type(default)):
        raise InputError(f"{key} in it should be {'a list' if isinstance(default, list) else 'an object'}")
    return found


def _remove_server(settings: Any, key: str) -> list[str]:
    if "command" not in mapping_in(settings, key, NAME):
        return []
    del settings[key][NAME]
    if not settings[key]:
        del settings[key]
    return [f"- {key}.{NAME}"]


def _put_hook(settings: Any, event: str, hook: dict[str, Any]) -> list[str]:
    """Put our hook behind those of an event, or its command into ours that is there."""
    groups = _inner(_inner(settings, "hooks", {}), event, [])
    ours = [*chain.from_iterable(map(_ours_in, groups))]
    stale = [other for other in ours if other["command"] != hook["command"]]
    for other in stale:
        other["command"] = hook["command"]
    if not ours:
        groups.append({**({"matcher": TOOLS[event]} if event in TOOLS else {}), "hooks": [hook]})
    return [f"+ hooks.{event}: {hook['command']}"] if stale or not ours else []


def _remove_hooks(settings: Any, events: Mapping[str, str]) -> list[str]:
    """Take our hooks out, and what is empty without them."""
    gone = []
    for event in events:
        for group in mappings_in(settings, "hooks", event):
            hooks: Any = value_in(group, "hooks")
            ours = _ours_in(group)
            for hook in ours:
                hooks.remove(hook)
            if ours and not hooks:
                settings["hooks"][event].remove(group)
            gone += [event] * len(ours)
        if event in gone and not settings["hooks"][event]:
            del settings["hooks"][event]
    if gone and not settings["hooks"]:
        del settings["hooks"]
    return [f"- hooks.{event}" for event in gone]


def _ours_in(group: Any) -> list[Any]:
    """Return the hooks of a group that run our command."""
    return [hook for hook in mappings_in(group, "hooks") if _is_ours(hook)]


def _is_ours(hook: Mapping[str, Any]) -> bool:
    """Return True for a hook that runs our command, and nothing besides."""
    command = text_in(hook, "command")
    if _JOINT.search(_QUOTED.sub("", command)):
        return False
    try:
        program, *words = shlex.split(command)
    except ValueError:  # it is empty, or a quotation mark is not closed
        return False
    name = re.split(r"[/\\]", program)[-1].removesuffix(".exe")
    return name == "tinymem-hook" and bool(words) and words[0] in OURS


_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_JOINT = re.compile(r"[;&|<>()`\n]")  # of commands in a shell


# -- clients ----------------------------------------------------------------------------------------------------------


def clients() -> dict[str, Client]:
    """Return the clients by name; where their files are, the environment says."""
    codex = os.environ.get("CODEX_HOME", "~/.codex")
    copilot = os.environ.get("COPILOT_HOME", "~/.copilot")
    options = ("--flat", "--transcript", f"{copilot}/session-state/*/events.jsonl")
    opencode = f"{os.environ.get('XDG_CONFIG_HOME', '~/.config')}/opencode"
    claude, qwen = os.environ.get("CLAUDE_CONFIG_DIR"), os.environ.get("QWEN_HOME", "~/.qwen")
    return {
        "claude-code": Client(
            (SettingsFile(f"{claude or '~/.claude'}/settings.json", hooks=EVENTS),
             SettingsFile(f"{claude or '~'}/.claude.json", "mcpServers", {"type": "stdio", "alwaysLoad": True})),
            "Restart Claude Code; /hooks and /mcp show them.",
        ),
        "codex": Client(
            (SettingsFile(f"{codex}/hooks.json", hooks=CODEX_EVENTS),
             SettingsFile(f"{codex}/config.toml", "mcp_servers")),
            "Restart Codex, and trust the hooks when it asks; /mcp shows the server.",
        ),
        "gemini": Client(
            (SettingsFile("~/.gemini/settings.json", "mcpServers", {}, GEMINI_EVENTS, ("--json",), 1_000),),
            "Restart Gemini CLI, in a folder that it trusts; /mcp shows the server.",
        ),
        "qwen": Client(
            (SettingsFile(f"{qwen}/settings.json", "mcpServers", {}, QWEN_EVENTS, ("--json", "--greet"), 1_000),),
            "Restart Qwen Code, in a folder that it trusts; /mcp shows the server.",
        ),
        "copilot": Client(
            (SettingsFile(f"{copilot}/hooks/tinymem.json", hooks=COPILOT_EVENTS, options=options),
             SettingsFile(f"{copilot}/mcp-config.json", "mcpServers", {"type": "local", "tools": ["*"]})),
            "Restart Copilot CLI; /mcp shows the server.",
        ),
        "opencode": Client(
            (PluginFile(f"{opencode}/plugin/tinymem.js"),
             SettingsFile(f"{opencode}/opencode.json", "mcp", LOCAL, is_joined=True)),
            "Restart OpenCode; opencode mcp list shows the server.",
        ),
        "cursor": Client(
            (SettingsFile("~/.cursor/mcp.json", "mcpServers"),),
            "Restart Cursor, and turn the server on under Settings, MCP.",
        ),
        "vscode": Client(
            (SettingsFile(f"{_code_folder()}/mcp.json", "servers", {"type": "stdio"}),),
            "In VS Code, run: MCP: List Servers, tinymem, Start.",
        ),
    }  # fmt: skip


def _code_folder() -> str:
    if sys.platform == "darwin":
        return "~/Library/Application Support/Code/User"
    return f"{os.environ.get('APPDATA', '~')}/Code/User" if os.name == "nt" else "~/.config/Code/User"

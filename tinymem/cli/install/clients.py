"""The clients that `tinymem install` knows: their files, and what each is given."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tinymem.cli.install.events import EVENTS, GEMINI_EVENTS
from tinymem.cli.install.json_text import MARK, JsonText
from tinymem.cli.install.toml_text import HEADER, OUTER, put_table, read_toml, remove_table, render_table
from tinymem.cli.options import HOME
from tinymem.errors import InputError

__all__ = ["Client", "Setup", "clients"]

NAME = "tinymem"  # of the server in a client's settings
USER = "user"  # the namespace that is read in all repositories
WAIT = 30  # seconds after which an agent gives a hook up


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
    def server(self) -> dict[str, Any]:
        """The command of the server, and its arguments."""
        shared = self.namespace is not None or self.per_worktree
        return {
            "command": _program("tinymem"),
            "args": ["mcp", *self.options, *([] if shared else ["--repository"])],
        }

    def hook(self, event: str, *more: str) -> str:
        """The command of a hook, for a shell."""
        return " ".join(map(shlex.quote, [_program("tinymem-hook"), event, *more, *self.options]))


def _program(name: str) -> str:
    """Return the whole path of one of our commands: clients start it from anywhere."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


class Edited(NamedTuple):
    """The text of a file as it is to be, None for no file, and what is added to it and taken out, in words."""

    text: str | None
    changes: list[str]


Change = Callable[[str | None, Setup | None], Edited]  # with no setup, what is ours is taken out


class Client(NamedTuple):
    """A client: its files, each with what changes it, and what to do then."""

    files: Mapping[str, Change]
    then: str


# -- JSON -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Json:
    """Edits of a settings file in JSON: a server among those under a key, and hooks."""

    servers: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)  # of the server
    hooks: Mapping[str, str] = field(default_factory=dict)  # a client's event, and ours
    options: tuple[str, ...] = ()  # of the hooks
    unit: int = 1  # a hook's time is in parts of a second
    has_comments: bool = True  # the client allows them

    def __call__(self, text: str | None, setup: Setup | None) -> Edited:
        settings = JsonText(text, self.has_comments)
        before = self._others(settings.value)
        if setup is None:
            self._remove(settings)
        else:
            self._put(settings, setup)
        if not settings.is_removed and self._others(JsonText(settings.text, self.has_comments).value) != before:
            raise InputError("editing it would have changed more than what is ours; please report this")
        return Edited(None if settings.is_removed else settings.text, settings.changes)

    def _put(self, settings: JsonText, setup: Setup) -> None:
        if self.servers:
            self._put_server(settings, setup)
        for event, name in self.hooks.items():
            self._put_hook(settings, event, setup.hook(name, *self.options))

    def _put_server(self, settings: JsonText, setup: Setup) -> None:
        entry = {**self.more, **setup.server}
        by_hand = {self.servers: {NAME: entry}}
        _expect(settings, dict, by_hand, self.servers)
        _expect(settings, dict, by_hand, self.servers, NAME)
        found = settings.find(self.servers, NAME)
        if found is None:
            settings.put((self.servers, NAME), entry)
            return
        if "command" not in found.value:
            raise InputError(f"{self.servers}.{NAME} in it is a server of yours; take it out, or rename it, first")
        for key, value in entry.items():
            if key not in found.value:
                settings.put((self.servers, NAME, key), value)
            elif key in setup.server and found.value[key] != value:
                settings.replace((self.servers, NAME, key), value)

    def _put_hook(self, settings: JsonText, event: str, command: str) -> None:
        hook = {"type": "command", "command": command, "timeout": WAIT * self.unit}
        by_hand = {"hooks": {event: [{"hooks": [hook]}]}}
        _expect(settings, dict, by_hand, "hooks")
        _expect(settings, list, by_hand, "hooks", event)
        ours = list(_our_hooks(settings, event))
        for path in reversed(ours[1:]):
            _remove_hook(settings, path)
        if not ours:
            groups = settings.find("hooks", event)
            group = {"hooks": [hook]}
            path = ("hooks", event) if groups is None else ("hooks", event, len(groups.value))
            settings.put(path, [group] if groups is None else group)
        elif _command(settings, ours[0]) != command:
            settings.replace((*ours[0], "command"), command)

    def _remove(self, settings: JsonText) -> None:
        for event in reversed(list(self.hooks)):
            for path in reversed(list(_our_hooks(settings, event))):
                _remove_hook(settings, path)
        while self.servers and not settings.is_removed and settings.find(self.servers, NAME):
            settings.remove((self.servers, NAME))

    def _others(self, settings: Any) -> Any:
        """Return the settings without what is ours, and without what is empty then."""
        rest = deepcopy(settings)
        servers = rest.get(self.servers)
        if isinstance(servers, dict):
            servers.pop(NAME, None)
        hooks = rest.get("hooks")
        for event in self.hooks if isinstance(hooks, dict) else ():
            hooks[event] = [_without_ours(group) for group in _listed(hooks.get(event))]
            hooks[event] = [group for group in hooks[event] if group not in ({}, {"hooks": []})]
        emptied = {self.servers: servers, "hooks": hooks}
        for key, value in emptied.items():
            if isinstance(value, dict) and not any(value.values()):
                del rest[key]
        return rest


def _expect(settings: JsonText, kind: type, by_hand: Mapping[str, Any], *path: str) -> None:
    """Refuse settings that have something else at a path."""
    found = settings.find(*path)
    if found is not None and not isinstance(found.value, kind):
        name = "an object" if kind is dict else "a list"
        raise InputError(f"{'.'.join(path)} in it should be {name}. Write by hand: {json.dumps(by_hand)}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _without_ours(group: Any) -> Any:
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    return {**group, "hooks": [hook for hook in group["hooks"] if not _is_ours(hook)]}


def _our_hooks(settings: JsonText, event: str) -> Iterator[tuple[str | int, ...]]:
    """Find where the hooks of an event stand that run our command."""
    groups = settings.find("hooks", event)
    for place, group in enumerate(_listed(groups.value) if groups else ()):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for inner, hook in enumerate(hooks if isinstance(hooks, list) else ()):
            if _is_ours(hook):
                yield "hooks", event, place, "hooks", inner


def _remove_hook(settings: JsonText, path: tuple[str | int, ...]) -> None:
    """Take a hook out, and its group where it was all in there."""
    group = settings.find(*path[:3])
    is_alone = group is not None and len(group.value["hooks"]) == 1
    settings.remove(path[:3] if is_alone else path)


def _command(settings: JsonText, path: tuple[str | int, ...]) -> str:
    found = settings.find(*path, "command")
    return found.value if found else ""


def _is_ours(hook: Any) -> bool:
    """Return True for a hook that runs our command, and nothing besides."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str) or _JOINT.search(_QUOTED.sub("", command)):
        return False
    try:
        program, *words = shlex.split(command)
    except ValueError:  # it is empty, or a quotation mark is not closed
        return False
    name = program.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    event = words[:1] if name == "tinymem-hook" else words[1:2] if [name, *words[:1]] == [NAME, "hook"] else []
    return bool(event) and event[0] in EVENTS.values()


_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_JOINT = re.compile(r"[;&|<>()`\n]")  # of commands in a shell


# -- TOML -------------------------------------------------------------------------------------------------------------


def _toml_server(text: str | None, setup: Setup | None) -> Edited:
    """Put our server behind the rest of Codex's settings, or take it out."""
    mark = MARK if text and text.startswith(MARK) else ""
    text = text if text is None else text.removeprefix(mark)
    table, sign, todo = HEADER, "-", "Take out by hand"
    if setup is not None:
        table, sign, todo = render_table(setup.server), "+", "Write by hand"
    try:
        after = remove_table(text or "") if setup is None else put_table(text, setup.server)
        if _other_tables(after) != _other_tables(text):
            raise InputError("editing it would have changed more than what is ours")
    except InputError as error:
        raise InputError(f"{error}. {todo}: {table}") from error
    return Edited(after if after is None else mark + after, [f"{sign} {line}" for line in table.splitlines()])


def _other_tables(text: str | None) -> Any:
    """Return the settings without our table, and without what is empty then."""
    rest = read_toml(text or "").unwrap()
    servers = rest.get(OUTER)
    if isinstance(servers, dict):
        servers.pop(NAME, None)
    if not servers:
        rest.pop(OUTER, None)
    return rest


# -- clients ----------------------------------------------------------------------------------------------------------


def clients() -> dict[str, Client]:
    """Return the clients by name; where their files are, the environment says."""
    hooks = {event: name for event, name in EVENTS.items() if event not in ("SubagentStop", "SessionEnd")}
    codex = os.environ.get("CODEX_HOME", "~/.codex")
    claude = os.environ.get("CLAUDE_CONFIG_DIR")
    return {
        "claude-code": Client(
            {f"{claude or '~/.claude'}/settings.json": _Json(hooks=EVENTS),
             f"{claude or '~'}/.claude.json": _Json("mcpServers", {"type": "stdio", "alwaysLoad": True})},
            "Restart Claude Code; /hooks and /mcp show them.",
        ),
        "codex": Client(
            {f"{codex}/hooks.json": _Json(hooks=hooks, has_comments=False), f"{codex}/config.toml": _toml_server},
            "Restart Codex, and trust the hooks when it asks; /mcp shows the server.",
        ),
        "gemini": Client(
            {"~/.gemini/settings.json": _Json("mcpServers", hooks=GEMINI_EVENTS, options=("--json",), unit=1_000)},
            "Restart Gemini CLI, in a folder that it trusts; /mcp shows the server.",
        ),
        "cursor": Client(
            {"~/.cursor/mcp.json": _Json("mcpServers", has_comments=False)},
            "Restart Cursor, and turn the server on under Settings, MCP.",
        ),
        "vscode": Client(
            {f"{_code_folder()}/mcp.json": _Json("servers", {"type": "stdio"})},
            "In VS Code, run: MCP: List Servers, tinymem, Start.",
        ),
    }  # fmt: skip


def _code_folder() -> str:
    if sys.platform == "darwin":
        return "~/Library/Application Support/Code/User"
    return f"{os.environ.get('APPDATA', '~')}/Code/User" if os.name == "nt" else "~/.config/Code/User"

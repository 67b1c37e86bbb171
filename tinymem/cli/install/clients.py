"""The clients that `tinymem install` knows: their files, and what each is given."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tinymem.cli.install.events import EVENTS, GEMINI_EVENTS
from tinymem.cli.install.json_text import MARK, JsonText
from tinymem.cli.install.json_text import Path as Place
from tinymem.cli.install.toml_text import HEADER, OUTER, put_table, read_toml, remove_table, render_table
from tinymem.cli.options import HOME
from tinymem.errors import InputError
from tinymem.runs.values import value_in

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
        if setup is None:
            self._remove(settings)
        else:
            self._put(settings, setup)
        return Edited(None if settings.is_removed else settings.text, settings.changes)

    def _put(self, settings: JsonText, setup: Setup) -> None:
        if self.servers:
            self._put_server(settings, setup)
        for event, name in self.hooks.items():
            self._put_hook(settings, event, setup.hook(name, *self.options))

    def _put_server(self, settings: JsonText, setup: Setup) -> None:
        path, entry = (self.servers, NAME), {**self.more, **setup.server}
        by_hand = {self.servers: {NAME: entry}}
        _expect(settings, dict, by_hand, self.servers)
        _expect(settings, dict, by_hand, *path)
        found = settings.find(*path)
        if found is None:
            settings.put(path, entry)
            return
        if "command" not in found.value:
            raise InputError(f"{self.servers}.{NAME} in it is a server of yours; take it out, or rename it, first")
        for key, value in entry.items():
            if key not in found.value:
                settings.put((*path, key), value)
            elif key in setup.server and found.value[key] != value:
                settings.replace((*path, key), value)

    def _put_hook(self, settings: JsonText, event: str, command: str) -> None:
        hook = {"type": "command", "command": command, "timeout": WAIT * self.unit}
        group = {"hooks": [hook]}
        by_hand = {"hooks": {event: [group]}}
        _expect(settings, dict, by_hand, "hooks")
        _expect(settings, list, by_hand, "hooks", event)
        groups, ours = settings.find("hooks", event), [*_our_hooks(settings, event)]
        for path in ours[:0:-1]:
            _remove_hook(settings, path)
        if groups is None:
            settings.put(("hooks", event), [group])
        elif not ours:
            settings.put(("hooks", event, len(groups.value)), group)
        elif _value(settings, *ours[0], "command") != command:
            settings.replace((*ours[0], "command"), command)

    def _remove(self, settings: JsonText) -> None:
        for event in [*self.hooks][::-1]:
            for path in [*_our_hooks(settings, event)][::-1]:
                _remove_hook(settings, path)
        while self.servers and not settings.is_removed and settings.find(self.servers, NAME):
            settings.remove((self.servers, NAME))


def _expect(settings: JsonText, kind: type, by_hand: Mapping[str, Any], *path: str) -> None:
    """Refuse settings that have something else at a path."""
    found = settings.find(*path)
    if found is not None and not isinstance(found.value, kind):
        name = "an object" if kind is dict else "a list"
        raise InputError(f"{'.'.join(path)} in it should be {name}. Write by hand: {json.dumps(by_hand)}")


def _value(settings: JsonText, *path: str | int) -> Any:
    found = settings.find(*path)
    return found.value if found else None


def _our_hooks(settings: JsonText, event: str) -> Iterator[Place]:
    """Find where the hooks of an event stand that run our command."""
    groups = _value(settings, "hooks", event)
    for place, group in enumerate(groups if isinstance(groups, list) else ()):
        hooks = value_in(group, "hooks")
        for inner, hook in enumerate(hooks if isinstance(hooks, list) else ()):
            if _is_ours(hook):
                yield "hooks", event, place, "hooks", inner


def _remove_hook(settings: JsonText, path: Place) -> None:
    """Take a hook out, and its group where it was all in there."""
    is_alone = len(_value(settings, *path[:-1])) == 1
    settings.remove(path[:3] if is_alone else path)


def _is_ours(hook: Any) -> bool:
    """Return True for a hook that runs our command, and nothing besides."""
    command = value_in(hook, "command")
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

"""The commands that set up agents: `tinymem install` and `tinymem uninstall`."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple

import typer

from tinymem.cli.shared import say
from tinymem.errors import InputError

__all__ = ["EVENTS", "GEMINI_EVENTS", "Client", "Setup", "install", "uninstall"]

NAME = "tinymem"  # of the server in a client's settings
PATH = "~/.tinymem"
USER = "user"  # the namespace that is read in all repositories
EVENTS = {
    "SessionStart": "session-start", "UserPromptSubmit": "prompt", "PreCompact": "pre-compact", "Stop": "stop",
    "SubagentStop": "subagent-stop", "SessionEnd": "session-end",
}  # fmt: skip
GEMINI_EVENTS = {
    "SessionStart": "session-start", "BeforeAgent": "prompt", "PreCompress": "pre-compact", "AfterAgent": "stop",
    "SessionEnd": "session-end",
}  # fmt: skip
WAIT = 30  # seconds after which an agent gives a hook up
Settings = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """The memory that a client is given, and which namespaces of it."""

    path: str = PATH
    namespace: str | None = None
    per_worktree: bool = False

    @property
    def options(self) -> list[str]:
        """The options of server and hooks."""
        where = ["--path", str(Path(self.path).expanduser().absolute()) if "://" not in self.path else self.path]
        if self.namespace is not None:
            return [*where, "--namespace", self.namespace]
        return [*where, *(["--per-worktree"] if self.per_worktree else []), "--also", USER]

    @property
    def server(self) -> tuple[str, list[str]]:
        """The command of the server, and its arguments."""
        shared = self.namespace is not None or self.per_worktree
        return _program("tinymem"), ["mcp", *self.options, *([] if shared else ["--repository"])]

    def hook(self, event: str, *more: str) -> str:
        """The command of a hook, for a shell."""
        return " ".join(map(quote, [_program("tinymem-hook"), event, *more, *self.options]))


def _program(name: str) -> str:
    """Return the whole path of one of our commands: clients start it from anywhere."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


Edit = Callable[[Settings, Setup | None], None]
Change = Callable[[str, Setup | None], str]  # of a file's text; with no setup, what was ours is taken out


class Client(NamedTuple):
    """A client: its files, each with what changes it, and what to do then."""

    files: Mapping[str, Change]
    then: str


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json_change(*edits: Edit) -> Change:
    def change(text: str, setup: Setup | None) -> str:
        try:
            settings = json.loads(text) if text.strip() else {}
        except ValueError as error:
            raise InputError(f"it is not plain JSON ({error})") from error
        if not isinstance(settings, dict):
            raise InputError("it should be a JSON object")
        before = json.dumps(settings)
        for edit in edits:
            edit(settings, setup)
        if json.dumps(settings) == before:
            return text
        return f"{json.dumps(settings, indent=_indent(text), ensure_ascii=False)}\n" if settings else ""

    return change


def _indent(text: str) -> int | str:
    found = re.search(r"\n([ \t]+)\S", text)
    return ("\t" if found[1].startswith("\t") else len(found[1])) if found else 2


def _servers(key: str, more: Mapping[str, Any] | None = None) -> Edit:
    """Return what puts our server among those of a client."""

    def edit(settings: Settings, setup: Setup | None) -> None:
        servers = _object(settings, key)
        servers.pop(NAME, None)
        if setup is not None:
            command, arguments = setup.server
            servers[NAME] = {**(more or {}), "command": command, "args": arguments}
        if not servers:
            settings.pop(key, None)

    return edit


def _hooks(events: Mapping[str, str], *more: str, unit: int = 1) -> Edit:
    """Return what puts our hooks, with `more` options, behind those of others; times are in parts of a second."""

    def edit(settings: Settings, setup: Setup | None) -> None:
        hooks = _object(settings, "hooks")
        for event, name in events.items():
            groups = [group for group in hooks.pop(event, None) or [] if not _is_ours(group)]
            if setup is not None:
                groups.append(
                    {"hooks": [{"type": "command", "command": setup.hook(name, *more), "timeout": WAIT * unit}]}
                )
            if groups:
                hooks[event] = groups
        if not hooks:
            settings.pop("hooks", None)

    return edit


def _object(settings: Settings, key: str) -> Settings:
    found = settings.setdefault(key, {})
    if not isinstance(found, dict):
        raise InputError(f"{key} in it should be a JSON object")
    return found


def _is_ours(group: Any) -> bool:
    """Return True for hooks that run our command and nothing else."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not hooks:
        return False
    return all(isinstance(one, dict) and _OURS.search(str(one.get("command"))) for one in hooks)


_OURS = re.compile(r"\btinymem(-hook|\S* hook)\b")


# -- TOML -------------------------------------------------------------------------------------------------------------

_TABLE = re.compile(rf"\n*^\[mcp_servers\.{NAME}\]\n(?:(?!^\[).*(?:\n|\Z))*", re.MULTILINE)


def _toml_server(text: str, setup: Setup | None) -> str:
    """Put our server behind the rest of Codex's settings; comments and order of the rest stay."""
    kept = _TABLE.sub("\n", text).rstrip("\n")
    kept = f"{kept}\n" if kept else ""
    if setup is None:
        return kept
    command, arguments = setup.server
    table = f"[mcp_servers.{NAME}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    return f"{kept}\n{table}" if kept else table


# -- clients ----------------------------------------------------------------------------------------------------------


def _code_folder() -> str:
    if sys.platform == "darwin":
        return "~/Library/Application Support/Code/User"
    return f"{os.environ.get('APPDATA', '~')}/Code/User" if os.name == "nt" else "~/.config/Code/User"


def _clients() -> dict[str, Client]:
    hooks = {event: name for event, name in EVENTS.items() if event not in ("SubagentStop", "SessionEnd")}
    codex = os.environ.get("CODEX_HOME", "~/.codex")
    claude = os.environ.get("CLAUDE_CONFIG_DIR")
    return {
        "claude-code": Client(
            {f"{claude or '~/.claude'}/settings.json": _json_change(_hooks(EVENTS)),
             f"{claude or '~'}/.claude.json": _json_change(_servers("mcpServers", {"type": "stdio"}))},
            "Restart Claude Code; /hooks and /mcp show them.",
        ),
        "codex": Client(
            {f"{codex}/hooks.json": _json_change(_hooks(hooks)), f"{codex}/config.toml": _toml_server},
            "Restart Codex, and trust the hooks when it asks; /mcp shows the server.",
        ),
        "gemini": Client(
            {"~/.gemini/settings.json":
             _json_change(_servers("mcpServers"), _hooks(GEMINI_EVENTS, "--json", unit=1_000))},
            "Restart Gemini CLI, in a folder that it trusts; /mcp shows the server.",
        ),
        "cursor": Client(
            {"~/.cursor/mcp.json": _json_change(_servers("mcpServers"))},
            "Restart Cursor, and turn the server on under Settings, MCP.",
        ),
        "vscode": Client(
            {f"{_code_folder()}/mcp.json": _json_change(_servers("servers", {"type": "stdio"}))},
            "In VS Code, run: MCP: List Servers, tinymem, Start.",
        ),
    }  # fmt: skip


@dataclass
class _Plan:
    """The files of a client as they would be."""

    changed: dict[Path, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, client: Client, setup: Setup | None) -> _Plan:
        plan = cls()
        for name, change in client.files.items():
            path = Path(name).expanduser()
            try:
                before = path.read_text("utf-8") if path.exists() else ""
                after = change(before, setup)
            except (InputError, OSError, UnicodeDecodeError) as error:
                raise InputError(f"{path} was left as it is: {error}") from error
            if after != before:
                plan.changed[path] = after
                made = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
                plan.lines += made
        return plan

    def write(self) -> None:
        """Write the files, each in one go; one that would be empty is removed."""
        for path, text in self.changed.items():
            path = path.resolve()  # a link into somebody's dotfiles stays one
            try:
                if not text.strip():
                    path.unlink()
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f"{path.name}.tinymem")
                new.write_text(text, "utf-8")
                if path.exists():
                    shutil.copymode(path, new)
                os.replace(new, path)
            except OSError as error:
                raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT", help="claude-code, codex, gemini, cursor or vscode.")]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def install(
    client: ClientArgument,
    path: Annotated[str, typer.Option(envvar="TINYMEM_PATH", help="The folder of the memory, or a database.")] = PATH,
    namespace: Annotated[
        str | None, typer.Option(help="One namespace for all. Default: one for each repository, and `user` beside it.")
    ] = None,
    per_worktree: Annotated[
        bool, typer.Option("--per-worktree", help="Each worktree of a repository has a namespace of its own.")
    ] = False,
    dry_run: DryOption = False,
) -> None:
    """Give a coding agent a memory: its server and, where the agent has hooks, a memory that fills itself.

    Worktrees of a repository share a namespace, and what is in the namespace `user` is recalled in all of them. What
    is in the agent's settings stays; the changes are shown.

    Example: tinymem install claude-code --dry-run
    """
    _change(client, Setup(path, namespace, per_worktree), dry_run)


def uninstall(client: ClientArgument, dry_run: DryOption = False) -> None:
    """Take out of an agent's settings what `tinymem install` put there; the memory stays.

    Example: tinymem uninstall claude-code
    """
    _change(client, None, dry_run)


def _change(name: str, setup: Setup | None, dry_run: bool) -> None:
    clients = _clients()
    if name not in clients:
        raise InputError(f"the client must be one of {', '.join(clients)}, not {name!r:.80}")
    client = clients[name]
    plan = _Plan.of(client, setup)
    if not plan.changed:
        say(f"Nothing to change: {name} {'has it already' if setup else 'has nothing of ours'}.")
        return
    say("\n".join(plan.lines))
    if dry_run:
        say("\nNothing was changed (--dry-run).", err=True)
        return
    plan.write()
    say(f"\n{client.then}", err=True)

"""The commands that set up agents: `tinymem install` and `tinymem uninstall`."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinymem.cli.agents import LeaveAloneOption, RedactOption
from tinymem.cli.options import HOME
from tinymem.cli.shared import say
from tinymem.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from tinymem.cli.install.clients import Client, Setup

__all__ = ["install", "uninstall"]

ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help="claude-code, codex, gemini, qwen, copilot, opencode, cursor, vscode.")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def install(
    client: ClientArgument,
    path: Annotated[str, typer.Option(envvar="TINYMEM_PATH", help="The folder of the memory, or a database.")] = HOME,
    namespace: Annotated[
        str | None, typer.Option(help="One namespace for all. Default: one for each repository, and `user` beside it.")
    ] = None,
    per_worktree: Annotated[
        bool, typer.Option("--per-worktree", help="Each worktree of a repository has a namespace of its own.")
    ] = False,
    redact: RedactOption = None,
    leave_alone: LeaveAloneOption = None,
    dry_run: DryOption = False,
) -> None:
    """Give a coding agent a memory: its server and, where the agent has hooks, a memory that fills itself.

    Worktrees of a repository share a namespace, and what is in the namespace `user` is recalled in all of them. What
    is in the agent's settings stays, and lies beside them in a `.bak` as it was; what is added is shown.

    Example: tinymem install claude-code --dry-run
    """
    from tinymem.cli.install.clients import Setup

    if find_spec("mcp") is None:
        say(f"tinymem: nothing was changed: {MissingExtraError('the server', 'mcp')}", err=True)
        raise typer.Exit(1)
    _change(client, Setup(path, namespace, per_worktree, tuple(redact or ()), tuple(leave_alone or ())), dry_run)


def uninstall(client: ClientArgument, dry_run: DryOption = False) -> None:
    """Take out of an agent's settings what `tinymem install` put there; the memory stays.

    Example: tinymem uninstall claude-code
    """
    _change(client, None, dry_run)


def _change(name: str, setup: Setup | None, dry_run: bool) -> None:
    from tinymem.cli.install.clients import clients
    from tinymem.cli.install.files import Revision, back_up, read_file, replace_all

    known = clients()
    if name not in known:
        raise InputError(f"the client must be one of {', '.join(known)}, not {name!r:.80}")
    planned = {}
    for file in known[name].files:
        path = Path(file.path).expanduser()
        try:
            before = read_file(path)
            text, changes = file.edit((before or b"").decode("utf-8-sig"), setup)
            after = None if text is None else text.encode()
        except (InputError, OSError, ValueError) as error:
            reason = f"{path} was left as it is, and so was all else: {error}\n{_by_hand(known[name], setup)}"
            raise InputError(_without_passwords(reason)) from error
        if changes:
            planned[Revision(path, before, after)] = changes
    if not planned:
        say(f"Nothing to change: {name} {'has it already' if setup else 'has nothing of ours'}.")
        return
    if not dry_run:
        replace_all([*map(back_up, filter(all, planned)), *planned])
    for revision, changes in planned.items():
        say("\n".join([str(revision.path), *(f"  {_without_passwords(change)}" for change in changes)]))
    say("\nNothing was changed (--dry-run)." if dry_run else f"\n{known[name].then}", err=True)


def _by_hand(client: Client, setup: Setup | None) -> str:
    """Say what to write into a client's files, or to take out."""
    if setup is None:
        return "Take out by hand: the server tinymem, and the hooks that run tinymem-hook."
    texts = [f"{file.path}:\n{file.edit('', setup)[0]}" for file in client.files]
    return "\n".join(["Write by hand:", *texts])


_PASSWORD = re.compile(r"(?P<before>postgres(?:ql)?://[^\s/:@]*:)\S*(?=@)|(?P<option>[?&]\w*password=)[^\s&'\"]*", re.I)


def _without_passwords(text: str) -> str:
    """Hide the passwords in addresses of databases, which are written, but need not stand on a screen."""
    return _PASSWORD.sub(lambda found: f"{found['before'] or found['option']}…", text)

"""The help of the command line, in groups; plain text, since layout with rich takes longer than all the rest."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["AGENTS", "FILES", "FIRST", "FORGETTING", "INSIDE", "REPAIR", "SHARED", "Commands"]

# The groups, in the order of the help; a command names its group as its `rich_help_panel`.
FIRST = "Begin here"
INSIDE = "Look inside"
AGENTS = "Connect agents"
FILES = "Move it"
FORGETTING = "Forget"
REPAIR = "Repair"
SHARED = "Share it between hosts (PostgreSQL)"

LONGEST = 1_000  # characters of a sentence: all of it


class Commands(TyperGroup):
    """The commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups, each command with the first sentence of its text."""
        groups: dict[str, list[tuple[str, str]]] = {}
        listed = [(name, command) for name, command in self.commands.items() if not command.hidden]
        widest = max(len(name) for name, _ in listed)
        for name, command in listed:
            text = command.get_short_help_str(LONGEST)
            groups.setdefault(str(getattr(command, "rich_help_panel", FIRST)), []).append((name.ljust(widest), text))
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows)

"""Set up agents: `tinymem install` and `tinymem uninstall`, and the editing of their settings."""

from tinymem.cli.install.commands import install, uninstall
from tinymem.cli.install.events import EVENTS, GEMINI_EVENTS

__all__ = ["EVENTS", "GEMINI_EVENTS", "install", "uninstall"]

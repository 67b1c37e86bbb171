"""The packages that have public names."""

from __future__ import annotations

__all__ = ["PACKAGES"]

NAMES = "archive embedders memory messages recall steps stores summarizers upkeep window"
PACKAGES = ["tinymem", *(f"tinymem.{name}" for name in NAMES.split())]

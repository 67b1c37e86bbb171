"""Recall, a stage a module: passages -> candidates -> features -> fusion -> diversity -> packing -> render."""

from __future__ import annotations

from tinymem.recall.results import Excerpt, Recall

__all__ = ["Excerpt", "Recall"]

"""Recall, a stage a module: passages -> candidates -> features -> fusion -> diversity -> packing -> render."""

from __future__ import annotations

from tinymem.recall.explained import Explanation
from tinymem.recall.results import Excerpt, LeftOut, Recall

__all__ = ["Excerpt", "Explanation", "LeftOut", "Recall"]

"""Recall, a stage a module: passages -> candidates -> features -> fusion -> diversity -> packing -> render."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.recall.results import Excerpt, Explanation, LeftOut, Recall
else:
    __getattr__, __dir__ = lazy_names(__name__, {"results": "Excerpt Explanation LeftOut Recall"})

__all__ = ["Excerpt", "Explanation", "LeftOut", "Recall"]

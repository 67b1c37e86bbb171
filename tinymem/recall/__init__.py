"""Recall, a stage a module: passages -> candidates -> features -> fusion -> diversity -> packing -> render."""

from tinymem.recall.results import Excerpt, Explanation, LeftOut, Recall

__all__ = ["Excerpt", "Explanation", "LeftOut", "Recall"]

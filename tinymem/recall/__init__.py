"""Recall, a stage a module: passages -> candidates -> features -> fusion -> diversity -> packing -> render."""

from tinymem.recall.results import Excerpt, Explanation, Recall

__all__ = ["Excerpt", "Explanation", "Recall"]

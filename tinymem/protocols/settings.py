"""Keys of the settings that a journal writes itself, in the transaction of what they tell about.

A setting is a text; one that was never kept is None. Other parts keep values under keys of their
own, such as `scratchpad`.
"""

from __future__ import annotations

__all__ = ["CHANGES", "DELETIONS", "EMBEDDER", "EMBEDDER_NAME", "MADE", "REWRITES", "UNSCRUBBED"]

CHANGES = "changes"  # the name of what keeps track of changes, "none" for nothing
MADE = "made"  # the number of the first step that no passages were made of yet
EMBEDDER = "embedder"  # the fingerprint of the embedder whose vectors are in use
EMBEDDER_NAME = "embedder_name"  # the name by which that embedder is opened again
DELETIONS = "deletions"  # how often steps were forgotten or replaced, or all passages removed
REWRITES = "rewrites"  # the same, and how often steps were made milestones or none
UNSCRUBBED = "unscrubbed"  # not empty while files may have traces of what was forgotten or replaced

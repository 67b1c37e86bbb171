"""Names of the settings of a journal. A setting is a text; one that was never kept is None."""

from __future__ import annotations

__all__ = ["CLEARED", "EMBEDDER", "EMBEDDER_CHANGES", "EMBEDDER_NAME", "FENCE_KEY", "MADE", "NAMESPACE",
           "OPEN_CALLS", "RECEIPTS", "REWRITES", "SCRATCHPAD", "TRANSCRIPT", "UNENDED", "UNSCRUBBED", "UNSPLIT",
           "WINDOW_CHANGES"]  # fmt: skip

# A journal writes these itself, in the transaction of what they tell about.
MADE = "made"  # the number of the first step that no passages were made of yet
EMBEDDER = "embedder"  # the fingerprint of the embedder whose vectors are in use
EMBEDDER_NAME = "embedder_name"  # the name by which that embedder is opened again
EMBEDDER_CHANGES = "embedder_changes"  # how often the embedder was changed
REWRITES = "rewrites"  # how often steps were forgotten, or made milestones or none
UNSCRUBBED = "unscrubbed"  # not empty while files may have traces of what was forgotten or replaced
UNSPLIT = "unsplit"  # the id of the last passage whose runs of CJK letters are single words in the full text; None: all
WINDOW_CHANGES = "window_changes"  # how often the window was changed other than by adding

# The rest of tinymem keeps these.
CLEARED = "cleared"  # the number of the next step when the window was last cleared
FENCE_KEY = "fence_key"  # the key, in hexadecimal digits, that fences are derived with
NAMESPACE = "namespace"  # the name of the namespace that the journal belongs to
OPEN_CALLS = "open_calls"  # calls without a result: the number of the step, by call id, as JSON
RECEIPTS = "receipts"  # the blocks that were recalled, without their texts, and their sums, as JSON
SCRATCHPAD = "scratchpad"  # the scratchpad, as JSON
TRANSCRIPT = "transcript "  # and a hash of a file's path: how far the session file was read, as JSON
UNENDED = "unended"  # the files of sessions that began and did not end, as JSON, until a later session has read them on

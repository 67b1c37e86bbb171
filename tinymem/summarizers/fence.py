"""The fence around a summary in the window, which marks its content as data.

The fence's name carries a hash of the content keyed with the ids of the covered steps: the same steps give the same
fence, so prompt caches hold, and no tool or person in the summary knows the ids, and so how to close it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tinymem.recall.render import fenced

__all__ = ["summary_block", "unfenced"]

_SUMMARY = re.compile(r"\s*<summary-([0-9]{12,75}) [^>\n]*>\n(.*)\n</summary-\1>\s*", re.DOTALL)


def summary_block(body: str, covers: Sequence[str]) -> str:
    """Put `body`, the summary of the steps with these ids, in its fence."""
    return fenced("summary", f"of {len(covers)} earlier steps", body, "\n".join(covers).encode("utf-8", "replace"))


def unfenced(text: str) -> str:
    """Return the text inside the fence of a summary; a text without a fence as it is."""
    found = _SUMMARY.fullmatch(text)
    return found[2] if found else text

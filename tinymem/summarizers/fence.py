"""The fence around a summary in the window: what is in it is data, whatever it says.

The fence's name carries a hash of the content keyed with the ids of the covered steps: the same steps give the same
fence, so prompt caches hold, and no tool or person that was summarised knows the ids, and so how to close it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from tinymem.recall.render import fenced

__all__ = ["data_block", "summary_block", "unfenced"]

_SUMMARY = re.compile(r"\s*<summary-([0-9a-f]{8,64}) [^>\n]*>\n(.*)\n</summary-\1>\s*", re.DOTALL)


def summary_block(body: str, covers: Sequence[str]) -> str:
    """`body`, the summary of the steps with these ids, in its fence."""
    return fenced("summary", f"of {len(covers)} earlier steps", body, "\n".join(covers).encode("utf-8", "replace"))


def data_block(body: str) -> str:
    """`body`, steps for a model to summarise, in a fence of this one request."""
    return fenced("steps", "to summarise", body, secrets.token_bytes(16))


def unfenced(text: str) -> str:
    """What the fence of a summary encloses; a text without one as it is."""
    found = _SUMMARY.fullmatch(text)
    return found[2] if found else text

"""The vector stores that ship with tinymem.

from tinymem.stores import ChromaStore  # the default: approximate, on disk or on a server
from tinymem.stores import ExactStore   # none: recall is exact anyway
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.stores.chroma.store import ChromaStore
    from tinymem.stores.exact import ExactStore
else:
    __getattr__, __dir__ = lazy_names(__name__, {"chroma.store": "ChromaStore", "exact": "ExactStore"})

__all__ = ["ChromaStore", "ExactStore"]

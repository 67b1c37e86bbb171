"""The archive: steps, vectors and summaries on disk, and the window that the journal keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.archive.callbacks import Callbacks
    from tinymem.archive.episodes import Episode
    from tinymem.archive.folders import namespaces
    from tinymem.archive.stats import Stats
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "callbacks": "Callbacks",
        "episodes": "Episode",
        "folders": "namespaces",
        "stats": "Stats",
    })  # fmt: skip

__all__ = ["Callbacks", "Episode", "Stats", "namespaces"]

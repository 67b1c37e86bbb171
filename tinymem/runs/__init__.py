"""Recorded runs of agents and conversations: read from files, added to a memory, replayed under other policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.runs.billing import PRICES, Prices
    from tinymem.runs.readers import Compaction, Run, read_runs
    from tinymem.runs.replaying import Figures, Replay, replay
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "billing": "PRICES Prices", "readers": "Compaction Run read_runs", "replaying": "Figures Replay replay",
    })  # fmt: skip

__all__ = ["PRICES", "Compaction", "Figures", "Prices", "Replay", "Run", "read_runs", "replay"]

"""Recorded runs of agents and conversations: read from files, added to a memory, replayed under other policies."""

from __future__ import annotations

from tinymem import TYPE_CHECKING, lazy_names

if TYPE_CHECKING:
    from tinymem.runs.readers import Run, read_runs
    from tinymem.runs.replays.billing import PRICES, Prices
    from tinymem.runs.replays.replaying import Figures, Replay, replay
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "readers": "Run read_runs", "replays.billing": "PRICES Prices",
        "replays.replaying": "Figures Replay replay",
    })  # fmt: skip

__all__ = ["PRICES", "Figures", "Prices", "Replay", "Run", "read_runs", "replay"]

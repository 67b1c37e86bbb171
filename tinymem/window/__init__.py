"""The window: the steps that stay in the prompt, and the strategies that choose them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.window.adaptive import AdaptiveMemoryManager
    from tinymem.window.manager import MemoryManager
    from tinymem.window.semantic import semantic_pruning
    from tinymem.window.strategies import (
        compose,
        keep_last_n_steps,
        keep_system_and_recent,
        no_pruning,
        prune_old_observations,
        token_budget,
    )
    from tinymem.window.strategy import PruneReport, PruneStrategy
    from tinymem.window.summarize import summarize_strategy
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "adaptive": "AdaptiveMemoryManager",
        "manager": "MemoryManager",
        "semantic": "semantic_pruning",
        "strategies": "compose keep_last_n_steps keep_system_and_recent no_pruning prune_old_observations token_budget",
        "strategy": "PruneReport PruneStrategy",
        "summarize": "summarize_strategy",
    })  # fmt: skip

__all__ = [
    "AdaptiveMemoryManager", "MemoryManager", "PruneReport", "PruneStrategy", "compose", "keep_last_n_steps",
    "keep_system_and_recent", "no_pruning", "prune_old_observations", "semantic_pruning", "summarize_strategy",
    "token_budget",
]  # fmt: skip

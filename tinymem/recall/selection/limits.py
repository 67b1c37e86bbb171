"""Limits of what a recall brings back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from tinymem.recall.relevance import SHARE
from tinymem.recall.results import Excerpt
from tinymem.recall.selection.diversity import DIVERSITY

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Limits of what comes back.

    Attributes:
        diversity: The share of its wording in which a passage must differ from those before it.
        min_relevance: The least relevance of a passage; None for what is worth its tokens.
        share: The share of the third best relevance below which a passage is not worth its tokens either.
        k: The most passages; None does not limit.
        ids: Every excerpt begins with the number of its step.
        next_best: The number of passages to name that were not chosen.
        shown: Excerpts that stand in front of the model already; what lies in one does not come back.
        as_of: The moment whose knowledge counts: what a later step changed has no mark.
        order: Of the excerpts in the block: by "time", or by "relevance".
        hidden: The numbers of steps that do not come back, since they stand in front of the model.
    """

    diversity: float = DIVERSITY
    min_relevance: float | None = None
    share: float = SHARE
    k: int | None = None
    ids: bool = False
    next_best: int = 0
    shown: Sequence[Excerpt] = ()
    as_of: datetime | None = None
    order: str = "time"
    hidden: Collection[int] = ()

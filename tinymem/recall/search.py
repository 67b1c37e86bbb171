"""Search: recall from the question to the block of excerpts that answers it, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tinymem.protocols import TokenCounter
from tinymem.recall.candidates import Candidates
from tinymem.recall.catalog import Catalog
from tinymem.recall.diversity import DIVERSITY
from tinymem.recall.fusion import Fusion, Scored
from tinymem.recall.packing import FENCE, UNRELATED, OpenedSteps, Ranked, pack
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.identifiers import labels
from tinymem.recall.results import Explanation, Recall
from tinymem.recall.slices import Outline
from tinymem.steps.step import Step
from tinymem.stores.filter import Filter

__all__ = ["NEXT_BEST", "NOTHING", "Past", "Search"]

NEXT_BEST = 5  # passages that an explanation names by default, though they did not come back
LITTLE = FENCE + 90  # tokens that the best gets where the memory most likely knows nothing of a question
NOTHING = "nothing relevant"
LABELLED = 1_000  # characters of a question in which labels are looked for,
MOST_NAMES = 3  # and those that are named where no step has them


class Past(Protocol):
    """The steps that a search is over, as an archive has them."""

    @property
    def counter(self) -> TokenCounter:
        """The counter of tokens."""

    @property
    def key(self) -> bytes:
        """The key of fences."""

    @property
    def catalog(self) -> Catalog:
        """The arrays over all passages, as they are now; an `Outline` where they are too many."""

    @property
    def opened(self) -> OpenedSteps:
        """The steps that were opened before, cleared when some are forgotten."""

    @property
    def trouble(self) -> str:
        """The note on what a search must do without; "" for nothing."""

    def holds(self, catalog: Catalog) -> bool:
        """Return whether the catalog is still in use."""

    def catch_up(self) -> None:
        """Make the passages of new steps."""

    def fetch(self, numbers: Sequence[int]) -> dict[int, Step]:
        """Return the steps with these numbers."""

    def question(self, text: str, catalog: Catalog, now: datetime) -> Callable[[], Query]:
        """Return the analysis of a question, which embeds it."""

    def candidates(self, query: Query, catalog: Catalog, allowed: npt.NDArray[np.bool_]) -> Candidates:
        """Return the passages worth a close look among the `allowed` rows of the catalog."""

    def slice(
        self, query: Query, outline: Outline, only: Filter, hidden: Collection[int]
    ) -> tuple[Catalog, Candidates]:
        """Return the part of the memory that has the candidates, and these."""

    def has_words(self, words: str) -> bool:
        """Return whether a passage has one of these words."""

    def naming_parts(self) -> AbstractContextManager[None]:
        """Raise FormatError where a passage names a part that its step has not got."""


@dataclass(frozen=True)
class Limits:
    """Limits of what comes back, as `Search.recall` has them, and how many of the next best are named."""

    diversity: float = DIVERSITY
    min_relevance: float | None = None
    k: int | None = None
    ids: bool = False
    left_out: int = 0


class Search:
    """Recall over the steps of `past`, ranked by `fusion`: the published weights unless others are given.

    Nothing is embedded while `held` is: the lock under which others change what is searched.
    """

    def __init__(
        self,
        past: Past,
        fusion: Fusion | None = None,
        held: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._past, self._fusion, self._held = past, fusion, held

    def recall(
        self,
        text: str,
        budget: int,
        now: datetime,
        *,
        hidden: Collection[int] = (),
        only: Filter | None = None,
        diversity: float = DIVERSITY,
        ids: bool = False,
        k: int | None = None,
        min_relevance: float | None = None,
    ) -> Recall:
        """Return what bears on `text`, in at most `budget` tokens, without the steps `hidden` (numbers).

        With `ids`, every excerpt begins with the number of its step. At most `k` passages come back, each at least of
        `min_relevance`; where it is None, what has nothing to do with the question is left out.
        """
        limits = Limits(diversity, min_relevance, k, ids)
        return self._explained(text, budget, now, hidden, only, limits).recalled

    def explain(self, text: str, budget: int, now: datetime, next_best: int = NEXT_BEST) -> Explanation:
        """Return what `recall` gives, and the best of what it does not, with reasons."""
        return self._explained(text, budget, now, limits=Limits(left_out=next_best))

    def score(self, text: str, now: datetime, allowed: npt.NDArray[np.bool_], catalog: Catalog | None = None) -> Scored:
        """Return the candidates for `text` among the `allowed` rows of the catalog, with their features and scores.

        The `catalog` is that of now, unless the one is given whose rows are allowed: another process may have written
        more since.
        """
        catalog = self._past.catalog if catalog is None else catalog
        return self._scored(self._past.question(text, catalog, now)(), allowed, catalog)

    def _scored(
        self,
        query: Query,
        allowed: npt.NDArray[np.bool_],
        catalog: Catalog,
        only: Filter | None = None,
        hidden: Collection[int] = (),
    ) -> Scored:
        if isinstance(catalog, Outline):
            catalog, found = self._past.slice(query, catalog, only or Filter(), hidden)
        else:
            found = self._past.candidates(query, catalog, allowed)
        return Scored.of(query, catalog, found, self._fusion)

    def _unknown(self, question: str) -> str:
        """Return a note of the labels in a question that no step has; "" for none."""
        asked = [*labels(question[:LABELLED]).items()][:MOST_NAMES]
        names = [name for name, words in asked if not self._past.has_words(words)]
        return f"no step has {', '.join(names)}" if names else ""

    def _explained(
        self,
        text: str,
        budget: int,
        now: datetime,
        hidden: Collection[int] = (),
        only: Filter | None = None,
        limits: Limits = Limits(),
    ) -> Explanation:
        past = self._past
        past.catch_up()
        only = only or Filter()
        with self._held():
            catalog = past.catalog
            allowed = catalog.allowed(only, hidden)
            if not text.strip() or not (allowed.any() or isinstance(catalog, Outline)):
                return Explanation(text, budget, Recall("", 0, (), past.trouble), ())
            question = past.question(text, catalog, now)
        query = question()
        with self._held():
            if not past.holds(catalog) or len(catalog) != len(allowed):  # changed meanwhile
                catalog = past.catalog
                allowed = catalog.allowed(only, hidden)
            if query.vectors.shape[1] == catalog.dimensions:
                packed = self._packed(self._scored(query, allowed, catalog, only, hidden), text, budget, limits)
                if packed is not None:
                    return packed
        # something was forgotten meanwhile, elsewhere, and with it the files of these arrays; or all was embedded again
        return self._explained(text, budget, now, hidden, only, limits)

    def _packed(self, scored: Scored, text: str, budget: int, limits: Limits) -> Explanation | None:
        """Pack the best of what was scored; None where the catalog's files have changed meanwhile."""
        past, catalog = self._past, scored.catalog
        blind = limits.min_relevance is None and past.trouble  # words alone tell little of what is unrelated
        least = 0 if blind else limits.min_relevance
        is_relevant = least is not None or scored.odds >= 0
        ranked = scored.ranked(budget, least)
        if catalog.is_gone():
            return None

        def every(below: int | None = None) -> Sequence[Ranked]:
            found = scored.ranked(None, least, below)
            return () if catalog.is_gone() else found

        room = budget if is_relevant else min(budget, LITTLE)
        chosen = limits.diversity, limits.left_out, past.opened, limits.ids, limits.k
        with past.naming_parts():
            recalled, left_out = pack(ranked, past.fetch, past.counter, room, past.key, *chosen, every, text)
        note = past.trouble or ("" if scored.query.is_stretch else self._unknown(text))
        if not is_relevant:
            note, left_out = note or NOTHING, tuple(replace(one, reason=UNRELATED) for one in left_out)
        recalled = replace(recalled, note=note, is_relevant=is_relevant)
        return Explanation(text, budget, recalled, left_out, scored.signals, scored.odds)

"""Search: recall from the question to the block of excerpts that answers it, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tinymem.recall.candidates import find_requests
from tinymem.recall.fusion import Fusion, ScoredCandidates
from tinymem.recall.query.identifiers import labels
from tinymem.recall.relevance import WORTH
from tinymem.recall.results import ALL_FITS, Explanation, Recall
from tinymem.recall.selection.corrections import newest_corrections, places_of, put_corrections, put_newest_first
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.opened import RankedPassage
from tinymem.recall.selection.packing import FENCE, Newest, pack
from tinymem.stores.filter import Filter

if TYPE_CHECKING:
    from tinymem.archive.archive import Archive
    from tinymem.recall.sources import Source

__all__ = ["NEXT_BEST", "NOTHING", "Search"]

Current: TypeAlias = Callable[[Sequence[RankedPassage]], Sequence[RankedPassage]]

NEXT_BEST = 5  # passages that an explanation names by default beside those that came back
LITTLE = FENCE + 90  # tokens that the best gets where the memory most likely knows nothing of a question
NOTHING = "nothing relevant"
LABELLED = 1_000  # characters of a question in which labels are looked for,
MOST_NAMES = 3  # and those that are named where no step has them


class Search:
    """Recall over the steps of `past`, ranked by `fusion`: the published weights unless others are given.

    A question goes on with the snapshot that it began with, without a lock: many search at once, and while others add.
    """

    def __init__(self, past: Archive, fusion: Fusion | None = None) -> None:
        self._past, self._fusion = past, fusion

    def recall(self, text: str, budget: int, now: datetime, **more: Any) -> Recall:
        """Return what bears on `text`, in at most `budget` tokens, as `explain` does."""
        return self.explain(text, budget, now, **more).recalled

    def score(
        self, text: str, now: datetime, source: Source | None = None, hidden: Collection[int] | None = None
    ) -> ScoredCandidates:
        """Return the candidates for `text` of a source, or of the whole memory, with their features and scores.

        With the steps that are `hidden`, requests that ask the same as a question count as nothing.
        """
        source = source or self._past.source(Filter())
        query = self._past.queue.question(text, source.snapshot, now)
        found = source.gather(query)
        if hidden is not None and not query.is_stretch:
            found = found.without(find_requests(query.text, found, source.snapshot, hidden, self._past.opened))
        return ScoredCandidates.of(query, source.snapshot, found, self._fusion)

    def explain(
        self,
        text: str,
        budget: int,
        now: datetime,
        *,
        only: Filter | None = None,
        **more: Any,
    ) -> Explanation:
        """Return what bears on `text`, in at most `budget` tokens, and the `next_best` so many ranked behind it.

        Args:
            text: The question, or a stretch of a run.
            budget: The most tokens of the block.
            now: When it is asked.
            only: The steps that may come back; all unless given.
            more: Those of `Limits`. Where `min_relevance` is None, what is not worth its tokens is left out.
        """
        limits = Limits(**more)
        past, only = self._past, only or Filter()
        past.queue.catch_up()
        source = past.source(only, limits.hidden)
        note = source.explain_nothing()
        if note is not None or not text.strip():
            return Explanation(text, budget, Recall("", 0, (), past.queue.trouble or note or ""))
        snapshot, allowed = source.snapshot, source.allowed
        corrections = past.corrections if limits.as_of is None else self._corrections_until(limits.as_of)
        scored = self.score(text, now, source, None if limits.min_relevance == 0 else limits.hidden)  # requests, too
        current = partial(put_corrections, corrections=corrections, snapshot=snapshot, allowed=allowed)
        newest = partial(places_of, snapshot, allowed)
        packed = self._packed(scored, text, budget, limits, current, newest)
        if past.is_current(snapshot):
            return packed
        # something was forgotten meanwhile, here or elsewhere
        return self.explain(text, budget, now, only=only, **more)

    def _corrections_until(self, moment: datetime) -> Mapping[int, int]:
        """Return the number of the newest correction of each step that was corrected up to a moment."""
        pairs = self._past.journal.corrections()
        steps = self._past.fetch([new for _, new in pairs])
        return newest_corrections((old, new) for old, new in pairs if steps[new].timestamp <= moment)

    def _packed(
        self, scored: ScoredCandidates, text: str, budget: int, limits: Limits, current: Current, newest: Newest
    ) -> Explanation:
        """Pack the best of what was scored, as it was corrected."""
        past, snapshot, note = self._past, scored.snapshot, self._past.queue.trouble
        # while the embedder fails, words alone say little of what is unrelated
        least = 0 if note and limits.min_relevance is None else limits.min_relevance
        is_relevant = least is not None or scored.odds >= 0
        ranked = current(scored.ranked(budget + sum(passage.tokens for passage in limits.shown), least))

        def every() -> Sequence[RankedPassage]:
            return current(scored.ranked(None, least))

        room = budget if is_relevant else min(budget, LITTLE)
        last = snapshot.last_step
        if limits.as_of is not None:
            last = int(snapshot.step[snapshot.time <= limits.as_of.timestamp()].max(initial=0))
        changes = past.tracking.changes(last)
        with past.checking_parts():
            ranked = put_newest_first(ranked, past.opened, scored.query.now, budget)
            recalled, next_best = pack(ranked, past.opened, room, past.key, limits, every, changes, newest)
        if not note and not scored.query.is_stretch:
            asked = [*labels(text[:LABELLED]).items()][:MOST_NAMES]
            unknown = [name for name, words in asked if not past.has_words(words)]
            note = f"no step has {', '.join(unknown)}" if unknown else ""
        if not is_relevant:
            note = note or NOTHING
        elif not any(passage.is_relevant for passage in ranked):
            floor, best = WORTH if least is None else least, float(scored.relevance.max(initial=0))
            note, is_relevant = note or f"{NOTHING}: the best has a relevance of {best:.3f}, not {floor:g}", False
        overflow = recalled.overflow if is_relevant else ALL_FITS
        recalled = replace(recalled, note=note, is_relevant=is_relevant, overflow=overflow)
        return Explanation(text, budget, recalled, next_best, scored.signals, scored.odds)

"""Search: recall from the question to the block of excerpts that answers it, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tinymem.recall.candidates import gather
from tinymem.recall.fusion import Fusion, ScoredCandidates
from tinymem.recall.query.analysis import Query
from tinymem.recall.query.requests import without_requests
from tinymem.recall.relevance import WORTH
from tinymem.recall.results import ALL_FITS, Explanation, Recall
from tinymem.recall.selection.corrections import newest_corrections, places_of, put_corrections, put_newest_first
from tinymem.recall.selection.limits import Limits
from tinymem.recall.selection.opened import RankedPassage
from tinymem.recall.selection.packing import FENCE, pack
from tinymem.recall.snapshot import Snapshot
from tinymem.stores.filter import EVERYTHING, Filter

if TYPE_CHECKING:
    from tinymem.archive.archive import Archive

__all__ = ["NEXT_BEST", "NOTHING", "Search"]

Mask: TypeAlias = npt.NDArray[np.bool_]  # of the rows of a snapshot that may come back

SPARE = 256  # tokens beyond the budget that are ranked for, since what is repeated or shown already takes none of it
NEXT_BEST = 5  # passages that an explanation names by default beside those that came back
LITTLE = FENCE + 90  # tokens that the best gets where the memory most likely knows nothing of a question
NOTHING = "nothing relevant"
MOST_NAMES = 3  # labels that are named where no step has them


class Search:
    """Recall over the steps of `past`, ranked by `fusion`: the published weights unless others are given.

    A question goes on with the snapshot that it began with, without a lock: many search at once, and while others add.
    """

    def __init__(self, past: Archive, fusion: Fusion | None = None) -> None:
        self._past, self._fusion = past, fusion

    def recall(self, text: str, budget: int, now: datetime, **more: Any) -> Recall:
        """Return what bears on `text`, in at most `budget` tokens, as `explain` does."""
        return self.explain(text, budget, now, **more).recalled

    def explain(self, text: str, budget: int, now: datetime, *, only: Filter | None = None, **more: Any) -> Explanation:
        """Return what bears on `text`, in at most `budget` tokens, and the `next_best` so many ranked behind it.

        Args:
            text: The question, or a stretch of a run.
            budget: The most tokens of the block.
            now: When it is asked.
            only: The steps that may come back; all unless given.
            more: Those of `Limits`. Where `min_relevance` is None, what is not worth its tokens is left out.
        """
        limits, only, past = Limits(**more), only or EVERYTHING, self._past
        past.queue.catch_up()
        snapshot = past.current()
        allowed = only.mask(snapshot)
        if limits.hidden:
            allowed &= ~np.isin(snapshot.step, [*limits.hidden])
        if not (text.strip() and allowed.any()):
            note = past.queue.trouble or ("" if allowed.any() else _find_unknown(only, snapshot))
            return Explanation(text, budget, Recall("", 0, (), note))
        try:
            scored = self._scored(text, now, snapshot, allowed, limits)
            explained = self._packed(scored, text, budget, limits, allowed)
        except IndexError as error:
            raise past.journal.damaged(f"a passage names a part that its step does not have ({error})") from error
        if past.is_current(snapshot):
            return explained
        # something was forgotten meanwhile, here or elsewhere
        return self.explain(text, budget, now, only=only, **more)

    def score(self, text: str, now: datetime) -> ScoredCandidates:
        """Return the candidates for `text` of the whole memory, requests too, with their features and scores."""
        snapshot = self._past.current()
        return self._scored(text, now, snapshot, np.ones(len(snapshot), np.bool_), Limits(min_relevance=0))

    def _scored(self, text: str, now: datetime, snapshot: Snapshot, allowed: Mask, limits: Limits) -> ScoredCandidates:
        """Return the candidates: of vectors by an exact search, of words by the journal."""
        past, query = self._past, self._past.queue.question(text, snapshot, now)
        search, among = past.journal.search_text, None if allowed.all() else snapshot.id[allowed]
        found = gather(query, snapshot, search(query.topic, among), allowed)
        if query.names and found.unseen:
            found = replace(found, is_strange=search(" ".join(query.names)).unseen > 0)
        if limits.min_relevance != 0 and not query.is_stretch:  # or requests come back, too
            found = without_requests(query.text, found, snapshot, limits.hidden, past.opened)
        return ScoredCandidates.of(query, snapshot, found, self._fusion)

    def _packed(self, scored: ScoredCandidates, text: str, budget: int, limits: Limits, allowed: Mask) -> Explanation:
        """Pack the best of what was scored, as it was corrected, and say what is missing."""
        past, trouble = self._past, self._past.queue.trouble
        # while the embedder fails, words alone say little of what is unrelated
        if trouble and limits.min_relevance is None:
            limits = replace(limits, min_relevance=0)
        is_known = limits.min_relevance is not None or scored.odds >= 0
        ranked = self._ranked(scored, budget, limits, allowed)
        newest = partial(places_of, scored.snapshot, allowed)
        changes = past.tracking.changes(_last_step(scored.snapshot, limits.as_of))
        room = budget if is_known else min(budget, LITTLE)
        recalled, next_best = pack(ranked, past.opened, room, past.key, limits, changes, newest)
        recalled = replace(recalled, note=trouble or self._note_unknown(scored.query))
        if not (is_known and any(passage.is_relevant for passage in ranked)):
            recalled = _with_nothing(recalled, scored, limits.min_relevance or WORTH, is_known)
        return Explanation(text, budget, recalled, next_best, scored.signals, scored.odds)

    def _ranked(self, scored: ScoredCandidates, budget: int, limits: Limits, allowed: Mask) -> Sequence[RankedPassage]:
        """Return what `budget` may reach, best first, what corrects a step in its place."""
        past, corrections = self._past, self._past.corrections
        if limits.as_of is not None:
            corrections = self._corrections_until(limits.as_of)
        ranked = scored.ranked(budget + SPARE, limits)
        if corrections:
            ranked = put_corrections(ranked, corrections, scored.snapshot, allowed)
        return put_newest_first(ranked, past.opened, scored.query.now, budget)

    def _corrections_until(self, moment: datetime) -> Mapping[int, int]:
        """Return the number of the newest correction of each step that was corrected up to a moment."""
        pairs = self._past.journal.corrections()
        steps = self._past.fetch([new for _, new in pairs])
        return newest_corrections((old, new) for old, new in pairs if steps[new].timestamp <= moment)

    def _note_unknown(self, query: Query) -> str:
        """Return a note of the labels of a question that no step has."""
        asked = [*query.labels.items()][:MOST_NAMES]
        unknown = [name for name, words in asked if not self._past.has_words(words)]
        return f"no step has {', '.join(unknown)}" if unknown else ""


def _last_step(snapshot: Snapshot, moment: datetime | None) -> int:
    """Return the number of the newest step, or of the newest up to a moment."""
    if moment is None:
        return snapshot.last_step
    return int(snapshot.step[snapshot.time <= moment.timestamp()].max(initial=0))


def _with_nothing(recalled: Recall, scored: ScoredCandidates, least: float, is_known: bool) -> Recall:
    """Return what came back though nothing is relevant, with a note of why that is."""
    best = float(scored.relevance.max(initial=0))
    reason = f": the best has a relevance of {best:.3f}, not {least:g}" if is_known else ""
    return replace(recalled, note=recalled.note or f"{NOTHING}{reason}", is_relevant=False, overflow=ALL_FITS)


def _find_unknown(only: Filter, snapshot: Snapshot) -> str:
    """Return a note with the names in a filter that no step has."""
    unknown: list[str] = []
    for name in ("session", "speaker", "tool"):
        value = getattr(only, name)
        if value is not None and not Filter(**{name: value}).mask(snapshot).any():
            unknown.append(f"{name} {value!r}")
    return f"no step has the {' or the '.join(unknown)}" if unknown else ""

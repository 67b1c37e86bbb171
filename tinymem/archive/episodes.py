"""Medium-term memory: episodes, runs of consecutive steps that left the window, each with a summary.

An episode is closed where the session changes, after a final answer, before a new task, or when it has MOST steps or
MOST_TOKENS tokens; then it is summarised once. FAN consecutive summaries are summarised in their turn, and so on, so
that a history of any length fits in few tokens: recent episodes in detail, old ones in outline.

Summaries are made in the background, after what was archived was embedded, so that no `add` waits for one. A context
makes those that are still missing with the extractive summarizer, which takes milliseconds and always gives the same:
so a context does not depend on how far the background has come. It never waits for another summarizer, which may be a
model over a network: until the background has its summary, an episode is not shown, and its steps are recalled.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from tinymem.archive.archive import Archive
from tinymem.errors import ClosedError, TinymemError, safe_summary, warn_hourly
from tinymem.messages.fitting import fitted
from tinymem.protocols import StepOutline, Summarizer, SummaryRow
from tinymem.protocols.settings import REWRITES
from tinymem.recall.files.summaries import with_marks
from tinymem.recall.render import quoted, without_echoes
from tinymem.steps.content import clean
from tinymem.steps.display import one_line
from tinymem.steps.step import REPR_LENGTH, Step
from tinymem.steps.types import SummaryStep
from tinymem.summarizers.extractive import ExtractiveSummarizer

__all__ = ["Episode", "Episodes"]

logger = logging.getLogger(__name__)

MOST, MOST_TOKENS = 40, 8_000  # steps of an episode, and their tokens
SUMMARY_TOKENS = 80  # of a summary
FAN = 8  # summaries that one summary of the next level covers


@dataclass(frozen=True)
class Episode:
    """The archived steps with numbers from `first` to `last`, and their summary.

    An episode of a higher `level` is made of episodes of the level below. `session` is None if the steps have none, or
    more than one.
    """

    first: int
    last: int
    session: str | None
    summary: str
    level: int = 1

    def __repr__(self) -> str:
        return f"<Episode #{self.first}-{self.last}: {one_line(self.summary[:REPR_LENGTH])}>"

    def __str__(self) -> str:
        steps = f"#{self.first}" if self.first == self.last else f"#{self.first}-{self.last}"
        return f"{steps}{f' ({self.session})' if self.session else ''}:\n{self.summary}"


class _Known:
    """The summaries of a journal, by level and in order, in a state of it: its version, REWRITES and own summaries."""

    def __init__(self, state: tuple[int, str | None, int] = (-1, None, 0), rows: Sequence[SummaryRow] = ()) -> None:
        self.state, self.rows = state, rows
        self._levels: dict[int, list[Episode]] = {}
        self._views: list[_View] = []

    def episodes(self, level: int) -> list[Episode]:
        """Return the episodes of a level, oldest first."""
        if level not in self._levels:
            rows = (row for row in self.rows if row.level == level and row.text)
            self._levels[level] = [Episode(row.first, row.last, row.session, row.text, level) for row in rows]
        return self._levels[level]

    def views(self, cost: Callable[[Episode], int]) -> list[_View]:
        """Return the whole history in episodes of level 1, and then with every further level in place of the finer."""
        if not self._views:
            views = [_View(self.episodes(1), cost)]
            for level in range(2, 1 + max((row.level for row in self.rows), default=1)):
                views.append(views[-1].under(self.episodes(level), cost))
            self._views = views
        return self._views

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The steps that the episodes of the first level cover."""
        return [(row.first, row.last) for row in self.rows if row.level == 1]


class _View:
    """Episodes, the tokens of the first n of them, and the number that are `begins` of a coarser view.

    Each of `begins` is a number of episodes that can be shown instead of the first so many of the finer view.
    """

    def __init__(self, episodes: list[Episode], cost: Callable[[Episode], int]) -> None:
        self.episodes, self.costs = episodes, [0, *accumulate(map(cost, episodes))]
        self.begins: list[tuple[int, int]] = []

    @property
    def total(self) -> int:
        return self.costs[-1]

    def under(self, parents: Sequence[Episode], cost: Callable[[Episode], int]) -> _View:
        """Return the view in which `parents` stand for the episodes that they cover."""
        shown: list[Episode] = []
        begins, done = [], 0
        for parent in parents:
            start = bisect_left(self.episodes, parent.first, lo=done, key=_last)
            shown += [*self.episodes[done:start], parent]
            done = bisect_right(self.episodes, parent.last, lo=start, key=_last)
            begins.append((len(shown), done))
        view = _View([*shown, *self.episodes[done:]], cost)
        view.begins = begins
        return view


class Episodes:
    """The episodes of an archive, oldest first; `summarizer` writes their summaries, and the journal keeps them."""

    def __init__(self, archive: Archive, summarizer: Summarizer | None = None) -> None:
        self._archive = archive
        self._extractive = ExtractiveSummarizer(archive.counter)
        self._summarizer = summarizer or self._extractive
        self._is_quick = isinstance(self._summarizer, ExtractiveSummarizer)
        self._settling = threading.RLock()  # one thread at a time, or one of them would work in vain
        self._made = 0  # summaries that this process has stored, which do not change the journal's version
        self._known = self._settled = _Known()  # as it was read last, and when nothing was missing
        self._costs: dict[Episode, int] = {}

    def __iter__(self) -> Iterator[Episode]:
        self.settle()
        return iter(self._known.episodes(1))

    def known(self) -> list[Episode]:
        """Return the episodes that are summarised by now."""
        return list(self._now().episodes(1))

    def current(self, episode: Episode) -> Episode:
        """Return an episode with marks in its summary behind lines of files that are gone since."""
        return replace(episode, summary=with_marks(episode.summary, self._archive.changes, self._archive.fetch))

    def open(self, episode: Episode) -> list[Step]:
        """Return the steps that an episode covers, whole and in order."""
        found = self._archive.fetch([row.number for row in self._archived(episode)])
        return [found[number] for number in sorted(found)]

    def as_step(self, episode: Episode) -> SummaryStep:
        """Return the summary as a step; its `covers` are the ids of the steps that it covers."""
        covers = [row.id for row in self._archived(episode)]
        return SummaryStep(episode.summary, covers, session=episode.session)

    def _archived(self, episode: Episode) -> list[StepOutline]:
        rows = self._archive.journal.outline(episode.first - 1, episode.last)
        return [row for row in rows if not row.window]

    # -- summarising --------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Call `settle`; if it fails, log a warning."""
        try:
            self.settle()
        except ClosedError:
            raise
        except TinymemError as error:  # the steps are safe
            warn_hourly(logger, self._archive.folder, "summaries are late: %s", error)

    def settle(self) -> int:
        """Summarise the closed episodes that have no summary yet, and return the number of new summaries."""
        with self._settling:
            before = self._made
            if self._settle():
                self._settled = self._known
            return self._made - before

    def _settle(self) -> bool:
        """Make what summaries are missing; False if another process interferes."""
        known = self._now()
        if self._archive.journal.is_read_only:  # a summary that cannot be kept would be made with each question
            return False
        rewrites = known.state[1]  # before any step is read, for who forgets it then
        for run in self._closed(known):
            steps = list(self._archive.fetch([row.number for row in run]).values())
            session = _shared([row.session for row in run])
            if steps and not self._keep(1, run[0].number, run[-1].number, session, steps, rewrites):
                return False
        while self._known is not self._settled and (orphans := _orphans(self._known.rows)):
            level, children = orphans
            steps = [SummaryStep(child.text) for child in children]
            session = _shared([child.session for child in children])
            if not self._keep(level + 1, children[0].first, children[-1].last, session, steps, rewrites):
                return False
        return True

    def _closed(self, known: _Known) -> list[list[StepOutline]]:
        """Return the closed runs of archived steps that are in no episode yet.

        A run is closed once a step behind it is archived, so that it is the same whenever this is asked.
        """
        ranges, covered = known.spans, self._settled.spans
        is_whole = known is self._settled or ranges[: len(covered)] == covered  # or some were forgotten
        after = covered[-1][1] if covered and is_whole else 0  # up to there, all is in an episode, or cannot be
        runs: list[list[StepOutline]] = []
        run: list[StepOutline] = []
        held, ends = 0, False  # how many of the ranges end before the step at hand; the run ends where one is archived
        for row in self._archive.journal.outline(after):
            while held < len(ranges) and ranges[held][1] < row.number:
                held += 1
            inside = held < len(ranges) and ranges[held][0] <= row.number
            ends = bool(run) and (ends or inside or _begins_episode(row, run))
            if ends and (inside or not row.window):
                runs.append(run)
                run, ends = [], False
            if not inside and not row.window:
                run.append(row)
        if run and run[-1].type == "final_answer":
            runs.append(run)
        return runs

    def _keep(
        self, level: int, first: int, last: int, session: str | None, steps: Sequence[Step], rewrites: str | None
    ) -> bool:
        """Store a summary; return False if another process was first, or has forgotten steps since."""
        known, journal = self._known, self._archive.journal
        row = SummaryRow(level, first, last, session, self._summary(steps))
        with journal.together():
            if journal.setting(REWRITES) != rewrites or journal.put_summaries([row]) != 1:
                return False
        self._made += 1
        rows = sorted([*known.rows, row], key=lambda row: (row.level, row.first))
        self._known = _Known((*known.state[:2], self._made), rows)
        return True

    def _summary(self, steps: Sequence[Step]) -> str:
        steps = [without_echoes(step, self._archive.key) for step in steps]
        try:
            found = clean(self._summarizer.summarize(steps, SUMMARY_TOKENS)).strip()
            found = found if self._is_quick else quoted("", found)  # lines of the extractive one have true labels
        except Exception as error:  # a step must not be lost because its summary failed
            message = "the summarizer %s failed, so the extractive one is used: %s"
            warn_hourly(logger, self._archive.folder, message, self._summarizer.name, safe_summary(error))
            found = self._extractive.summarize(steps, SUMMARY_TOKENS)
        return fitted(found, SUMMARY_TOKENS, self._archive.counter)

    def _now(self) -> _Known:
        """Return the summaries as they are now; another thread or process may make some, or forget steps."""
        state = self._archive.journal.version(), self._archive.journal.setting(REWRITES), self._made
        known = self._known
        if known.state != state:
            known = self._known = _Known(state, self._archive.journal.summaries())
        return known

    def _cost(self, episode: Episode) -> int:
        if episode not in self._costs:
            self._costs[episode] = self._archive.counter.count(f"{episode}\n")
        return self._costs[episode]

    # -- choosing -----------------------------------------------------------------------------------------------------

    def within(self, room: int) -> list[Episode]:
        """Return the whole history in episodes of about `room` tokens at most, in order.

        As many episodes as fit are in detail, the oldest in outline. If even the outline is too long, its oldest
        episodes are left out.
        """
        if self._is_quick:
            self.catch_up()
        known = self._known if self._is_quick else self._now()
        finer, *others = known.views(self._cost)
        if finer.total <= room:
            return finer.episodes
        for coarser in others:
            for end, covered in coarser.begins:
                if coarser.costs[end] + finer.total - finer.costs[covered] <= room:
                    return [*coarser.episodes[:end], *finer.episodes[covered:]]
            finer = coarser
        gone = next(at for at, cost in enumerate(finer.costs) if finer.total - cost <= room)
        return finer.episodes[gone:]


def _orphans(rows: Sequence[SummaryRow]) -> tuple[int, list[SummaryRow]] | None:
    """Return a level, and consecutive summaries of it that no summary of the next level covers.

    These are FAN summaries, or fewer where forgetting has left them between summaries that are covered.
    """
    for level in sorted({row.level for row in rows}):
        parents = {row.first: row.last for row in rows if row.level == level + 1}
        covered = 0
        orphans: list[SummaryRow] = []
        for row in (row for row in rows if row.level == level):
            covered = max(covered, parents.get(row.first, 0))
            if row.first > covered:
                orphans.append(row)
            if len(orphans) == FAN or (orphans and row.first <= covered):
                return level, orphans
    return None


def _begins_episode(row: StepOutline, run: Sequence[StepOutline]) -> bool:
    """Return whether a step begins a new episode after the `run` before it."""
    last = run[-1]
    more = 1 if row.window else row.tokens  # a step that is still in the window may not become part of it
    too_long = len(run) >= MOST or sum(one.tokens for one in run) + more > MOST_TOKENS
    return too_long or row.type == "task" or last.type == "final_answer" or row.session != last.session


def _last(episode: Episode) -> int:
    return episode.last


def _shared(sessions: Sequence[str | None]) -> str | None:
    return sessions[0] if len(set(sessions)) == 1 else None

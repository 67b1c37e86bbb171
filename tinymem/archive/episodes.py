"""Medium-term memory: episodes, runs of consecutive steps that left the window, each with a summary.

An episode is closed where the session changes, after a final answer, before a new task, or when it has MOST steps or
MOST_TOKENS tokens; then it is summarised once. So that a history of any length fits in few tokens, recent episodes are
told in detail and old ones in outline: lines are picked of FAN consecutive summaries, of FAN such outlines in turn, and
so on.

Summaries are made in the background, after what was archived was embedded, so that no `add` waits for one. A context
makes those that are still missing with the extractive summarizer, which takes milliseconds and always gives the same:
so a context does not depend on how far the background has come. It never waits for another summarizer, which may be a
model over a network: until the background has its summary, an episode is not shown, and its steps are recalled.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
FAN = 8  # episodes of an outline


@dataclass(frozen=True)
class Episode:
    """The archived steps with numbers from `first` to `last`, and their summary.

    An episode of a higher `level` is an outline of episodes of the level below. `session` is None if the steps have
    none, or more than one.
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


class Episodes:
    """The episodes of an archive, oldest first; `summarizer` writes their summaries, and the journal keeps them.

    One that may be a model is asked only where contexts show episodes (`is_shown`), or somebody iterates over them.
    """

    def __init__(self, archive: Archive, summarizer: Summarizer | None = None, is_shown: bool = True) -> None:
        self._archive, self._is_shown = archive, is_shown
        self._extractive = ExtractiveSummarizer(archive.counter)
        self._summarizer = summarizer or self._extractive
        self._is_quick = isinstance(self._summarizer, ExtractiveSummarizer)
        self._settling = threading.RLock()  # one thread at a time, or one of them would work in vain
        self._reading = threading.Lock()
        self._settled: tuple[str | None, int] = (None, 0)  # as of which rewrite all is summarised, up to which step
        self._made = 0  # summaries that this process has stored, which do not change the journal's version
        self._state: tuple[int, str | None, int] = (-1, None, 0)  # of the journal, as of which its rows are known
        self._known: list[SummaryRow] = []
        self._outlines: dict[tuple[Episode, ...], Episode] = {}
        self._costs: dict[Episode, int] = {}

    def __iter__(self) -> Iterator[Episode]:
        self.settle()
        return iter(self.known())

    def known(self) -> list[Episode]:
        """Return the episodes that are summarised by now."""
        return [Episode(row.first, row.last, row.session, row.text) for row in self._rows() if row.text]

    def _rows(self) -> list[SummaryRow]:
        """Return the summaries as they are now; another thread or process may make some, or forget steps."""
        journal = self._archive.journal
        state = journal.version(), journal.setting(REWRITES), self._made
        with self._reading:
            if state[1] != self._state[1]:  # what was forgotten is in some of them
                self._outlines, self._costs = {}, {}
            if state != self._state:
                self._known = journal.summaries.all()
                self._state = state
            return self._known

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
        """Call `settle` where summaries are shown or cost nothing; if it fails, log a warning."""
        try:
            if self._is_quick or self._is_shown:
                self.settle()
        except ClosedError:
            raise
        except TinymemError as error:  # the steps are safe
            warn_hourly(logger, self._archive.folder, "summaries are late: %s", error)

    def settle(self) -> int:
        """Summarise the closed episodes that have no summary yet, and return the number of new summaries."""
        journal = self._archive.journal
        if journal.is_read_only:  # a summary that cannot be kept would be made with each question
            return 0
        with self._settling:
            before = self._made
            rewrites = journal.setting(REWRITES)  # before any step is read, for who forgets it then
            settled_at, last = self._settled
            for run in self._closed_runs(last if settled_at == rewrites else 0):
                if not self._summarize(run, rewrites):
                    return self._made - before  # the next call goes on
            self._settled = rewrites, max((row.last for row in self._rows()), default=0)
            return self._made - before

    def _closed_runs(self, after: int) -> list[list[StepOutline]]:
        """Return the closed runs of archived steps behind this one that are in no episode yet.

        A run is closed once a step behind it is archived, so that it is the same whenever this is asked.
        """
        covered = self._rows()
        runs: list[list[StepOutline]] = []
        run: list[StepOutline] = []
        has_ended = False
        for row in self._archive.journal.outline(after):
            before = bisect_right(covered, row.number, key=_first)
            is_covered = before > 0 and row.number <= covered[before - 1].last
            has_ended = bool(run) and (has_ended or is_covered or _begins_episode(row, run))
            if has_ended and (is_covered or not row.window):
                runs.append(run)
                run, has_ended = [], False
            if not is_covered and not row.window:
                run.append(row)
        if run and run[-1].type == "final_answer":
            runs.append(run)
        return runs

    def _summarize(self, run: Sequence[StepOutline], rewrites: str | None) -> bool:
        """Store the summary of a run; return False if another process was first, or has forgotten steps since."""
        journal = self._archive.journal
        steps = list(self._archive.fetch([row.number for row in run]).values())
        if not steps:
            return True
        row = SummaryRow(run[0].number, run[-1].number, run[0].session, self._summary(steps))
        with journal.together():
            if journal.setting(REWRITES) != rewrites or journal.summaries.put([row]) != 1:
                return False
        self._made += 1
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

    # -- choosing -----------------------------------------------------------------------------------------------------

    def within(self, room: int) -> list[Episode]:
        """Return the whole history in episodes of about `room` tokens at most, in order.

        As many episodes as fit are in detail, the oldest in outline. If even the outline is too long, its oldest
        episodes are left out.
        """
        if self._is_quick:
            self.catch_up()
        shown = self.known()
        excess = sum(map(self._cost, shown)) - room
        place = 0  # of the next episodes that an outline may stand for
        while excess > 0:
            finer = shown[place : place + FAN]
            if len(finer) == FAN and finer[0].level == finer[-1].level:
                outline = self._outline(tuple(finer))
                shown[place : place + FAN] = [outline]
                excess -= sum(map(self._cost, finer)) - self._cost(outline)
                place += 1
            elif place > 0:
                place = 0  # outlines of outlines
            else:
                excess -= self._cost(shown.pop(0))
        return shown

    def _outline(self, episodes: tuple[Episode, ...]) -> Episode:
        if episodes not in self._outlines:
            steps = [SummaryStep(episode.summary) for episode in episodes]
            sessions = {episode.session for episode in episodes}
            self._outlines[episodes] = Episode(
                episodes[0].first,
                episodes[-1].last,
                sessions.pop() if len(sessions) == 1 else None,
                self._extractive.summarize(steps, SUMMARY_TOKENS),
                episodes[0].level + 1,
            )
        return self._outlines[episodes]

    def _cost(self, episode: Episode) -> int:
        if episode not in self._costs:
            self._costs[episode] = self._archive.counter.count(f"{episode}\n")
        return self._costs[episode]


def _begins_episode(row: StepOutline, run: Sequence[StepOutline]) -> bool:
    """Return whether a step begins a new episode after the `run` before it."""
    last = run[-1]
    more = 1 if row.window else row.tokens  # a step that is still in the window may not become part of it
    too_long = len(run) >= MOST or sum(step.tokens for step in run) + more > MOST_TOKENS
    return too_long or row.type == "task" or last.type == "final_answer" or row.session != last.session


def _first(row: SummaryRow) -> int:
    return row.first

"""Medium-term memory: episodes, runs of consecutive steps that left the window, each with a summary.

An episode is closed where the session changes, after a final answer, before a new task, or when it has MOST steps or
MOST_TOKENS tokens; then it is summarised once.

Summaries are made where contexts have a share for them, or somebody iterates over them: in the background, after what
was archived was embedded, so that no `add` waits for one. A context makes those that are still missing with the
extractive summarizer, which takes milliseconds and always gives the same: so a context does not depend on how far the
background has come. It never waits for another summarizer, which may be a model over a network: until the background
has its summary, an episode is not shown, and its steps are recalled.

An episode goes with the first step of it that is forgotten; unless it was the newest, no other is made of the rest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinymem.archive.archive import Archive
from tinymem.errors import ClosedError, TinymemError, safe_summary, warn_hourly
from tinymem.messages.fitting import fitted
from tinymem.protocols import StepRow, Summarizer, SummaryRow
from tinymem.protocols.settings import REWRITES
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


@dataclass(frozen=True)
class Episode:
    """The archived steps with numbers from `first` to `last`, and their summary.

    `session` is None if the steps have none.
    """

    first: int
    last: int
    session: str | None
    summary: str

    def __repr__(self) -> str:
        return f"<Episode #{self.first}-{self.last}: {one_line(self.summary[:REPR_LENGTH])}>"

    def __str__(self) -> str:
        steps = f"#{self.first}" if self.first == self.last else f"#{self.first}-{self.last}"
        return f"{steps}{f' ({self.session})' if self.session else ''}:\n{self.summary}"


class Episodes:
    """The episodes of an archive, oldest first; `summarizer` writes their summaries, and the journal keeps them.

    Contexts show episodes where `is_shown`; a summarizer that may be a model is asked only there.
    """

    def __init__(self, archive: Archive, summarizer: Summarizer | None = None, is_shown: bool = True) -> None:
        self._archive, self._is_shown = archive, is_shown
        self._extractive = ExtractiveSummarizer(archive.counter)
        self._summarizer = summarizer if summarizer is not None and is_shown else self._extractive
        self._is_quick = isinstance(self._summarizer, ExtractiveSummarizer)
        self._settling = threading.RLock()  # one thread at a time, or one of them would work in vain

    def __iter__(self) -> Iterator[Episode]:
        self.settle()
        return iter(self.known())

    def known(self) -> list[Episode]:
        """Return the episodes that are summarised by now."""
        rows = self._archive.journal.summaries.all()
        return [Episode(row.first, row.last, row.session, row.text) for row in rows if row.text]

    def open(self, episode: Episode) -> list[Step]:
        """Return the steps that an episode covers, whole and in order."""
        found = self._archive.fetch([row.number for row in self._archived(episode)])
        return [found[number] for number in sorted(found)]

    def as_step(self, episode: Episode) -> SummaryStep:
        """Return the summary as a step; its `covers` are the ids of the steps that it covers."""
        covers = [row.id for row in self._archived(episode)]
        return SummaryStep(episode.summary, covers, session=episode.session)

    def _archived(self, episode: Episode) -> list[StepRow]:
        return self._archive.journal.rows(episode.first - 1, before=episode.last + 1, window=False, texts=False)

    # -- summarising --------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Call `settle` where contexts show episodes; if it fails, log a warning."""
        try:
            if self._is_shown:
                self.settle()
        except ClosedError:
            raise
        except TinymemError as error:  # the steps are safe
            warn_hourly(logger, self._archive.folder, "summaries are late: %s", error)

    def settle(self) -> None:
        """Summarise the closed episodes behind the last one that has a summary."""
        journal = self._archive.journal
        if journal.is_read_only:  # a summary that cannot be kept would be made with each question
            return
        with self._settling:
            rewrites = journal.setting(REWRITES)  # before any step is read, for who forgets it then
            for run in self._closed_runs():
                if not self._summarize(run, rewrites):
                    return  # the next call goes on

    def _closed_runs(self) -> list[list[StepRow]]:
        """Return the closed runs of archived steps behind the last episode.

        A run is closed once a step behind it is archived, so that it is the same whenever this is asked.
        """
        journal = self._archive.journal
        last = max((row.last for row in journal.summaries.all()), default=0)
        runs: list[list[StepRow]] = []
        run: list[StepRow] = []
        has_ended = False
        for row in journal.rows(last, texts=False):
            has_ended = bool(run) and (has_ended or _begins_episode(row, run))
            if row.window:
                continue
            if has_ended:
                runs.append(run)
                run, has_ended = [], False
            run.append(row)
        if run and run[-1].type == "final_answer":
            runs.append(run)
        return runs

    def _summarize(self, run: Sequence[StepRow], rewrites: str | None) -> bool:
        """Store the summary of a run; return False if another process was first, or has forgotten steps since."""
        journal = self._archive.journal
        steps = list(self._archive.fetch([row.number for row in run]).values())
        if not steps:
            return True
        row = SummaryRow(run[0].number, run[-1].number, run[0].session, self._summary(steps))
        with journal.together():
            return journal.setting(REWRITES) == rewrites and journal.summaries.put([row]) == 1

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
        """Return the newest episodes, in order: as many as fit `room` tokens."""
        if self._is_quick:
            self.catch_up()
        shown: list[Episode] = []
        for episode in reversed(self.known()):
            room -= self._archive.counter.count(f"{episode}\n")
            if room < 0:
                break
            shown.insert(0, episode)
        return shown


def _begins_episode(row: StepRow, run: Sequence[StepRow]) -> bool:
    """Return whether a step begins a new episode after the `run` before it."""
    last = run[-1]
    more = 1 if row.window else row.tokens  # a step that is still in the window may not become part of it
    too_long = len(run) >= MOST or sum(step.tokens for step in run) + more > MOST_TOKENS
    return too_long or row.type == "task" or last.type == "final_answer" or row.session != last.session

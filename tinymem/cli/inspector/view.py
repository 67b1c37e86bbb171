"""The view of a memory that the page shows: each public method answers one kind of request, as values for JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from tinymem.archive.scratchpad_format import SCRATCHPAD
from tinymem.cli.inspector.timeline import Timeline, version_of
from tinymem.cli.shared import excerpt_record
from tinymem.errors import InputError, ReadOnlyError, TinymemError
from tinymem.memory.context.window import current_task
from tinymem.memory.inspection.lines import episode_line
from tinymem.memory.inspection.report import report_of
from tinymem.memory.scratchpad import AgentMemory
from tinymem.messages.calls import name_and_arguments, raw_calls
from tinymem.messages.tokens import count_message
from tinymem.recall.features import FEATURES
from tinymem.steps.checks import check_non_negative_int, check_str, check_strings
from tinymem.steps.content import as_text, to_mutable
from tinymem.steps.terminal import first_words

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tinymem.archive.episodes import Episode
    from tinymem.memory.context.context import Entry
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.recall import Excerpt

__all__ = ["View"]

Record = dict[str, Any]
T = TypeVar("T")

LIMITS = {"session", "type", "tier", "find"}  # of a timeline
FILTERS = {"session", "speaker", "tool", "type", "since", "until"}  # of recall
SLICE = 500  # steps or episodes of one answer at most
SEGMENTS = 240  # bars of the overview
NEXT_BEST = 12  # passages that are ranked next
LONGEST_TEXT = 200_000  # characters of a part that are shown
QUESTION = 240  # cells of a question that the page proposes
TIERS = {"episodes": "episodes", "scratchpad": "scratchpad", "recalled": "recall"}  # of entries that are no steps


class View:
    """A memory as the page sees it. Any number of threads may ask.

    Args:
        memory: The memory.
        refusal: Why the page may change nothing, in words; it may if there is no reason.
    """

    def __init__(self, memory: HierarchicalMemory, refusal: str = "") -> None:
        self.memory = memory
        is_read_only = memory.long_term.journal.is_read_only
        self.refusal = str(ReadOnlyError(str(memory.path))) if is_read_only else refusal
        self._lock = threading.Lock()
        self._version = -1
        self._kept: dict[tuple[object, ...], Any] = {}

    def prepare(self) -> None:
        """Make what a page asks for first, and read what its first question needs; the page says where that fails."""
        with suppress(TinymemError):
            self.overview()
            self.segments()
            self.memory.long_term.current()

    def overview(self) -> Record:
        """Return the report of the memory, and what its features mean."""
        return self._keep(("overview",), self._overview)

    def _overview(self) -> Record:
        report = report_of(self.memory, 0)
        assert report.stats is not None  # as every HierarchicalMemory has them
        covered = sum(episode.last - episode.first + 1 for episode in self.memory.medium_term.known())
        task = current_task(self.memory.steps)
        notes = self.memory.long_term.journal.setting(SCRATCHPAD)  # those of the agent's process, as it is now
        return report.record() | {
            "max_tokens": self.memory.max_tokens,
            "covered": min(report.stats.archived_steps, covered),
            "features": {name: feature._asdict() for name, feature in FEATURES.items()},
            "scratchpad": AgentMemory.load(notes).to_context() if notes else "",
            "questions": [first_words(task.text, QUESTION)] if task else [],
            "refusal": self.refusal,
            **self.version(),
        }

    def version(self) -> Record:
        """Return a number that changes when somebody has written."""
        return {"version": version_of(self.memory)}

    def known(self) -> Record:
        """Return the speakers and tools of the memory, which the page suggests where people filter."""
        catalog = self.memory.long_term.current()
        tools = set(chain.from_iterable((names or "").splitlines() for names in catalog.toolsets))
        return {"speakers": sorted(filter(None, catalog.speakers)), "tools": sorted(tools)}

    # -- the timeline -------------------------------------------------------------------------------------------------

    def steps(self, start: int, stop: int, **limits: str | None) -> Record:
        """Return a slice of the timeline, within LIMITS that are given, and how many steps there are in it."""
        timeline = self._timeline(**limits)
        lines = timeline.lines(timeline.numbers[slice(*_slice(start, stop))])
        return {"count": len(timeline.numbers), "lines": [*map(vars, lines)]}

    def segments(self, **limits: str | None) -> Record:
        """Return the timeline in sums, for the overview above it."""
        timeline = self._timeline(**limits)
        made = self._keep(("segments", *sorted(limits.items())), lambda: timeline.segments(SEGMENTS))
        return {"segments": made}

    def place(self, number: int, **limits: str | None) -> Record:
        """Return the place of a step in the timeline."""
        return {"place": self._timeline(**limits).place(number)}

    def step(self, number: int) -> Record:
        """Return one step, whole but for what is longer than a page can show."""
        found = self.memory.get(number).step_number or 0  # an error in words where there is none
        return next(self.whole([found]))

    def numbers(self) -> Sequence[int]:
        """Return the numbers of all steps."""
        return self._timeline().numbers

    def whole(self, numbers: Sequence[int]) -> Iterator[Record]:
        """Yield the steps of these numbers, whole but for what is longer than a page can show."""
        for line, step in self._timeline().steps(numbers):
            parts = [
                {"kind": part.kind, "text": part.text[:LONGEST_TEXT], "cut": max(0, len(part.text) - LONGEST_TEXT)}
                for part in step.parts()
            ]
            yield {
                **vars(line),
                "speaker": step.speaker,
                "parts": parts,
                "metadata": to_mutable(step.metadata),
                "history": self._history(line.number),
            }

    def _history(self, number: int) -> list[Record]:
        """Return a statement and all that corrects it in short, the newest last; nothing where nobody corrected it."""
        corrections = self.memory.long_term.corrections
        newest = corrections.get(number, number)
        corrected = [old for old, new in corrections.items() if new == newest]
        return [*map(vars, self._timeline().lines(sorted([*corrected, newest])))] if corrected else []

    # -- recall, and the context --------------------------------------------------------------------------------------

    def recall(self, query: str, budget: int, **filters: str | None) -> Record:
        """Return what comes back for a question within a budget and FILTERS, why, and what is ranked next."""
        chosen: Record = _filled(filters, FILTERS)
        found = self.memory.explain(query, budget, next_best=NEXT_BEST, **chosen)
        return {
            "budget": budget,
            "tokens": found.recalled.tokens,
            "note": found.recalled.note,
            "is_relevant": found.recalled.is_relevant,
            "items": [*map(_excerpt, found.items)],
            "next_best": [*map(_excerpt, found.next_best)],
        }

    def context(self, query: str | None, budget: int) -> Record:
        """Return the prompt as it would be sent now, message by message, with what is left out of the window."""
        context = self.memory.context(query or None, max_tokens=budget)
        fixed = {item.step.id for item in context.items if item.tier == "fixed"}
        return {
            "budget": budget,
            "tokens": context.tokens,
            "note": context.recalled.note,
            "parts": [
                self._part(entry, fixed) | {"stable": place < context.stable}
                for place, entry in enumerate(context.entries)
            ],
            "out": [
                {"number": item.step.step_number, "words": first_words(item.step.text, 120)}
                for item in context.items
                if item.tier == "out"
            ],
        }

    # -- episodes -----------------------------------------------------------------------------------------------------

    def episodes(self, start: int, stop: int) -> Record:
        """Return a slice of the episodes, the newest first, and how many there are."""
        every = self.memory.medium_term.known()[::-1]
        shown = map(self._episode, every[slice(*_slice(start, stop))])
        return {"count": len(every), "episodes": [*shown]}

    def episode(self, first: int, last: int) -> Record:
        """Return the steps that an episode covers."""
        archive = self._timeline(tier="archive")
        return {"lines": [*map(vars, archive.lines(archive.between(first, last)[:SLICE]))]}

    # -- changes ------------------------------------------------------------------------------------------------------

    def correct(self, number: int, text: str) -> Record:
        """Correct what a step says, and return the number of the correction."""
        correction = self.memory.correct(self._changeable(number), check_str("text", text))
        return {"number": correction.step_number}

    def mark(self, number: int, milestone: bool) -> Record:
        """Make a step a milestone, or none."""
        self.memory.mark(self._changeable(number), milestone)
        return {"number": number}

    def forget(self, number: int) -> Record:
        """Remove one step for good."""
        return {"forgotten": self.memory.forget(self._changeable(number))}

    def _changeable(self, number: int) -> int:
        """Return the number of one step; InputError where there is none, or nothing may be changed."""
        if self.refusal:
            raise InputError(self.refusal)
        return self.memory.get(number).step_number or 0

    # -- inside -------------------------------------------------------------------------------------------------------

    def _timeline(self, **limits: str | None) -> Timeline:
        """Return the timeline within these limits."""
        given = _filled(limits, LIMITS)
        return self._keep(("timeline", *sorted(given.items())), lambda: Timeline(self.memory, **given))

    def _keep(self, name: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return what `make` makes, made once until somebody writes, while others wait."""
        with self._lock:
            version = version_of(self.memory)
            if version != self._version:
                self._version = version
                self._kept.clear()
            if name not in self._kept:
                self._kept[name] = make()
            made: T = self._kept[name]
            return made

    def _part(self, entry: Entry, fixed: AbstractSet[str]) -> Record:
        """Return a message of a context, with its tier and its tokens; `fixed` are the steps that every context has."""
        message = entry.message
        in_window = "fixed" if any(step.id in fixed for step in entry.steps) else "window"
        return {
            "tier": TIERS.get(entry.kind, in_window),
            "kind": entry.kind,
            "role": message["role"],
            "text": as_text(message.get("content")),
            "calls": [f"{name}({arguments})" for name, arguments in map(name_and_arguments, raw_calls(message))],
            "tokens": count_message(message, self.memory.long_term.counter),
            "shortened": entry.shortened,
            "steps": [step.step_number for step in entry.steps if step.step_number is not None],
        }

    def _episode(self, episode: Episode) -> Record:
        tokens = self.memory.long_term.counter.count(str(episode))
        return vars(episode_line(self.memory, episode)) | {"summary": episode.summary, "summary_tokens": tokens}


def _filled(fields: Mapping[str, str | None], known: AbstractSet[str]) -> dict[str, str]:
    """Return the fields of a form that are filled in; InputError for one that it has not, or that is no text."""
    if unknown := fields.keys() - known:
        raise InputError(f"there is no field {min(unknown)!r:.40}")
    given = {name: text for name, text in fields.items() if text}
    check_strings("fields", [*given.values()])
    return given


def _slice(start: int, stop: int) -> tuple[int, int]:
    """Return the places of one answer."""
    return check_non_negative_int("start", start), min(check_non_negative_int("stop", stop), start + SLICE)


def _excerpt(item: Excerpt) -> Record:
    return excerpt_record(item) | {"kind": item.step.parts()[item.part].kind}

"""Explanation of a query's result: its evidence and the chosen passages, with ranks, scores and their features.

    python -m benchmarks.recall --explain QUERY --data FILE... --budgets 1024 [--embedder NAME] [--limit N]

QUERY is the id of a query, or a part of its text; the first that fits is shown. A passage's rank is by score less the
price of its tokens, among all candidates, near-duplicates included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from benchmarks.fitting.evidence import Candidates
from benchmarks.harness.data import Haystack, Query, claimed, read_haystacks
from benchmarks.harness.methods import Setup
from benchmarks.harness.scoring import SLICE, score
from tinymem import Recall
from tinymem.errors import InputError
from tinymem.recall.fusion import ScoredCandidates
from tinymem.recall.selection.opened import RankedPassage

__all__ = ["Inside", "explain"]

REASONS = 4  # features that are shown of a passage, the strongest
PASSAGES = 6  # that are shown of a unit of evidence, the best
START = 70  # characters that are shown of a text

Place: TypeAlias = tuple[int, int, int, int]  # of a passage: number of the step, part, start, end


def explain(asked: str, files: Sequence[Path], budgets: Sequence[int], embedder: str, limit: int | None) -> str:
    """The explanation of one query at each budget."""
    haystack, query = wanted(asked, (one for path in files for one in read_haystacks(path, limit)))
    with tempfile.TemporaryDirectory(prefix="explain-", ignore_cleanup_errors=True) as folder:
        method = Candidates(Setup(Path(folder) / "memory", embedder, "exact", haystack.is_agent_run))
        try:
            method.add(haystack.units[: query.cutoff])
            scored = method.score(query.question)
            parts = [Inside(haystack, query, method, scored, budget).text() for budget in budgets]
        finally:
            method.close()
    head = f"{haystack.id}, query {query.id} ({query.type}): {shortened(query.question.text)}\n"
    head += f"the needle: {query.needle}\n" if query.needle else ""
    head += f"{query.cutoff} units, {len(scored.snapshot)} passages, {len(scored.rows)} of them candidates"
    return "\n\n".join([head, *parts])


def wanted(asked: str, haystacks: Iterable[Haystack]) -> tuple[Haystack, Query]:
    """The query with the id `asked`, else the first whose text has it; InputError if there is none."""
    by_text = None
    for haystack in haystacks:
        for query in haystack.queries:
            if query.id == asked:
                return haystack, query
            if by_text is None and asked.lower() in query.question.text.lower():
                by_text = haystack, query
    if by_text is None:
        raise InputError(f"no query has the id {asked!r}, or this in its text")
    return by_text


def shortened(text: str) -> str:
    """A text's beginning, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= START else f"{line[:START]}…"


class Inside:
    """The fate of every passage when `query` was asked at `budget`."""

    def __init__(
        self, haystack: Haystack, query: Query, method: Candidates, scored: ScoredCandidates, budget: int
    ) -> None:
        self.haystack, self.query, self.method, self.budget = haystack, query, method, budget
        catalog = scored.snapshot
        columns = (catalog.step, catalog.part, catalog.start, catalog.end)
        self.passages: list[Place] = list(zip(*(column.tolist() for column in columns), strict=True))
        every = scored.ranked(8 * len(scored.rows))  # nothing is left out
        self.ranked: dict[Place, tuple[int, RankedPassage]] = {
            one[:4]: (rank, one) for rank, one in enumerate(every, 1)
        }
        self.kept = {one[:4] for one in scored.ranked(budget)}  # those that packing gets to see
        self.found = method.packed(scored, budget)
        self.with_repetitions = method.packed(scored, budget, diversity=0)

    @cached_property
    def chosen(self) -> set[Place]:
        """The passages in the prompt."""
        return self._in(self.found)

    @cached_property
    def repeating(self) -> set[Place]:
        """The passages that would be in the prompt if they did not repeat better ones."""
        return self._in(self.with_repetitions) - self.chosen

    def _in(self, found: Recall) -> set[Place]:
        items = [(item.step.step_number, item.part, item.start, item.end) for item in found.items]
        return {
            (n, part, start, end)
            for n, part, start, end in self.kept
            if any(i == n and p == part and low <= start and end <= high for i, p, low, high in items)
        }

    def fate(self, at: Place) -> str:
        """Describe the fate of a passage, with the reason."""
        if at not in self.ranked:
            return "not a candidate"
        if at in self.chosen:
            return "chosen"
        if at in self.repeating:
            return "left out as a near-duplicate"
        rank = self.ranked[at][0]
        last = max((self.ranked[one][0] for one in self.chosen), default=0)
        if rank < last or not last:
            return "did not fit what was left"
        return f"ranked below the budget, which was full at rank {last}"

    def evidence(self) -> dict[int, list[Place]]:
        """The passages of each unit that holds evidence, by its place; of a needle those that hold it."""
        needle, units = self.query.needle, self.haystack.units
        gold = {self.haystack.places[name] for name in self.query.gold} if needle is None else set(range(len(units)))
        found: dict[int, list[Place]] = {} if needle else {unit: [] for unit in sorted(gold)}
        for at, (unit, _) in zip(self.passages, self.method.places, strict=True):
            _, _, start, end = at
            if unit in gold and (needle is None or self.holds(needle, units[unit].text, start, end)):
                found.setdefault(unit, []).append(at)
        return found

    @staticmethod
    def holds(needle: str, text: str, start: int, end: int) -> bool:
        """Return whether a slice has the needle, with enough of its context."""
        return needle in text[start:end] and end - start >= min(SLICE, len(text))

    def text(self) -> str:
        """The explanation."""
        recalled = self.method.claiming(self.found)
        line = {"budget": self.budget, "text": recalled.text, "units": claimed(self.haystack, recalled)}
        rows = score([self.haystack], {(self.haystack.id, self.query.id, self.budget): line})[self.budget]
        value = rows[self.haystack.queries.index(self.query)].value
        lines = [f"@{self.budget}: {self.found.tokens} tokens, recall {value:.3f}", "evidence:"]
        for unit, passages in self.evidence().items():
            there = sum(at in self.chosen for at in passages)
            shown = f"{self.haystack.units[unit].speaker}: {shortened(self.haystack.units[unit].text)}"
            lines.append(f"  {self.haystack.ids[unit]}  {shown}  ({there} of {len(passages)} passages chosen)")
            lines += [f"    {self.line(at)}" for at in sorted(passages, key=self.rank)[:PASSAGES]]
        lines.append("chosen, best first:")
        for at in sorted(self.chosen, key=self.rank):
            lines.append(f"  {self.line(at)}\n      {shortened(self.slice(at))}")
        return "\n".join(lines)

    def rank(self, at: Place) -> int:
        """A passage's rank, counted from 1; that of no candidate is behind all."""
        return self.ranked[at][0] if at in self.ranked else len(self.passages)

    def slice(self, at: Place) -> str:
        """A passage's text."""
        number, part, start, end = at
        return self.method.archive.fetch([number])[number].parts()[part].text[start:end]

    def line(self, at: Place) -> str:
        """A passage: where it is, rank, score, tokens, its fate and the features that weigh most."""
        tokens = self.method.archive.counter.count(self.slice(at))
        where = f"#{at[0]}.{at[1]} [{at[2]}:{at[3]}]"
        if at not in self.ranked:
            return f"{where}, {tokens} tokens: {self.fate(at)}"
        rank, one = self.ranked[at]
        why = ", ".join(f"{name} {value:+.2f}" for name, value in [*one.why()().items()][:REASONS])
        return f"{where}, rank {rank}, score {one.score:+.2f}, {tokens} tokens: {self.fate(at)}; {why}"

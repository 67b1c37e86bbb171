"""The source of candidates: what recall asks for the passages that may answer one question."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tinymem.protocols import Journal
from tinymem.recall.candidates import Candidates, gather
from tinymem.recall.query.analysis import Query
from tinymem.recall.snapshot import Snapshot
from tinymem.stores.filter import Filter

__all__ = ["Source"]


class Source:
    """The passages of one state of a memory: its snapshot, and the journal's full text.

    `allowed` marks the rows of the snapshot that may come back.
    """

    def __init__(self, journal: Journal, snapshot: Snapshot, only: Filter, hidden: Collection[int]) -> None:
        self._journal, self.snapshot, self._only = journal, snapshot, only
        self.allowed = snapshot.allowed(only, hidden)

    def explain_nothing(self) -> str | None:
        """Return a note with the names in the filter that no step has; None where some passage may come back."""
        if self.allowed.any():
            return None
        unknown: list[str] = []
        for name in ("session", "speaker", "tool"):
            value = getattr(self._only, name)
            if value is not None and not Filter(**{name: value}).mask(self.snapshot).any():
                unknown.append(f"{name} {value!r}")
        return f"no step has the {' or the '.join(unknown)}" if unknown else ""

    def gather(self, query: Query) -> Candidates:
        """Return the candidates for a question: of vectors by an exact search, of words by the journal."""
        snapshot, allowed = self.snapshot, self.allowed
        among = None if allowed.all() else snapshot.id[allowed]
        lexical = self._journal.search_text(query.topic, among)
        found = gather(query, snapshot, lexical, allowed)
        if not query.names or not found.unseen:
            return found
        return replace(found, is_strange=self._journal.search_text(" ".join(query.names)).unseen > 0)

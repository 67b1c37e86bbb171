"""Recall on haystacks, from a database and from a folder: the figures of both, and how often the ten best are the same.

Memories of more than 600 passages are read in slices, as large ones are, though they are small.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from benchmarks.harness.data import Question, read_haystacks
from benchmarks.harness.methods import Setup, Tinymem, loaded
from benchmarks.harness.scoring import figures, read_results, score
from benchmarks.recall.run import Run, replay
from tinymem import HierarchicalMemory
from tinymem.recall.candidates import EVERYTHING
from tinymem.upkeep.forgetting import forget_namespace

__all__ = ["quality"]

BUDGET = 1_024
SLICED = "tinymem.stores.postgres.slices.IN_SLICES"


class Noting(Tinymem):
    """A memory in a folder or a database, that notes the ten best of every question."""

    def __init__(self, setup: Setup, place: str | Path, namespace: str) -> None:
        super().__init__(setup)
        self._memory.close()
        self._memory = HierarchicalMemory(place, namespace=namespace, embedder=loaded(setup.embedder))
        self.best: list[set[tuple[int | None, int, int]]] = []

    def recall(self, question: Question, budget: int) -> Any:
        """Return what comes back, and note the ten best."""
        ten = self._memory.recall(question.text, max_tokens=8 * BUDGET, now=question.now, k=10)
        self.best.append({(item.step.step_number, item.part, item.start) for item in ten.items})
        return super().recall(question, budget)


def quality(path: Path, url: str, limit: int | None) -> dict[str, Any]:
    """The figures of a file of haystacks on both engines."""
    found: dict[str, Any] = {}
    best: dict[str, list[Any]] = {"sqlite": [], "postgres": []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, patch(SLICED, EVERYTHING):
        for engine, ten in best.items():
            out = Path(folder) / f"{engine}.jsonl"
            with out.open("w", encoding="utf-8") as lines:
                for number, haystack in enumerate(read_haystacks(path, limit)):
                    name = f"bench-{uuid4()}"
                    setup = Setup(Path(folder) / f"{engine}-{number}", "static", "exact", haystack.is_agent_run)
                    place = url if engine == "postgres" else Path(folder) / f"memory-{number}"
                    with closing(Noting(setup, place, name)) as method:
                        for line in replay(Run("tinymem", (BUDGET,)), haystack, method):
                            lines.write(json.dumps(line) + "\n")
                    ten += method.best
                    if engine == "postgres":
                        forget_namespace(url, name)
            rows = score(read_haystacks(path, limit), read_results(out))[BUDGET]
            found[engine] = round(figures(rows).recall, 4)
            found["queries"] = len(rows)
    same = [one == other for one, other in zip(best["sqlite"], best["postgres"], strict=True)]
    return {**found, "same_ten": round(sum(same) / len(same), 4), "limit": limit}

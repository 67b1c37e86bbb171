"""Prompts of a file of moments as training data: asked of memories of many sessions, made ones and recorded ones."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fitting.evidence import Asked
from benchmarks.harness.data import Haystack
from benchmarks.harness.moments import Prompt, archive, generated, read_moments, recorded, sessions_of
from tinymem import HierarchicalMemory
from tinymem.protocols import Vectors
from tinymem.recall.fusion import ScoredCandidates
from tinymem.recall.search import Search
from tinymem.recall.snapshot import SAID
from tinymem.runs.hooks.talk import is_small_talk
from tinymem.steps.ids import utc_now

__all__ = ["Prompted", "prompted"]

SESSIONS = 30  # unrelated ones of a memory
ASIDE = "in session"  # the class of prompts about what stands in front of the model


@dataclass(frozen=True)
class Prompted:
    """A prompt that was asked: among which sessions, and the kind of work that needs it or the class that does not."""

    filler: str
    name: str
    is_needed: bool
    asked: Asked
    scores: Vectors


def prompted(path: Path, runs: Sequence[Haystack]) -> Iterator[Prompted]:
    """Yield the prompts of a file, scored by the published weights, which know nothing of them."""
    found = read_moments(path)
    for kind in found.kinds:
        sys.stderr.write(f"{path.name}, {kind.name}\n")
        fillers = {"generated": generated(found.words, SESSIONS, kind.name)}
        if runs:
            fillers["recorded"] = recorded(runs, SESSIONS, kind.name)
        for filler, sessions in fillers.items():
            with (
                tempfile.TemporaryDirectory(prefix="prompts-", ignore_cleanup_errors=True) as folder,
                HierarchicalMemory(folder, namespace="prompts", embedder="static", store="exact") as memory,
            ):
                archive(memory, sessions_of(kind, sessions))
                for prompt in (*kind.needs, *(() if kind.is_standing else found.nothing)):
                    if prompt.style != ASIDE and not is_small_talk(prompt.text):  # else no memory is asked
                        name = kind.name if prompt.wants else prompt.style
                        yield Prompted(filler, name, prompt.wants is not None, *_asked(memory, prompt))


def _asked(memory: HierarchicalMemory, prompt: Prompt) -> tuple[Asked, Vectors]:
    past = memory.long_term
    past.queue.embed_pending()
    catalog = past.current()
    scored = Search(past).score(prompt.text, utc_now())
    rows = scored.rows
    places = catalog.places[rows]
    lengths, none = places["end"] - places["start"], np.zeros(len(rows), np.int64)
    asked = Asked(
        prompt.text, scored.features[:, :0], scored.kinds, _evidence(memory, prompt, scored), lengths, none, none, {},
        scored.shared, catalog.kind[rows] == SAID, scored.stated,
    )  # fmt: skip
    return asked, scored.scores


def _evidence(memory: HierarchicalMemory, prompt: Prompt, scored: ScoredCandidates) -> np.typing.NDArray[np.bool_]:
    """Mark the candidates that hold the needed text."""
    evidence = np.zeros(len(scored.rows), np.bool_)
    if prompt.wants:
        catalog, numbers = scored.snapshot, scored.snapshot.step[scored.rows].tolist()
        steps = memory.long_term.fetch(sorted({*numbers}))
        for i, (number, place) in enumerate(zip(numbers, catalog.places[scored.rows], strict=True)):
            text = steps[number].parts()[int(place["part"])].text[int(place["start"]) : int(place["end"])]
            evidence[i] = prompt.wants.search(text) is not None
    return evidence

"""Namespaces of several sizes, with the same steps in a folder and in a database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.speed.steps import Corpus
from tinymem import HierarchicalMemory, Step
from tinymem.archive.folders import namespaces

__all__ = ["fill", "filled", "opened"]

PREFIX = "bench "  # of the namespaces, before the number of passages
TOGETHER = 64  # steps in one transaction


def opened(place: str, namespace: str) -> HierarchicalMemory:
    """Open a namespace in a folder or a database."""
    return HierarchicalMemory(place, namespace=namespace)


def filled(url: str) -> list[str]:
    """Return the namespaces that were filled, the smallest first."""
    return sorted((name for name in namespaces(url) if name.startswith(PREFIX)), key=lambda name: int(name.split()[-1]))


def fill(folder: Path, url: str, sizes: Sequence[int], say: Callable[[str], None]) -> dict[str, float]:
    """Fill namespaces until they have so many passages; return the passages a second of each engine.

    What an earlier run has filled stays.
    """
    rates = {}
    for size in sizes:
        name = f"{PREFIX}{size}"
        for engine, place in (("sqlite", str(folder)), ("postgres", url)):
            with opened(place, name) as memory:
                start, before = time.perf_counter(), _passages(memory)
                for steps in _missing(memory, len(name)):
                    if _passages(memory) >= size:
                        break
                    memory.add_steps(steps)
                    memory.long_term.queue.catch_up()
                made = _passages(memory) - before
                if made:
                    rates[f"{engine} {name}"] = round(made / (time.perf_counter() - start), 1)
                say(f"{engine} {name}: {_passages(memory)} passages, {rates.get(f'{engine} {name}', 0)} a second")
    return rates


def _missing(memory: HierarchicalMemory, seed: int) -> Iterator[list[Step]]:
    steps = islice(Corpus(seed).steps(1 << 40), memory.stats().steps, None)
    while some := list(islice(steps, TOGETHER)):
        yield some


def _passages(memory: HierarchicalMemory) -> int:
    return memory.long_term.journal.last_passage()

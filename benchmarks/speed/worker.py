"""The process that benchmarks.speed starts for one measurement; prints one JSON object.

    python -m benchmarks.speed.worker build FOLDER STORE SIZE EFFORT [DATA]   make a memory and a plain Chroma, use both
    python -m benchmarks.speed.worker memory FOLDER STORE                     open the memory that `build` made
    python -m benchmarks.speed.worker chroma FOLDER STORE                     open the plain Chroma

A memory whose index is another STORE than Chroma is measured alone. The two are fed and asked in turns, so that
whatever else the machine does hits both. Plain Chroma gets the very records that the memory gives its own Chroma,
vectors and metadata without text, in its default settings but for the cosine.
A build that was stopped goes on with the next step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.speed.steps import questions, steps_from
from tinymem import HierarchicalMemory, Step
from tinymem.archive.indexing.mirror import metadata_of, vectors_of

__all__ = ["EFFORTS", "Effort", "percentiles"]

T = TypeVar("T")
TOGETHER = 64  # steps in one transaction when many are added, as `tinymem ingest` does
CHROMA_BATCH = 2_000  # records that plain Chroma gets at once
NEIGHBOURS = 10  # that plain Chroma is asked for
BUDGET, CONTEXT = 1_000, 8_000  # tokens of a recall, and of a context: whatever the default is
FORGOTTEN = 5  # steps, one by one


@dataclass(frozen=True)
class Effort:
    """The amount of work: steps a chunk, single adds, contexts and recalls, and repetitions at each size."""

    chunk: int
    adds: int
    asks: int
    repeats: int


EFFORTS = {"full": Effort(1000, 500, 50, 3), "quick": Effort(20, 5, 2, 1)}


class Plain:
    """Chroma alone, on its defaults, with the cosine."""

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self._client: Any = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self._held: Any = self._client.get_or_create_collection(
            "vectors", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, rows: Sequence[Any]) -> None:
        """Add the vectors and the metadata of passages, as the journal gives them."""
        for at in range(0, len(rows), CHROMA_BATCH):
            some = rows[at : at + CHROMA_BATCH]
            metadata: Any = [*map(metadata_of, some)]
            self._held.add([str(row.id) for row in some], embeddings=vectors_of(some), metadatas=metadata)

    def query(self, vector: Any) -> None:
        """Its nearest neighbours."""
        self._held.query(query_embeddings=vector, n_results=NEIGHBOURS, include=["distances"])

    def close(self) -> None:
        """Release the files."""
        self._client.close()


def seconds(call: Callable[..., object], *given: Any) -> float:
    """Return the seconds that `call` takes."""
    start = time.perf_counter()
    call(*given)
    return time.perf_counter() - start


def percentiles(times: Sequence[float]) -> dict[str, float]:
    """Of seconds, in milliseconds: median, 95th percentile, mean and most."""
    p50, p95 = np.percentile(times, [50, 95]) * 1000
    found = {"p50": p50, "p95": p95, "mean": 1000 * float(np.mean(times)), "max": 1000 * max(times)}
    return {name: round(float(value), 4) for name, value in found.items()}


class Build:
    """A new memory and a plain Chroma in `folder`, filled side by side and then used side by side."""

    def __init__(self, folder: Path, store: str, size: int, effort: Effort, data: Path | None) -> None:
        self.memory = HierarchicalMemory(folder / "memory", store=store, max_tokens=CONTEXT)
        self.plain = Plain(folder / "chroma") if store == "chroma" else None
        self._size, self._effort = size, effort
        self._chunks = folder / "chunks.jsonl"  # what each chunk took
        self._begun = self.memory.stats().steps  # by an earlier run
        self._steps = islice(steps_from(data, size + effort.adds + effort.asks), self._begun, None)
        self._seen = 0  # the last passage that plain Chroma has

    def run(self) -> dict[str, Any]:
        """All measurements; the memory holds a little more than `size` steps afterwards."""
        found: dict[str, Any] = {"archive": self._fill(), **self._adds(), **self._asks()}
        counts = self.memory.stats()
        found["forget"] = self._forgets()
        self.memory.flush()  # the index, which was begun again by the last forget
        self.memory.close()
        if self.plain is not None:
            self.plain.close()
        return found | {"steps": counts.steps, "passages": counts.passages}

    def _fill(self) -> dict[str, Any]:
        """Add steps in chunks until they are in the index; each chunk's vectors then go into plain Chroma."""
        times = self._earlier()
        left = self._size - self._begun
        while left > 0:
            chunk = list(islice(self._steps, min(self._effort.chunk, left)))
            left -= len(chunk)
            mine = seconds(self._archive, chunk)
            rows = self._fresh()
            theirs = seconds(self.plain.add, rows) if self.plain is not None else 0.0
            times.append((mine, theirs, len(rows)))
            with self._chunks.open("a", encoding="utf-8") as file:
                print(json.dumps([*times[-1], self._seen]), file=file)
        mine, theirs, passages = (sum(column) for column in zip(*times, strict=True))
        return {
            "steps_per_second": round(self._size / mine, 1),
            "passages_per_second": round(passages / mine, 1),
        } | ({} if self.plain is None else {
            "chroma_passages_per_second": round(passages / theirs, 1),
            "ratios": [round(theirs / mine, 4) for mine, theirs, _ in times],
        })  # fmt: skip

    def _earlier(self) -> list[tuple[float, float, int]]:
        """Return what the chunks of an earlier run took, and go on with the passage after theirs."""
        if not self._begun:
            return []
        chunks = [json.loads(line) for line in self._chunks.read_text(encoding="utf-8").splitlines()]
        self._seen = chunks[-1][-1]
        return [(mine, theirs, passages) for mine, theirs, passages, _ in chunks]

    def _archive(self, chunk: Sequence[Step]) -> None:
        for at in range(0, len(chunk), TOGETHER):
            self.memory.add_steps(chunk[at : at + TOGETHER])
        self.memory.flush()

    def _fresh(self) -> list[Any]:
        """The passages that plain Chroma has not got yet."""
        fresh: list[Any] = []
        while rows := self.memory.long_term.journal.passages(self._seen):
            fresh += rows
            self._seen = rows[-1][0]
        return fresh

    def _adds(self) -> dict[str, Any]:
        """Single adds, each beside one of Chroma's."""
        mine, theirs = [], []
        spare = iter(self.memory.long_term.journal.passages(0, self._effort.adds))
        for number, step in enumerate(islice(self._steps, self._effort.adds)):
            mine.append(seconds(self.memory.add, step))
            if self.plain is not None and (row := next(spare, None)) is not None:
                again = row._replace(id=-1 - number)  # the vector of an early passage, under a new id
                theirs.append(seconds(self.plain.add, [again]))
        return {name: percentiles(times) for name, times in (("add", mine), ("chroma_add", theirs)) if times}

    def _asks(self) -> dict[str, Any]:
        """A step, then a context, a recall, and Chroma's search for the same question, in turns."""
        fetched = self.memory.long_term.fetch(range(1, self._size, max(1, self._size // 500)))
        asked = questions([step.text for step in fetched.values()], self._effort.asks + 1)
        self._ask(asked.pop())  # what is made once, when first asked
        times = [self._ask(text, step) for text, step in zip(asked, self._steps, strict=False)]
        columns = zip(*times, strict=True)
        return {name: percentiles(c) for name, c in zip(("context", "recall", "chroma_query"), columns, strict=False)}

    def _forgets(self) -> dict[str, float]:
        """The forgetting of single steps, the newest of the archive."""
        steps = self.memory.history(limit=FORGOTTEN)
        return percentiles([seconds(self.memory.forget, step.id) for step in steps])

    def _ask(self, text: str, step: Step | None = None) -> tuple[float, ...]:
        if step is not None:
            self.memory.add(step)
        context = seconds(self.memory.context)
        recall = seconds(self.memory.recall, text, BUDGET)
        if (plain := self.plain) is None:
            return context, recall
        embed = self.memory.long_term.queue.embedder.embed_queries
        return context, recall, seconds(lambda: plain.query(embed([text])))


def opened_memory(folder: Path, store: str) -> dict[str, Any]:
    """Open, first recall, first context; then how much memory that takes."""
    start = time.perf_counter()
    memory = HierarchicalMemory(folder / "memory", create=False, store=store, max_tokens=CONTEXT)
    opened = time.perf_counter()
    memory.recall("Which file was it?", BUDGET)
    recalled = time.perf_counter()
    memory.context()
    found = {"open": opened - start, "first_recall": recalled - start, "first_context": time.perf_counter() - start}
    reading, private = resident(), own()
    memory.close()
    return {name: round(1000 * value, 2) for name, value in found.items()} | {
        "reading": reading,
        "private": private,
    }


def opened_chroma(folder: Path) -> dict[str, Any]:
    """Open plain Chroma, and search it once."""
    start = time.perf_counter()
    plain = Plain(folder / "chroma")
    opened = time.perf_counter()
    plain.query(np.full((1, 256), 1 / 16, np.float32))
    found = {"open": opened - start, "first_query": time.perf_counter() - start}
    return {name: round(1000 * value, 2) for name, value in found.items()} | {"reading": resident(), "private": own()}


def resident() -> float:
    """MiB of this process that are in RAM now."""
    return round(int(dict(_status())["VmRSS"].split()[0]) / 1024, 1)


def own() -> float:
    """MiB of this process alone: what it has written, and no page of a file that others may share."""
    return round(int(dict(_status())["RssAnon"].split()[0]) / 1024, 1)


def _status() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


def main(given: Sequence[str]) -> None:
    """Measure what the first argument says."""
    what, folder, store = given[0], Path(given[1]), given[2]
    if what == "build":
        data = Path(given[5]) if len(given) > 5 else None
        found = Build(folder, store, int(given[3]), EFFORTS[given[4]], data).run()
    else:
        found = opened_memory(folder, store) if what == "memory" else opened_chroma(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

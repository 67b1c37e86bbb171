"""The process that benchmarks.speed.embedders starts to measure one embedder once; prints one JSON object.

    python -m benchmarks.speed.embedders_worker EMBEDDER < TEXTS  # {"batches": [[passage, ...]], "questions": [...]}

What else is needed is imported once the first vector is there, so that the time until then is the embedder's own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]

FIRST = "Which file was it?"


def measured(name: str) -> dict[str, Any]:
    """All figures of the embedder called `name`."""
    start = time.perf_counter()
    from tinymem.registry import embedder_from

    embedder = embedder_from(name)
    embedder.embed_queries([FIRST])
    first = time.perf_counter() - start

    import numpy as np

    from benchmarks.speed.worker import percentiles, resident, seconds

    loaded, texts = resident(), json.load(sys.stdin)
    batches = [len(batch) / seconds(embedder.embed_documents, batch) for batch in texts["batches"]]
    asked = [seconds(embedder.embed_queries, [question]) for question in texts["questions"]]
    return {
        "dimensions": embedder.dimensions,
        "first_vector_seconds": round(first, 3),
        "passages_per_second": round(float(np.median(batches)), 1),
        "question_ms": percentiles(asked),
        "resident_mib": {"loaded": loaded, "used": resident()},
        "vector_bytes": embedder.dimensions * np.dtype("<f2").itemsize,  # as the journal keeps them
    }


def main(given: Sequence[str]) -> None:
    """Measure the embedder that is named."""
    print(json.dumps(measured(given[0])))


if __name__ == "__main__":
    main(sys.argv[1:])

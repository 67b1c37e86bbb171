"""Steps that one writer and four add to one namespace of a database in a second.

python -m benchmarks.stores.writers URL NAMESPACE SECONDS      # one writer: prints how many it has added
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any
from uuid import uuid4

from benchmarks.speed.run import environment
from tinymem import HierarchicalMemory, MessageStep
from tinymem.upkeep.forgetting import forget_namespace

__all__ = ["main", "writing"]

SECONDS = 10.0


def writing(url: str, times: int) -> dict[str, Any]:
    """Adds a second of one writer and of four, in turns."""
    rates: dict[int, list[float]] = {1: [], 4: []}
    for _ in range(times):
        for writers, some in rates.items():
            some.append(_rate(url, writers))
    return {"adds_a_second": {str(n): round(median(some), 1) for n, some in rates.items()}, "runs": rates}


def _rate(url: str, writers: int) -> float:
    namespace = f"writers-{uuid4()}"
    command = [sys.executable, "-m", "benchmarks.stores.writers", url, namespace, str(SECONDS)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
               for _ in range(writers)]  # fmt: skip
    for one in started:
        assert one.stdout
        one.stdout.readline()  # it is ready
    for one in started:
        assert one.stdin
        one.stdin.write("go\n")
        one.stdin.flush()
    added = sum(int(one.communicate()[0]) for one in started)
    forget_namespace(url, namespace)
    return round(added / SECONDS, 1)


def main(given: Sequence[str]) -> None:
    """Add steps for some seconds, once asked to."""
    url, namespace, seconds = given
    with HierarchicalMemory(url, namespace=namespace, window_tokens=8_000) as memory:
        memory.long_term.indexing.in_background = False
        print("ready", flush=True)
        sys.stdin.readline()
        end, count = time.perf_counter() + float(seconds), 0
        while time.perf_counter() < end:
            memory.add(MessageStep("user", f"The build of module {count} failed on Windows because of a lock."))
            count += 1
        print(count, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

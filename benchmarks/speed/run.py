"""Costs of a memory: time, RAM and disk, at several sizes, beside plain Chroma with the same vectors.

    python -m benchmarks.speed --sizes 1000,10000,100000 [--data FILE] [--out SUMMARY.json] [--quick]
    python -m benchmarks.speed --sizes 1000000 --store exact --folder FOLDER   # kept; a stopped run goes on

Each size is measured in processes of its own, several times; what is printed and written are medians over those. The
steps are made from a seed (benchmarks/speed/steps.py), or taken from the haystacks in FILE. The summary goes to
benchmarks/results/speed.summary.json by default, and from there `python -m benchmarks.speed.table --write`
puts it into benchmarks/tables/speed.md. A size that is not measured keeps the figures that the file has. With another
`--store` than Chroma there is nothing beside the memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.recall.run import timed
from benchmarks.speed.table import table
from benchmarks.speed.worker import EFFORTS

__all__ = ["main", "medians"]

RESULTS = Path(__file__).parents[1] / "results" / "speed.summary.json"
BIG = 30_000  # steps from which on building is not repeated: it goes on for minutes and evens itself out
STARTS = {
    "python": ["-c", "pass"],
    "import chromadb": ["-c", "import chromadb"],
    "tinymem --help": ["-m", "tinymem.cli", "--help"],
}


def measure(size: int, store: str, effort: str, data: Path | None, kept: Path | None = None) -> dict[str, Any]:
    """All figures at one size; what is built for it is deleted, or `kept` in a folder."""
    repeats = EFFORTS[effort].repeats
    builds, opened, plain, starts = [], [], [], []
    begun = load()
    with tempfile.TemporaryDirectory(prefix="speed-", ignore_cleanup_errors=True) as name:
        for number in range(1 if kept or size >= BIG else repeats):
            folder = kept / str(size) if kept else Path(name) / str(number)
            builds.append(child("build", folder, store, str(size), effort, *([str(data)] if data else [])))
        recall = ["-m", "tinymem.cli", "recall", "which file was it?", "--path", str(folder / "memory")]
        for _ in range(repeats):
            opened.append(child("memory", folder, store))
            if store == "chroma":
                plain.append(child("chroma", folder, store))
            starts.append(start(recall))
        disk = {kind: mebibytes(folder / kind) for kind in ("memory", "chroma")}
        disk["journal"] = mebibytes(folder / "memory" / "default", "journal.db*")
    found: dict[str, Any] = {"size": size, "store": store, **when(), "load": [begun, load()]}
    found |= {"builds": len(builds), **medians(builds), "disk_mib": disk, "opened": medians(opened)}
    found |= {"opened_chroma": medians(plain)} if plain else {}
    return found | {"cli_recall_ms": round(median(starts), 1)}


def when() -> dict[str, str]:
    """The date and the code of a measurement."""
    return {key: value for key, value in circumstances().items() if key in ("date", "commit")}


def load() -> float:
    """The machine's load in the last minute."""
    return round(os.getloadavg()[0], 2)


def medians(records: Sequence[Any]) -> Any:
    """The median of every number in records of the same shape; lists, whose lengths differ, are put end to end."""
    first = records[0]
    if isinstance(first, dict):
        return {key: medians([record[key] for record in records]) for key in first}
    if isinstance(first, list):
        return [value for record in records for value in record]
    return first if len(set(records)) == 1 else round(median(records), 4)  # a whole number stays one


def child(*given: str | Path) -> Any:
    """Run a measuring process, and return its output."""
    command = [sys.executable, "-m", "benchmarks.speed.worker", *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        sys.exit(f"benchmarks.speed: {' '.join(map(str, given[:1]))} failed\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def start(arguments: Sequence[str]) -> float:
    """Milliseconds that a program takes, from its start to its end."""
    done, seconds = timed(
        lambda: subprocess.run([sys.executable, *arguments], capture_output=True, env=environment(), check=False)
    )
    if done.returncode:
        sys.exit(f"benchmarks.speed: {' '.join(arguments[:2])} failed\n{done.stderr.decode()}")
    return 1000 * seconds


def environment() -> dict[str, str]:
    """This environment, in which a child finds the same modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])}


def mebibytes(folder: Path, pattern: str = "**/*") -> float:
    """Return the size of a folder's files, in MiB."""
    return round(sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()) / 2**20, 2)


def cold_starts(repeats: int) -> dict[str, float]:
    """Medians of how long programs take that do next to nothing, in milliseconds; started in turns."""
    times = [{name: start(arguments) for name, arguments in STARTS.items()} for _ in range(repeats)]
    return {name: round(median(time[name] for time in times), 1) for name in STARTS}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("benchmarks.speed", __doc__)
    parser.add_argument("--sizes", type=sizes, default=(1000, 10_000, 100_000), metavar="N,N", help="archived steps")
    parser.add_argument("--store", default="chroma", help="the index of the memory (default: chroma)")
    parser.add_argument("--data", type=Path, metavar="FILE", help="haystacks whose steps are taken")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="SUMMARY.json", help="the file to write")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="keep what is built here, and go on with it")
    parser.add_argument("--quick", action="store_true", help="little of everything, once: to see whether it runs")
    return parser.parse_args(given)


def sizes(text: str) -> tuple[int, ...]:
    """The sizes in `text`, ascending."""
    found = sorted({int(part) for part in text.split(",")})
    if found[0] < 1:
        raise ValueError(f"a size must be 1 or more, not {found[0]}")
    return tuple(found)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, write, print."""
    args = arguments(given)
    effort = "quick" if args.quick else "full"
    record: dict[str, Any] = {"benchmark": "speed", "effort": effort, **circumstances()}
    record["data"] = args.data.name if args.data else "made"
    earlier = read_summary(args.out)["sizes"] if args.out.exists() else []
    found = {(one["size"], one.get("store", "chroma")): one for one in earlier}
    record["starts_ms"] = cold_starts(2 * EFFORTS[effort].repeats)
    for size in args.sizes:
        found[size, args.store] = measure(size, args.store, effort, args.data, args.folder)
        record["sizes"] = [found[one] for one in sorted(found)]
        write_summary(args.out, record)
    print(table(record))


if __name__ == "__main__":
    main()

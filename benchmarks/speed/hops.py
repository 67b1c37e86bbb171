"""Hops of one call: how often control passes from one file of tinymem to another, and through how many files.

    python -m benchmarks.speed.hops [--json]

Each call is made twice on a small memory, and the second is counted: functions of tinymem, its stores and embedders,
seen by `sys.setprofile`. A hop is a call of a function in another file than that of the function of tinymem that it
was called from. A lock is taken each time a ProcessLock is entered, be it by a thread that holds it already; those of
the journal are counted apart. A version read is a question to the journal whether another process has written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import tinymem
from tinymem import HierarchicalMemory, MessageStep
from tinymem.stores.locks import ProcessLock

__all__ = ["Passage", "count", "main"]

PACKAGE = Path(tinymem.__file__).resolve().parent
ROOTS = tuple(f"{folder.resolve()}/" for folder in (PACKAGE, PACKAGE / "stores", PACKAGE / "embedders"))
TEXTS = [f"On day {day} the build number {day * 7} failed in the parser of dates." for day in range(12)]


@dataclass
class Passage:
    """The numbers of one call."""

    hops: int = 0
    calls: int = 0
    locks: int = 0
    journal_locks: int = 0
    version_reads: int = 0
    names: set[str] = field(default_factory=set, repr=False)

    @property
    def files(self) -> int:
        """The number of distinct files."""
        return len(self.names)

    def enter(self, frame: FrameType) -> None:
        """Count the call of a function, if it is one of tinymem."""
        if (name := _file_of(frame)) is None:
            return
        came_from = _caller_of(frame)
        self.calls += 1
        self.names.add(name)
        self.hops += came_from is not None and came_from != name
        self.version_reads += frame.f_code.co_name == "version" and "/sqlite/" in name

    def lock(self, lock: ProcessLock) -> Any:
        """Take a lock, and count it."""
        if "/sqlite/" in (_file_of(sys._getframe(2)) or ""):
            self.journal_locks += 1
        else:
            self.locks += 1
        return super(ProcessLock, lock).__enter__()

    def as_dict(self) -> dict[str, int]:
        """Return the numbers by name."""
        numbers = {name: value for name, value in asdict(self).items() if name != "names"}
        return {"hops": numbers.pop("hops"), "files": self.files, **numbers}


def _file_of(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    path = str(Path(name).resolve()) if "tinymem" in name or "/stores/" in name or "/embedders/" in name else ""
    return path if path.startswith(ROOTS) else None


def _caller_of(frame: FrameType) -> str | None:
    """The file of the nearest function of tinymem that the call came from."""
    outer = frame.f_back
    while outer is not None and (name := _file_of(outer)) is None:
        outer = outer.f_back
    return None if outer is None else name


def passage(call: Callable[[], object]) -> Passage:
    """Make a call, and count what it passes through."""
    seen = Passage()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.enter(frame)

    enter = ProcessLock.__enter__
    ProcessLock.__enter__ = lambda lock: seen.lock(lock)  # type: ignore[method-assign]
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        ProcessLock.__enter__ = enter  # type: ignore[method-assign]
    return seen


def count() -> dict[str, Passage]:
    """Return the numbers of each call, by its name, when it is made for the second time."""
    with HierarchicalMemory(embedder="hashing", store="exact", max_tokens=400) as memory:
        steps = [memory.add(MessageStep("user", text)) for text in TEXTS]
        numbers = iter(range(100, 200))
        gone = iter(steps)
        calls: dict[str, Callable[[], object]] = {
            "add": lambda: memory.add(MessageStep("user", f"Day {next(numbers)} was quiet.")),
            "recall": lambda: memory.recall("Which build failed on day 3?", max_tokens=100),
            "context": lambda: memory.context("Which build failed on day 3?", max_tokens=300),
            "forget": lambda: memory.forget(next(gone).id),
        }
        found = {}
        for name, call in calls.items():
            call()
            found[name] = passage(call)
        return found


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or with `--json` the numbers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.hops", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    found = {name: one.as_dict() for name, one in count().items()}
    if parser.parse_args(arguments).json:
        print(json.dumps(found, indent=1))
        return 0
    columns = list(found["add"])
    print("| call | " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, numbers in found.items():
        print(f"| {name} | " + " | ".join(str(numbers[column]) for column in columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

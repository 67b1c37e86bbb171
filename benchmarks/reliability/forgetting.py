"""Traces of forgotten steps in the files of a memory: every byte of every file is searched.

    python -m benchmarks.reliability.forgetting [--steps 5000] [--secrets 100] [--out RESULT.summary.json]

A memory with a Chroma index gets `--steps` steps that stay, and among them `--secrets` that go, by each way of
forgetting, in a copy of its own. Looked for are all texts of these steps (content, arguments, session, speaker, call
id, metadata), and of each of their passages the hashes of identifiers, and the vector: byte by byte as the journal
has it (float16), and as any float32 numbers in a row that are about the same, since Chroma normalises vectors in its
own way. Before, each must be found, or the search proves nothing. Exit status 1 if anything is found
afterwards, while the memory is open or when it is closed.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import circumstances, write_summary
from tinymem import ActionStep, HierarchicalMemory, MessageStep, Retention, Step, ToolCall, keep_last_n_steps

__all__ = ["main"]

RESULTS = Path(__file__).parents[1] / "results" / "forgetting.summary.json"
BEGIN = datetime(2025, 1, 1, tzinfo=timezone.utc)
PAST = BEGIN - timedelta(days=1_000)
SESSION, SPEAKER, TOOL = "session-of-secrets", "Rumpelstilz", "whisper"
LEAST = 12  # bytes of a needle: shorter ones stand somewhere by chance
NUMBERS = 16  # of each vector
WORDS = ("valve", "pump", "lot", "crate", "meter", "gauge", "north", "south", "seal", "report", "shift", "tank", "hose")


def _forget_all(memory: HierarchicalMemory) -> None:
    memory.close()
    HierarchicalMemory.forget_namespace(memory.path, memory.namespace)


WAYS: dict[str, Callable[[HierarchicalMemory, list[str]], object]] = {
    "by id": lambda memory, ids: memory.forget(ids),
    "by session": lambda memory, ids: memory.forget(session=SESSION),
    "by age": lambda memory, ids: memory.forget(before=BEGIN),
    "by speaker, tool and type": lambda memory, ids: memory.forget(speaker=SPEAKER, tool=TOOL, type="action"),
    "retention": lambda memory, ids: memory.retain(Retention(max_age=timedelta(days=500)), now=BEGIN),
    "namespace": lambda memory, ids: _forget_all(memory),
}


class Needles(NamedTuple):
    """The bytes to search for, and beginnings of vectors `(n, NUMBERS)`."""

    bytes: list[bytes]
    vectors: Any

    @property
    def names(self) -> set[str]:
        """The names that identify the needles."""
        return {one.hex() for one in self.bytes} | {f"vector {at}" for at in range(len(self.vectors))}


class Found(NamedTuple):
    """The result of a search."""

    names: set[str]
    files: int
    bytes: int


def secret(at: int) -> Step:
    """A step that says what no other one says, in every place where a step says something."""
    word = f"zyxq{at:06}vortex"
    said = f"{word} opens the safe behind the {word} picture, and {word}@example.org knows of it. " * 9
    call = ToolCall(TOOL, {"to": f"{word} the cat"}, f"call-{word}", said)
    more: dict[str, Any] = {"session": SESSION, "speaker": SPEAKER, "timestamp": PAST + timedelta(hours=at)}
    return ActionStep(f"I tell {word}.", [call], id=f"id-{word}", metadata={"note": f"{word} indeed"}, **more)


def filler(at: int, dice: random.Random) -> Step:
    """A step that stays."""
    text = f"Lot {at}: {' '.join(dice.choices(WORDS, k=12))} {dice.randrange(10**6)}."
    return MessageStep("user", text, timestamp=BEGIN + timedelta(minutes=at), session=f"day-{at // 50}")


def opened(path: Path) -> HierarchicalMemory:
    """The memory, whose index is of use however little there is."""
    memory = HierarchicalMemory(path, prune_strategy=keep_last_n_steps(3))
    return memory


def made(path: Path, count: int, secrets: int) -> tuple[list[str], Needles]:
    """Make the memory; the ids of the steps that will go, and what to look for."""
    dice = random.Random(7)
    hidden = [secret(at) for at in range(secrets)]
    places = sorted(dice.sample(range(count), secrets))
    with opened(path) as memory:
        before = 0
        for place, step in zip(places, hidden, strict=True):
            memory.add_steps([*(filler(at, dice) for at in range(before, place)), step])
            before = place
        memory.add_steps([filler(at, dice) for at in range(before, count)])
        list(memory.medium_term)  # so that there are summaries
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        ids = [step.id for step in hidden]
        words = {word.encode() for at in range(secrets) for word in (f"zyxq{at:06}", f"{at:06}vortex")}
        numbers = set(memory.long_term.journal.numbers(ids).values())
        rows = [row for row in memory.long_term.journal.passages(limit=10**9) if row[1] in numbers]
    kept = [[value for value in row if isinstance(value, bytes)] for row in rows]
    blobs = {blob[:64] for blob in chain.from_iterable(kept) if len(blob) >= LEAST}
    halves = [np.frombuffer(max(blobs, key=len), "<f2")[:NUMBERS] for blobs in kept]  # the vector is the longest
    return ids, Needles(sorted({*words, *blobs, SESSION.encode(), SPEAKER.encode()}), np.array(halves, "<f4"))


def search(folder: Path, needles: Needles) -> Found:
    """Find the needles that stand in files of a folder, or in their names."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    found: set[str] = set()
    total = 0
    for file in files:
        content = file.name.encode()
        with suppress(FileNotFoundError):  # the index is written
            content = file.read_bytes() + content
        total += len(content)
        found |= {needle.hex() for needle in needles.bytes if needle in content}
        found |= {f"vector {at}" for at in vectors_in(content, needles.vectors)}
    return Found(found, len(files), total)


def vectors_in(content: bytes, vectors: Any) -> set[int]:
    """Find the vectors `(n, m)` that stand in `content` as float32, each number to one in 500, at any byte."""
    found = set()
    width = vectors.shape[1]
    with np.errstate(all="ignore"):
        for shift in range(4):
            numbers = np.frombuffer(content, "<f4", offset=shift, count=(len(content) - shift) // 4)
            order = np.argsort(numbers[: len(numbers) - width])
            ordered = numbers[order]
            for at, vector in enumerate(vectors):
                span = np.abs(vector) / 500 + 1e-6
                first, last = np.searchsorted(ordered, [vector[0] - span[0], vector[0] + span[0]])
                places = order[first:last, None] + np.arange(width)
                if (np.abs(numbers[places] - vector) <= span).all(axis=1).any():
                    found.add(at)
    return found


def one_way(base: Path, name: str, ids: list[str], needles: Needles) -> dict[str, Any]:
    """Forget in a copy, and look through it."""
    path = base.with_name(f"copy {name}")
    shutil.copytree(base, path)
    before = search(path, needles)
    memory = opened(path)
    begin = time.perf_counter()
    WAYS[name](memory, ids)
    seconds = time.perf_counter() - begin
    while_open = search(path, needles)
    if not memory.closed:
        memory.flush()  # the index is filled anew
    memory.close()
    after = search(path, needles)
    left = sorted(while_open.names | after.names)
    shutil.rmtree(path)
    return {
        "steps": len(ids), "needles": len(needles.names), "found_before": len(before.names), "found_after": len(left),
        "left": left, "files": after.files, "bytes_before": before.bytes, "bytes_after": after.bytes,
        "seconds": round(seconds, 2),
    }  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    """Make, forget, search, write, print."""
    parser = command_line("benchmarks.reliability.forgetting", __doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=5_000, metavar="N", help="that stay")
    parser.add_argument("--secrets", type=int, default=100, metavar="N", help="that go")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="SUMMARY.json", help="the file to write")
    args = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="forgetting-") as folder:
        base = Path(folder) / "memory"
        ids, needles = made(base, args.steps, args.secrets)
        ways = {}
        for name in WAYS:
            ways[name] = one_way(base, name, ids, needles)
            print(name, {key: value for key, value in ways[name].items() if key != "left"}, flush=True)
    write_summary(args.out, {"benchmark": "forgetting", "steps": args.steps, **circumstances(), "ways": ways})
    if any(way["found_after"] or way["found_before"] < way["needles"] for way in ways.values()):
        sys.exit("something was left, or was not there before")


if __name__ == "__main__":
    main()

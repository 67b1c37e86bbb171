"""What is left of forgotten steps in the files of a memory: every byte of every file is looked at.

    python -m benchmarks.forgetting [--steps 5000] [--secrets 100] [--out RESULT.summary.json]

A memory with a Chroma index gets `--steps` steps that stay, and among them `--secrets` that go, by each way of
forgetting, in a copy of its own. Looked for are all texts of these steps (content, arguments, session, speaker, call
id, metadata), and of each of their passages the vector as the journal has it (float16) and as Chroma has it (float32),
the token ids and the hashes of identifiers. Before, each must be found, or the search proves nothing. Exit status 1 if
anything is found afterwards, while the memory is open or when it is closed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.summary import circumstances, write_summary
from tinymem import ActionStep, HierarchicalMemory, MessageStep, Retention, Step, ToolCall, keep_last_n_steps

__all__ = ["main"]

RESULTS = Path(__file__).parent / "results" / "forgetting.summary.json"
BEGIN = datetime(2025, 1, 1, tzinfo=timezone.utc)
PAST = BEGIN - timedelta(days=1_000)
SESSION, SPEAKER, TOOL = "session-of-secrets", "Rumpelstilz", "whisper"
LEAST = 12  # bytes of a needle: shorter ones stand somewhere by chance
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


class Found(NamedTuple):
    """What a search found."""

    needles: set[bytes]
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
    memory.long_term._exact_up_to = 0
    return memory


def made(path: Path, count: int, secrets: int) -> tuple[list[str], set[bytes]]:
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
        memory.long_term.embed_pending()
        memory.long_term.index.follow()
        ids = [step.id for step in hidden]
        needles = {word.encode() for at in range(secrets) for word in (f"zyxq{at:06}", f"{at:06}vortex")}
        numbers = set(memory.long_term.journal.numbers(ids))
        for _, step, *rest in memory.long_term.journal.passages(limit=10**9):
            needles |= blobs(rest) if step in numbers else set()
    return ids, {*needles, SESSION.encode(), SPEAKER.encode()}


def blobs(passage: Sequence[Any]) -> set[bytes]:
    """What the journal and the index keep of a passage, beside its place."""
    found = {value for value in passage if isinstance(value, bytes)}
    vector = max(found, key=len)
    halves = np.frombuffer(vector, "<f2").astype("<f4")
    return {blob[:64] for blob in (*found, halves.tobytes()) if len(blob) >= LEAST}


def search(folder: Path, needles: set[bytes]) -> Found:
    """Which of the needles stand in files of a folder, or in their names."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    found: set[bytes] = set()
    total = 0
    for file in files:
        content = file.read_bytes() + file.name.encode()
        total += len(content)
        found |= {needle for needle in needles if needle in content}
    return Found(found, len(files), total)


def one_way(base: Path, name: str, ids: list[str], needles: set[bytes]) -> dict[str, Any]:
    """Forget in a copy, and look through it."""
    path = base.with_name(f"copy {name}")
    shutil.copytree(base, path)
    before = search(path, needles)
    memory = opened(path)
    begin = time.perf_counter()
    WAYS[name](memory, ids)
    seconds = time.perf_counter() - begin
    while_open = search(path, needles)
    memory.close()
    after = search(path, needles)
    left = sorted(one.hex() for one in while_open.needles | after.needles)
    shutil.rmtree(path)
    return {
        "steps": len(ids), "needles": len(needles), "found_before": len(before.needles), "found_after": len(left),
        "left": left, "files": after.files, "bytes_before": before.bytes, "bytes_after": after.bytes,
        "seconds": round(seconds, 2),
    }  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    """Make, forget, search, write, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forgetting", description=__doc__.partition("\n")[0])
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

"""Makes the journals of older formats that lie in tests/data, each with the same history.

Run it before FORMAT in stores/schema.py is raised, to keep a file of the format that is then an older one:

    python tests/make_journals.py
"""

from __future__ import annotations

import sqlite3
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from memories import write_format_1

from tinymem import ActionStep, FinalAnswerStep, HierarchicalMemory, MessageStep, Step, ToolCall, keep_last_n_steps
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.stores.schema import FORMAT

DATA = Path(__file__).with_name("data")
EMBEDDER = "hashing:16"
ARCHIVED = 8  # of the steps; the rest is the window


def history() -> list[Step]:
    """Ten numbered steps: talk, actions with long results, and an answer."""
    start = datetime(2025, 3, 1, tzinfo=timezone.utc)
    steps: list[Step] = []
    for day in range(3):
        about: dict[str, Any] = {"session": f"day-{day}", "timestamp": start + timedelta(days=day)}
        seen = "\n".join(f"gauge {n} of pump {day} shows {n * 7 + day} bar" for n in range(30))
        steps += [
            MessageStep(
                "user", f"What does pump {day} say, \u201cloudly\u201d?", speaker="Ann", id=f"ask-{day}", **about
            ),
            ActionStep("Look.", [ToolCall("look", {"at": f"pump {day}"}, f"c{day}", seen)], id=f"look-{day}", **about),
            FinalAnswerStep(f"Pump {day} says {day * 11}.", id=f"answer-{day}", **about),
        ]
    steps.append(
        MessageStep("user", "And \ud800 tomorrow?", id="tomorrow", session="day-3", timestamp=about["timestamp"])
    )
    return [step.evolve(number=number) for number, step in enumerate(steps, 1)]


def make(folder: Path) -> Path:
    """The journal of a memory with that history, as this version of tinymem writes it."""
    with HierarchicalMemory(folder, embedder=EMBEDDER, store="exact", prune_strategy=keep_last_n_steps(2)) as memory:
        memory.add_steps([step.evolve(number=None) for step in history()])
        assert memory.stats().archived_steps == ARCHIVED
        list(memory.medium_term)
    return folder / "default" / "journal.db"


def downgrade_to_2(path: Path) -> None:
    """What makes a journal of format 2 of one of format 3."""
    with sqlite3.connect(path) as db:
        db.executescript(
            "ALTER TABLE steps DROP COLUMN milestone; DROP TABLE summaries; PRAGMA user_version=2; VACUUM;"
        )
    db.close()


def make_1(path: Path) -> None:
    """The same history in format 1."""
    embedder = HashingEmbedder.from_name(EMBEDDER.partition(":")[2])
    settings = {"embedder": embedder.fingerprint, "fence_key": "00" * 16, "indexed": "0"}
    write_format_1(path, history(), settings, embedder.embed_documents)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE steps SET window = number > ?", (ARCHIVED,))
    db.close()


def main() -> None:
    """Write the file of the present format; and those of formats 1 and 2, if this is format 3."""
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder))
        (DATA / f"journal-{FORMAT}.db").write_bytes(made.read_bytes())
        if FORMAT == 3:
            downgrade_to_2(made)
            (DATA / "journal-2.db").write_bytes(made.read_bytes())
            (DATA / "journal-1.db").unlink(missing_ok=True)
            make_1(DATA / "journal-1.db")


if __name__ == "__main__":
    main()

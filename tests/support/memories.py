"""Small journals and archives, and steps to fill them with."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from journal_rows import embed

from tinymem import HierarchicalMemory
from tinymem.archive.archive import Archive
from tinymem.archive.indexing.mirror import hold_folder
from tinymem.archive.rows import uncut
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.messages.tokens import default_counter
from tinymem.protocols import Embedder, Journal, PassageRow, StepRow, Vectors, VectorStore
from tinymem.recall.passages import passages_of
from tinymem.recall.render import block, header, headers_of, line
from tinymem.recall.results import Excerpt
from tinymem.recall.snapshot import Snapshot
from tinymem.steps.step import dump_step, load_step
from tinymem.steps.types import ActionStep, MessageStep, Step
from tinymem.stores.chroma.store import ChromaStore
from tinymem.stores.sqlite.journal import SqliteJournal

START = datetime(2025, 3, 1, 12, tzinfo=timezone.utc)
LATER = START + timedelta(days=365)
REPOSITORY = Path(__file__).resolve().parents[2]

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")

Entry = tuple[StepRow, list[PassageRow]]


def said(text: str, number: int | None = None, *, role: str = "user", **more: Any) -> MessageStep:
    """A chat message; with a number, also an id and a time that follow from it."""
    if number is not None:
        more = {"id": f"id-{number:06}", "timestamp": START + timedelta(minutes=number), **more}
    return MessageStep(role, text, step_number=number, **more)


def entry(step: Step, position: int = 0, tokens: int = 7) -> Entry:
    """What the journal is given for a numbered step: first the row, later the passages."""
    assert step.step_number is not None
    time = step.timestamp.timestamp()
    place = (step.step_number, step.id, step.type, step.session, step.speaker, time, tokens, position)
    row = StepRow(*place, dump_step(step), milestone=step.type == "final_answer")
    return row, passages_of(step)


def put(journal: Journal, entries: Sequence[Entry], vectors: Vectors | None = None) -> bool:
    """Give the journal the passages of steps that it has, with vectors of eight equal numbers unless said otherwise."""
    passages = [(row.number, passage) for row, some in entries for passage in some]
    with journal.together():
        is_kept = journal.put_passages([row.number for row, _ in entries], passages)
        if is_kept:
            embed(journal, np.full((len(passages), 8), 0.3, np.float32) if vectors is None else vectors)
    return is_kept


def add(journal: Journal, entries: Sequence[Entry]) -> None:
    """Give the journal steps, and then their passages."""
    journal.add([row for row, _ in entries])
    assert put(journal, entries)


def catch_up(journal: Journal) -> None:
    """Give the journal the passages of all its steps, whoever else does the same."""
    while rows := uncut(journal, 1_000):
        put(journal, [entry(load_step(row.record)) for row in rows])


def sqlite(journal: Journal) -> SqliteJournal:
    """The engine of a journal, to look into its tables or to damage them."""
    assert isinstance(journal, SqliteJournal)
    return journal


def open_archive(
    folder: Path, embedder: Embedder | None = None, store: str | VectorStore = "exact", **more: Any
) -> Archive:
    """An archive in `folder`, with the hashing embedder and the exact store unless said otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    return Archive(folder, embedder or HashingEmbedder(), store, default_counter(), **more)


@contextmanager
def index_of(archive: Archive) -> Iterator[Any]:
    """The store of an archive, as it is alone with its files."""
    archive.index.close()
    with hold_folder(archive.folder / "index", 600), closing(ChromaStore(archive.folder / "index")) as store:
        yield store


def count_in(archive: Archive) -> int:
    """Count the vectors in Chroma's files."""
    with index_of(archive) as store:
        return int(store.count())


def fill(archive: Archive, steps: Iterable[Step]) -> list[Step]:
    """Number the steps, write them, and give them back."""
    first = archive.journal.next_number()
    numbered = [step.evolve(step_number=first + at) for at, step in enumerate(steps)]
    write(archive, numbered)
    return numbered


def forget(archive: Archive, numbers: Sequence[int]) -> None:
    """Remove steps for good, from the journal and from the index."""
    archive.delete(numbers)
    archive.drop_copies()
    archive.purge()


def write(archive: Archive, steps: Sequence[Step], window: bool = True) -> dict[str, int]:
    """Write numbered steps, and return their positions by id."""
    return archive.write(steps, window, [archive.prices.count(step) for step in steps])


def numbered_texts(texts: Sequence[str], **more: Any) -> list[Step]:
    """A chat of these texts."""
    return [said(text, at, **more) for at, text in enumerate(texts, 1)]


def chatter(count: int, first: int = 0) -> list[Step]:
    """Messages and calls, in sessions, of speakers, with identifiers of their own and of others."""
    steps: list[Step] = []
    for at, text in enumerate(sentences(first + count)[first:], first):
        text = f"{text} See src/file_{at % 17}.py and key_{at}."
        if at % 3:
            steps.append(said(text, at, session=f"day {at // 5}", speaker=["Ana", "Ben", None][at % 3]))
        else:
            tool, names = ["bash", "look"][at % 2], {"name": f"key_{at - 1}"}
            call = ActionStep("Look.", tool_name=tool, tool_args=names, observation=text, id=f"act-{at}")
            steps.append(call.evolve(session=f"day {at // 5}"))
    return steps


@cache
def vocabulary(size: int, seed: int = 0) -> tuple[str, ...]:
    """Made-up words, each once."""
    dice = random.Random(seed)
    syllables = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "dra", "gro", "plin", "sto", "kra"]
    words = dict.fromkeys("".join(dice.choices(syllables, k=dice.randint(2, 5))) for _ in range(4 * size))
    return tuple(words)[:size]


@cache
def sentences(count: int, seed: int = 0, length: int = 12, size: int = 600) -> tuple[str, ...]:
    """Sentences of made-up words, some of which are much more frequent than others."""
    dice, known = random.Random(seed), vocabulary(size)
    weights = [1 / (rank + 3) for rank in range(len(known))]
    return tuple(" ".join(dice.choices(known, weights, k=dice.randint(4, length))) + "." for _ in range(count))


def texts_in(folder: Path, *needles: bytes) -> dict[bytes, list[str]]:
    """In which files of `folder` each needle stands."""
    contents = {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    return {needle: [name for name, content in contents.items() if needle in content] for needle in needles}


def python(program: str, *arguments: object, **more: Any) -> subprocess.Popen[str]:
    """`program` in a Python process of its own, with pipes."""
    tests = REPOSITORY / "tests"
    paths = os.pathsep.join(map(str, (REPOSITORY, tests, tests / "support")))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": None, **more}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, text=True, **pipes)


def printed(program: str, *arguments: object) -> str:
    """What `program` prints on standard output and standard error."""
    process = python(program, *arguments, stderr=subprocess.STDOUT)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    return out


def catalog_of(vectors: Vectors, steps: Sequence[int] | None = None, **more: Any) -> Snapshot:
    """A catalog of passages with these vectors, each of a step of its own unless `steps` says otherwise.

    `more` are columns of `SqliteJournal.passages`, such as `kind`, `session`, `time`, one value for each passage.
    """
    return Snapshot(vectors.shape[1]).with_tail(passage_rows(vectors, steps, **more))


def passage_rows(vectors: Vectors, steps: Sequence[int] | None = None, **more: Any) -> list[tuple[Any, ...]]:
    """Rows as `SqliteJournal.passages` gives them; see `catalog_of`."""
    count = len(vectors)
    numbers, times = range(1, count + 1), [START.timestamp() + at for at in range(count)]
    columns: dict[str, Sequence[Any]] = {
        "id": numbers, "step": numbers if steps is None else steps, "part": [0] * count, "start": [0] * count,
        "end": [100] * count, "kind": ["message"] * count, "asks": [0] * count,
        "vector": [v.tobytes() for v in vectors.astype("<f2")], "type": ["message"] * count, "session": [None] * count,
        "speaker": [None] * count, "time": times, "identifiers": [b""] * count, "tools": [""] * count,
        "milestone": [0] * count, **more,
    }  # fmt: skip
    return list(zip(*columns.values(), strict=True))


def line_of(excerpt: Excerpt, is_named: bool = False) -> str:
    """An excerpt as it stands in a block; with its number where a mark names it."""
    shown = line(excerpt.step, excerpt.step.parts()[excerpt.part], excerpt.start, excerpt.end, is_named)
    return shown + excerpt.mark


def block_of(excerpts: Iterable[Excerpt], key: bytes) -> str:
    """The block of excerpts that are in order."""
    every = [*excerpts]
    named = {excerpt.newer for excerpt in every}
    headers = headers_of([(header(one.step), one.step.session) for one in every])
    lines = (line_of(one, one.step.step_number in named) for one in every)
    return block(zip(headers, lines, strict=True), key)

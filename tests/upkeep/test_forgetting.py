"""Forgetting, by whatever says what is meant: gone from every file, and nothing else with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memories import LATER, START, python, said, sentences, texts_in

from tinymem import ActionStep, HierarchicalMemory, MessageStep, Step, ToolCall, keep_last_n_steps
from tinymem.archive.indexing.index import Index
from tinymem.archive.indexing.mirror import hold_folder
from tinymem.errors import InputError, NotAMemoryError, StorageError
from tinymem.upkeep.retention import Retention

open_memory = partial(HierarchicalMemory, embedder="hashing:64", store="exact")
WORDS = [b"zyxqvortex", b"QuokkaFlange", b"wobbul", b"secret-", b"Rumpelstilz", b"whisper", b"cellar-talk"]
PIECES = [b"vortex", b"quokka", b"flang", b"rumpel", b"whisp"]  # full-text terms are stored in pieces
OTHERS = sentences(90)
MANY = sentences(1_300)  # more than Chroma keeps in a log: they are in the files of its graph
PAST = START - timedelta(days=400)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[HierarchicalMemory]:
    with open_memory(tmp_path) as opened:
        yield opened


# in every file


def secret(at: int) -> Step:
    """A step that every way of forgetting can mean, and nothing else is like it."""
    seen = f"zyxqvortex QuokkaFlange wobbulating {at}. " + "And so on, and so on. " * 60
    more: dict[str, Any] = {"session": "cellar-talk", "speaker": "Rumpelstilz", "timestamp": PAST + timedelta(days=at)}
    return ActionStep("I tell.", [ToolCall("whisper", {}, f"c{at}", seen)], id=f"secret-{at}", **more)


WAYS: dict[str, Callable[[HierarchicalMemory], object]] = {
    "id": lambda m: m.forget([f"secret-{at}" for at in range(4)]),
    "all filters": lambda m: m.forget(
        session="cellar-talk", speaker="Rumpelstilz", tool="whisper", type="action", since=PAST, before=START
    ),
    "age": lambda m: m.retain(Retention(max_age=timedelta(days=30)), now=START + timedelta(days=1)),
    "bytes": lambda m: m.retain(Retention(max_bytes=m.long_term.journal.maintenance.size() - 30_000)),
}


@pytest.mark.parametrize(
    ("way", "others"),
    [
        ("all filters", OTHERS),
        ("age", OTHERS),
        pytest.param("bytes", OTHERS, marks=pytest.mark.slow),
        pytest.param("id", MANY, marks=pytest.mark.slow),
    ],
)
def test_what_is_forgotten_in_any_way_is_in_no_file_nor_is_its_vector(
    tmp_path: Path, way: str, others: Sequence[str]
) -> None:
    retention = way in ("age", "bytes")
    with open_memory(tmp_path, embedder="static", store="chroma", prune_strategy=keep_last_n_steps(3)) as memory:
        memory.add_steps([secret(0), secret(1), secret(2)])
        memory.add_steps([said(text, at + 1) for at, text in enumerate(others)])
        if not retention:  # which leaves the window alone
            memory.add(secret(3))
        assert "zyxqvortex" in next(iter(memory.medium_term)).summary
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        halves = [row[7][:64] for row in memory.long_term.journal.passages() if row[1] <= 3]
        singles = [np.frombuffer(half, "<f2").astype("<f4").tobytes() for half in halves]
        in_log = singles if others is OTHERS else []
        assert len(halves) > 6 and all(texts_in(tmp_path, *halves, *in_log, *WORDS).values())
        WAYS[way](memory)
        for _ in range(2):
            assert not any(texts_in(tmp_path, *halves, *singles, *WORDS, *PIECES).values())
            assert "vortex" not in str(memory.context("zyxqvortex", max_tokens=4_000).messages)
            memory.long_term.index.follow()
        kept = memory.stats().steps
        assert kept == len(others) if way != "bytes" else 3 <= kept < len(others)
        assert others[-1] in memory.recall(others[-1], 300, now=LATER).text
    assert not any(texts_in(tmp_path, *halves, *singles, *WORDS, *PIECES).values())


def with_an_index(path: Path) -> list[bytes]:
    """Make a memory whose vectors are in Chroma's files; the beginnings of those of its first step."""
    with open_memory(path, embedder="static", store="chroma") as memory:
        memory.archive([secret(0), *(said(text, at + 1) for at, text in enumerate(OTHERS[:9]))])
        memory.long_term.queue.embed_pending()
        memory.long_term.index.follow()
        halves = [row[7][:64] for row in memory.long_term.journal.passages() if row[1] == 1]
    found = [*halves, *(np.frombuffer(half, "<f2").astype("<f4").tobytes() for half in halves)]
    assert all(texts_in(path, *found).values())
    return found


def test_the_name_of_a_session_is_forgotten_with_it(tmp_path: Path) -> None:
    for _ in range(2):  # a prompt that an earlier process kept, too
        with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact") as memory:
            memory.add_message("user", "The gate is open.", session="orchard-7731")
            memory.context(session="orchard-7731")
    with HierarchicalMemory(tmp_path) as memory:
        memory.context(session="orchard-7731")
        assert memory.forget(session="orchard-7731") == 2
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"orchard-7731" in file.read_bytes()]


def test_vectors_that_a_killed_forget_left_go_with_the_next_opening_even_of_all_steps(tmp_path: Path) -> None:
    vectors = with_an_index(tmp_path)
    with open_memory(tmp_path, embedder="static", store="chroma") as memory:
        memory.long_term.indexing.in_background = False  # closing does nothing more
        memory.long_term.delete([step.step_number or 0 for step in memory.history()])
    assert any(texts_in(tmp_path, *vectors).values())
    open_memory(tmp_path, embedder="static", store="chroma").close()
    assert not any(texts_in(tmp_path, *vectors, *WORDS).values())


def test_where_the_store_from_before_stays_in_use_an_error_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Index.forget, "__defaults__", (0.1,))
    with_an_index(tmp_path)
    folder = tmp_path / "default" / "index"
    with hold_folder(folder, 600), open_memory(tmp_path, embedder="static", store="exact") as memory:
        with pytest.raises(StorageError, match=r"the index still has their vectors.*another process"):
            memory.forget(["secret-0"])
        with pytest.raises(InputError):
            memory.get("secret-0")


# filters


def test_filters_narrow_each_other_and_ids_come_on_top(memory: HierarchicalMemory) -> None:
    for day in range(4):
        for speaker in ("Ann", "Bob"):
            at = START + timedelta(days=day)
            memory.add(MessageStep("user", f"{speaker} {day}", speaker=speaker, session=f"{day % 2}", timestamp=at))

    def left() -> list[str]:
        return [step.text for step in memory.short_term.steps]

    assert memory.forget(speaker="Ann", session="1", before=START + timedelta(days=3)) == 1
    assert left() == ["Ann 0", "Bob 0", "Bob 1", "Ann 2", "Bob 2", "Ann 3", "Bob 3"]
    assert memory.forget([memory.short_term.steps[0].id], speaker="Bob", session="0") == 3
    assert left() == ["Bob 1", "Ann 2", "Ann 3", "Bob 3"]
    assert memory.forget(since=START + timedelta(days=3), until=START + timedelta(days=3), type="message") == 2
    assert memory.forget(since=START + timedelta(days=1), before=START + timedelta(days=2)) == 1
    assert left() == ["Ann 2"]


def test_a_tool_is_meant_by_its_whole_name_in_any_of_a_steps_calls(memory: HierarchicalMemory) -> None:
    calls = [ToolCall("look", {}, "a", "plums"), ToolCall("look_up", {}, "b", "figs")]
    memory.add(ActionStep("Both.", calls))
    memory.add(ActionStep("One.", calls[1:]))
    memory.add(said("look"))
    assert memory.forget(tool="look", dry_run=True) == 1
    assert memory.forget(tool="look_up", dry_run=True) == 2
    assert memory.forget(tool="look", speaker="Ann") == memory.forget(tool="LOOK") == memory.forget(tool="loo") == 0
    assert memory.forget(tool="look") == 1
    assert [step.text.partition("\n")[0] for step in memory.short_term.steps] == ["One.", "look"]


@pytest.mark.parametrize("text", ["\ud800", "' OR 1 --", ""])
def test_any_text_is_a_filter_and_means_only_itself(memory: HierarchicalMemory, text: str) -> None:
    memory.add_steps([said("a", session=text, speaker=text), said("b", session="s", speaker="s"), said("c")])
    assert memory.forget(tool=text) == 0
    assert memory.forget(session=text, speaker=text) == 1
    assert [step.text for step in memory.short_term.steps] == ["b", "c"]


# namespaces


def test_a_namespace_goes_with_its_folder_and_others_stay(tmp_path: Path) -> None:
    for name in ("ann", "bob/../ann"):
        with open_memory(tmp_path, namespace=name, store="exact" if name == "ann" else "chroma") as memory:
            memory.add(said(f"The code of {name} is zyxqvortex."))
            memory.flush()
    HierarchicalMemory.forget_namespace(tmp_path, "bob/../ann")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ann", "tinymem.json"]
    assert all(name.startswith("ann/") for name in texts_in(tmp_path, b"zyxqvortex")[b"zyxqvortex"])
    with open_memory(tmp_path, namespace="ann") as memory:
        assert memory.stats().steps == 1
    HierarchicalMemory.forget_namespace(tmp_path, "ann")
    assert texts_in(tmp_path, b"zyxqvortex") == {b"zyxqvortex": []}
    for _ in range(2):
        with pytest.raises(NotAMemoryError):
            HierarchicalMemory.forget_namespace(tmp_path, "ann")
    with open_memory(tmp_path, namespace="ann") as memory:  # and begins anew
        assert memory.add(said("Hello.")).step_number == 1


@pytest.mark.parametrize("move", [os.rename, os.symlink])
def test_a_folder_that_another_name_leads_to_is_not_removed(tmp_path: Path, move: Any) -> None:
    """As on a file system that takes `ann` for `Ann`, which no test can have everywhere."""
    with open_memory(tmp_path, namespace="Ann") as memory:
        memory.add(said("I am Ann."))
    move(tmp_path / "Ann", tmp_path / "ann")
    with pytest.raises(StorageError, match="belongs to another namespace than 'ann'"):
        HierarchicalMemory.forget_namespace(tmp_path, "ann")
    os.replace(tmp_path / "ann", tmp_path / ("Ann" if move is os.rename else "link"))
    with open_memory(tmp_path, namespace="Ann") as memory:
        assert [step.text for step in memory.history()] == ["I am Ann."]


def test_only_a_memory_is_removed(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "journal.db").write_text("mine", "utf-8")
    with pytest.raises(NotAMemoryError):
        HierarchicalMemory.forget_namespace(tmp_path, "default")
    for bad in ("", "..", "/", "\ud800", 5, None):
        with pytest.raises((InputError, NotAMemoryError)):
            HierarchicalMemory.forget_namespace(tmp_path, bad)  # type: ignore[arg-type]
    assert (tmp_path / "default" / "journal.db").read_text("utf-8") == "mine"


HOLDER = """
import sys
from tinymem import HierarchicalMemory
memory = HierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", create=False)
print("open", flush=True)
sys.stdin.read()
"""


def test_a_namespace_that_is_open_stays_as_it_is(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.add(said("Here."))
        with pytest.raises(StorageError, match="is in use: close the memories"):
            HierarchicalMemory.forget_namespace(tmp_path, "default")
        assert memory.add(said("Still.")).step_number == 2
    with python(HOLDER, tmp_path) as process:
        assert process.stdout and process.stdout.readline() == "open\n"
        with pytest.raises(StorageError, match="is in use"):
            HierarchicalMemory.forget_namespace(tmp_path, "default")
        process.communicate()
    with open_memory(tmp_path, create=False) as memory:
        assert memory.stats().steps == 2
    HierarchicalMemory.forget_namespace(tmp_path, "default")


def test_a_damaged_namespace_can_be_removed_and_what_it_links_to_stays(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory") as memory:
        memory.add(said("Here."))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("mine", "utf-8")
    folder = tmp_path / "memory" / "default"
    os.symlink(elsewhere, folder / "index")
    (folder / "journal.db").write_bytes(b"damaged")
    HierarchicalMemory.forget_namespace(tmp_path / "memory", "default")
    assert not folder.exists() and (elsewhere / "thesis.txt").read_text("utf-8") == "mine"

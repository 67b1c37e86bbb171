"""The index: filled from the first step on that left, asked for what it holds, lost without harm, cleared for good."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from memories import LATER, fill, numbered_texts, open_archive, python, said, sentences, texts_in, write
from test_archive import QUERY, TEXTS, CountingEmbedder, numbers

import tinymem.archive.indexing.index
from tinymem.archive.archive import Archive
from tinymem.archive.indexing.index import LONGEST_REST, REST, Index
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.embedders.static import StaticEmbedder
from tinymem.errors import ClosedError, StorageError
from tinymem.protocols import Ids, Vectors
from tinymem.recall.search import Search
from tinymem.stores.chroma.store import ChromaStore
from tinymem.stores.exact import ExactStore
from tinymem.stores.filter import Filter
from tinymem.testing import exact_neighbours

PASSAGES = 240  # of the archives here


class Watched(ExactStore):
    """A store that remembers what it was asked for, and fails when it is told to."""

    in_memory = False

    def __init__(self) -> None:
        super().__init__()
        self.upserts: list[list[int]] = []
        self.queries: list[int] = []
        self.fault: Callable[[], Exception] | None = None

    def upsert(self, ids: Any, vectors: Vectors) -> None:
        self._fail()
        super().upsert(ids, vectors)
        self.upserts.append(list(ids))

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        self._fail()
        self.queries.append(k)
        return super().query(vector, k)

    def clear(self) -> None:
        self._fail()
        super().clear()

    def _fail(self) -> None:
        if self.fault:
            raise self.fault()

    def close(self) -> None:
        """Nothing: another archive may be given it again, as if it had files."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.index, "BATCH", 40)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def archive(tmp_path: Path, store: Watched) -> Iterator[Archive]:
    """PASSAGES passages, all embedded, none in the store, which is worth asking."""
    archive = open_archive(tmp_path, HashingEmbedder(64), lambda: store, exact_up_to=0)
    fill(archive, numbered_texts(sentences(PASSAGES)))
    archive.queue.embed_pending()
    yield archive
    archive.close()


def watermark(archive: Archive) -> int:
    return int(archive.journal.setting("indexed") or 0)


def never() -> Any:
    raise AssertionError("the store is of no use here, and was opened")


# filled


def test_a_small_memory_never_opens_its_store(tmp_path: Path) -> None:
    for _ in range(2):
        archive = open_archive(tmp_path, None, never, exact_up_to=1_000)
        fill(archive, [said(text) for text in TEXTS])
        assert numbers(archive)
        archive.forget([3, 5])
        assert numbers(archive)
        archive.close()


def test_a_memory_from_which_no_step_left_has_nothing_of_chroma_on_disk_nor_in_the_process(tmp_path: Path) -> None:
    program = """
import sys
from tinymem import HierarchicalMemory
for _ in range(2):
    with HierarchicalMemory(sys.argv[1], max_tokens=20_000) as memory:
        messages = [{"role": "user", "content": f"Lot {at} holds plums."} for at in range(60)]
        steps = memory.add_messages(messages, session="s")
        assert memory.context("plums").messages and memory.recall("lot 7")
        memory.forget([steps[0].id, steps[-1].id])
        assert memory.recall("lot 7")
        memory.flush()
        assert memory.stats().unindexed_passages == 0
assert "chromadb" not in sys.modules
"""
    process = python(program, tmp_path / "memory")
    process.communicate(timeout=600)
    assert process.returncode == 0
    folders = [path.name for path in (tmp_path / "memory").rglob("*") if path.is_dir()]
    assert folders == ["default"]


def test_the_background_gives_the_store_a_batch_at_a_time_from_the_first_step_on_that_left(
    tmp_path: Path, store: Watched
) -> None:
    archive = open_archive(tmp_path, HashingEmbedder(64), lambda: store, reopens=True)
    archive.indexing.in_background = True
    fill(archive, numbered_texts(sentences(100)))
    archive.queue.embed_pending()
    archive.indexing._called_at = 0.0
    assert not archive.indexing.waits_for_index and archive.indexing.work() is None and not store.upserts
    archive.journal.set_window([1], {})
    for held in (40, 80, 100):
        assert archive.indexing.waits_for_index and archive.indexing.work() is not None
        assert (store.count(), watermark(archive)) == (held, held)
    assert not archive.indexing.waits_for_index
    assert archive.indexing.work() is not None and archive.index.is_open, "it lingers"
    archive.index.used_at = -inf
    assert archive.indexing.work() is None and not archive.index.is_open
    assert [id for ids in store.upserts for id in ids] == list(range(1, 101)), "each once"
    archive.close()


def test_a_store_in_memory_is_filled_from_half_of_exact_up_to_on(tmp_path: Path) -> None:
    store = ExactStore()
    archive = open_archive(tmp_path, HashingEmbedder(64), lambda: store, exact_up_to=200, in_memory=True)
    archive.indexing.in_background = True
    write(archive, [said(text, at) for at, text in enumerate(sentences(99), 1)], window=False)
    archive.queue.embed_pending()
    assert not archive.indexing.waits_for_index
    archive.indexing.flush()
    assert store.count() == 0
    write(archive, [said("One more.", 100)], window=False)
    archive.queue.embed_pending()
    archive.indexing.flush()
    assert store.count() == 100
    archive.close()


def test_the_store_is_asked_where_more_passages_are_allowed_than_exact_search_is_for(
    tmp_path: Path, store: Watched
) -> None:
    archive = open_archive(tmp_path, HashingEmbedder(64), lambda: store, exact_up_to=100)
    fill(archive, [said(text, at, session="s" if at <= 100 else None) for at, text in enumerate(sentences(160), 1)])
    archive.queue.embed_pending()
    archive.index.follow()
    assert numbers(archive, only=Filter(session="s"))
    assert not store.queries
    assert numbers(archive)
    assert store.queries
    archive.close()


# asked for what it holds, and exactly for the rest


@pytest.mark.parametrize("held", [121, 160, 200, PASSAGES])
def test_what_the_store_lacks_is_searched_exactly_and_merged(archive: Archive, store: Watched, held: int) -> None:
    catalog = archive.current()
    store.upsert(catalog.id[:held].tolist(), catalog.vectors[:held])
    archive.journal.keep({"indexed": str(catalog.id[held - 1])})
    assert archive.index.nearest(catalog) is None, "nobody waits for it to be opened"
    archive.index.open()
    nearest = archive.index.nearest(catalog)
    assert nearest and store.count() == held
    for query in (*sentences(5, seed=1), *sentences(PASSAGES)[held - 2 :][:4]):
        (vector,) = archive.queue.embedder.embed_queries([query])
        for k in (1, 20, 100, 1_000):
            ids, cosines = nearest(vector, k)
            best, expected = exact_neighbours(catalog.id.tolist(), catalog.vectors, vector, k)
            assert len(ids) == len(set(ids.tolist())) == min(k, PASSAGES)
            assert (np.diff(cosines) <= 0).all(), "best first"
            assert np.allclose(cosines, expected, atol=1e-5)
            clear = expected > expected[-1] + 1e-4  # of those that tie for the last place, any will do
            assert set(best[clear].tolist()) <= set(ids.tolist())
    assert store.count() == held


def test_a_store_that_lacks_half_is_not_asked(archive: Archive, store: Watched) -> None:
    expected = Search(archive).recall(QUERY, 300, LATER).text
    for held in (40, 80, 120):
        assert archive.index.advance() == 40
        assert Search(archive).recall(QUERY, 300, LATER).text == expected
        assert (store.count(), store.queries) == (held, [])
    archive.index.advance()
    assert Search(archive).recall(QUERY, 300, LATER).text == expected
    assert store.queries


def test_while_another_thread_is_busy_with_the_store_a_search_is_exact(archive: Archive, store: Watched) -> None:
    archive.index.follow()
    with ThreadPoolExecutor(1) as pool, archive.index.alone:
        assert pool.submit(numbers, archive).result(timeout=600)
    assert not store.queries
    assert numbers(archive)
    assert store.queries


def test_a_recall_after_another_process_has_forgotten_waits_for_no_thread_that_fills_the_store(tmp_path: Path) -> None:
    archive, other = (open_archive(tmp_path, HashingEmbedder(64), ExactStore) for _ in range(2))
    fill(archive, numbered_texts(sentences(60)))
    archive.queue.embed_pending()
    archive.index.follow()
    other.forget([1])
    with ThreadPoolExecutor(1) as pool, archive.index.alone:
        assert 1 not in pool.submit(numbers, archive).result(timeout=600)
    archive.index.follow()
    assert archive.index.store.count() == 59
    archive.close()
    other.close()


def test_a_recall_is_the_same_whatever_the_store_holds(tmp_path: Path, store: Watched) -> None:
    queries, everything = sentences(6, seed=2), np.ones(1_000, np.bool_)
    exact = open_archive(tmp_path, StaticEmbedder(), never)
    fill(exact, numbered_texts(sentences(1_000)))
    exact.queue.embed_pending()
    archive = open_archive(tmp_path, StaticEmbedder(), lambda: store, exact_up_to=0)
    for most in (520, 240, 240):
        assert sum(archive.index.advance() for _ in range(most // 40)) == most
        store.queries.clear()
        for query in queries:
            one, other = Search(exact).score(query, LATER, everything), Search(archive).score(query, LATER, everything)
            best, same = ([(p.number, round(p.score, 3)) for p in scored.ranked(1_000)[:50]] for scored in (one, other))
            assert best == same
        assert len(store.queries) == len(queries)
    assert store.count() == 1_000
    exact.close()
    archive.close()


def test_a_filter_holds_with_an_index_too(tmp_path: Path, store: Watched) -> None:
    archive = open_archive(tmp_path, None, lambda: store, exact_up_to=0)
    steps = [said(text, at, session=f"s{at % 40}") for at, text in enumerate(sentences(1_000), 1)]
    fill(archive, steps)
    archive.queue.embed_pending()
    for _ in range(20):
        archive.index.advance()
    only = Filter(session="s7")
    found = numbers(archive, steps[500].text, 300, only=only)
    assert found and store.queries
    assert all(number % 40 == 7 for number in found)
    exact = open_archive(tmp_path, None, never)
    assert numbers(exact, steps[500].text, 300, only=only) == found
    exact.close()
    archive.close()


@pytest.mark.slow
def test_the_index_gives_the_same_best_passages_as_exact_search(tmp_path: Path) -> None:
    texts = sentences(2_500, seed=8, length=25)
    queries = sentences(20, seed=9)
    archive = open_archive(tmp_path, StaticEmbedder(), "chroma")
    fill(archive, [said(text, at, session=f"s{at // 50}") for at, text in enumerate(texts, 1)])
    archive.queue.embed_pending()
    archive.index.follow()
    store = archive.index.store
    assert store.count() == len(archive.current()) == 2_500
    asked: list[int] = []

    class Asked(Watched):
        def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
            asked.append(k)
            return store.query(vector, k)

        def count(self) -> int:
            return store.count()

    indexed = open_archive(tmp_path, StaticEmbedder(), Asked, exact_up_to=0)
    indexed.index.open()
    everything = np.ones(2_500, np.bool_)
    same = hits = 0
    for query in queries:
        vector = archive.queue.embedder.embed_queries([query])[0]
        best = exact_neighbours(archive.current().id.tolist(), archive.current().vectors, vector, 20)[0].tolist()
        hits += len(set(store.query(vector, 20)[0].tolist()) & set(best))
        one, other = Search(archive).score(query, LATER, everything), Search(indexed).score(query, LATER, everything)
        assert set(best) <= set(archive.current().id[one.rows].tolist()), "the numpy oracle's best are candidates"
        top, top_indexed = ([p.number for p in scored.ranked(1_000)[:20]] for scored in (one, other))
        same += len(set(top) & set(top_indexed))
        assert top[:3] == top_indexed[:3]
    assert len(asked) == len(queries)
    assert hits >= 0.97 * 20 * len(queries)
    assert same >= 0.97 * 20 * len(queries)
    indexed.journal.close()
    archive.close()


# lost, held, failing


@pytest.mark.slow
@pytest.mark.parametrize("moved", [0, 80, 160, 200])
def test_a_crash_between_the_store_and_its_watermark_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    embedder = CountingEmbedder()
    archive = open_archive(tmp_path, embedder, "chroma", exact_up_to=0)
    steps = fill(archive, numbered_texts(sentences(PASSAGES)))
    archive.queue.embed_pending()
    assert sum(archive.index.advance() for _ in range(moved // 40)) == moved
    keep = archive.journal.keep

    def crash(settings: Mapping[str, str]) -> None:
        if "indexed" in settings:
            raise KeyboardInterrupt
        keep(settings)

    monkeypatch.setattr(archive.journal, "keep", crash)
    with pytest.raises(KeyboardInterrupt):
        archive.index.follow()
    archive.index.close()
    archive.journal.close()

    archive = open_archive(tmp_path, embedder, "chroma", exact_up_to=0)
    assert (watermark(archive), archive.index.store.count()) == (moved, moved + 40)
    catalog = archive.current()
    nearest = archive.index.nearest(catalog)
    assert (nearest is not None) == (moved > PASSAGES // 2)
    if nearest:
        ids = nearest(catalog.vectors[moved], PASSAGES)[0].tolist()
        assert ids[0] == catalog.id[moved]
        assert sorted(ids) == catalog.id.tolist(), "each once"
    assert moved + 1 in numbers(archive, steps[moved].text)
    assert archive.index.follow() == PASSAGES - moved
    assert watermark(archive) == archive.index.store.count() == PASSAGES
    assert embedder.documents == Counter(step.text for step in steps)
    archive.close()


def test_an_index_whose_files_were_deleted_is_filled_again(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    archive.queue.embed_pending()
    archive.index.follow()
    archive.close()
    shutil.rmtree(tmp_path / "index")
    archive = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    assert 121 in numbers(archive)
    assert archive.index.store.count() == watermark(archive) == 0
    archive.index.follow()
    assert archive.index.store.count() == len(archive.current())
    archive.close()


def test_another_store_is_filled_from_the_journal(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    archive.queue.embed_pending()
    archive.index.follow()
    archive.close()
    for store in ("exact", "exact", "chroma"):
        archive = open_archive(tmp_path, None, store, exact_up_to=0)
        assert 121 in numbers(archive)
        archive.index.follow()
        assert archive.index.store.count() == len(archive.current())
        assert 121 in numbers(archive)
        archive.close()


def test_an_index_that_another_one_holds_is_done_without(tmp_path: Path) -> None:
    holder = ChromaStore(tmp_path / "index")
    archive = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    assert 121 in numbers(archive)
    with pytest.raises(StorageError, match="another process"):
        archive.index.follow()
    assert watermark(archive) == 0
    archive.forget([1])  # which the index has never seen
    holder.close()
    archive.close()
    archive = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    assert 121 in numbers(archive)
    archive.index.follow()
    assert watermark(archive) == archive.current().last_id
    assert archive.index.store.count() == len(archive.current())
    archive.close()


def test_an_index_that_is_complete_but_held_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tinymem.archive.indexing.index, "HANDED_OVER", 0.2)
    archive = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    archive.queue.embed_pending()
    archive.index.follow()
    text = Search(archive).recall(QUERY, 500, LATER).text
    second = open_archive(tmp_path, None, "chroma", exact_up_to=0)
    assert Search(second).recall(QUERY, 500, LATER).text == text
    fill(second, [said("from the second", 0)])
    assert len(TEXTS) + 1 in numbers(second, "from the second", 100)
    assert len(TEXTS) + 1 in numbers(archive, "from the second", 100)
    with pytest.raises(StorageError, match="another process"):
        second.forget([1])
    assert len(second.journal.rows()) == len(TEXTS), "the journal's part is done"
    second.close()
    assert 121 in numbers(archive)
    assert archive.index.lacks
    archive.index.follow()
    assert archive.index.store.count() == len(archive.current()) == watermark(archive) - 1
    assert not archive.index.lacks
    archive.close()


def test_a_store_that_was_closed_is_done_without_and_a_closed_journal_is_an_error(tmp_path: Path) -> None:
    store = ExactStore()
    archive = open_archive(tmp_path, None, lambda: store, exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    store.close()
    assert 121 in numbers(archive)
    with pytest.raises(ClosedError, match="this store"):
        archive.index.follow()
    archive.close()
    for use in (archive.index.follow, archive.index.advance, archive.index.clear):
        with pytest.raises(ClosedError, match="the memory at"):
            use()


@pytest.mark.parametrize(("took", "rest"), [(0.5, REST * 0.5), (10.0, LONGEST_REST)])
def test_a_store_that_failed_is_left_alone_for_a_while(
    archive: Archive, store: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    took: float, rest: float,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, "tinymem")
    clock, faults = SimpleNamespace(now=1_000.0), []
    monkeypatch.setattr(tinymem.archive.indexing.index, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def hangs() -> Exception:
        clock.now += took
        faults.append(clock.now)
        return StorageError("no answer")

    archive.index.follow()
    expected = Search(archive).recall(QUERY, 300, LATER).text
    asked = len(store.queries)
    assert asked
    store.fault = hangs
    for passed in (0.0, rest - 1, 0.5):
        clock.now += passed
        assert Search(archive).recall(QUERY, 300, LATER).text == expected
        assert archive.index.rests
    assert len(faults) == 1
    assert "going on without the index: no answer" in caplog.text
    clock.now += 0.6
    assert not archive.index.rests
    assert Search(archive).recall(QUERY, 300, LATER).text == expected
    assert len(faults) == 2, "it is tried again"
    store.fault = None
    clock.now += rest + 0.1
    assert Search(archive).recall(QUERY, 300, LATER).text == expected
    assert len(store.queries) == 2 * asked


def test_a_store_that_cannot_be_made_sense_of_is_closed_again(archive: Archive) -> None:
    closed: list[bool] = []

    class Broken(ExactStore):
        def count(self) -> int:
            raise StorageError("damaged")

        def close(self) -> None:
            closed.append(True)

    index = Index(archive.journal, archive.folder / "index", Broken)
    with pytest.raises(StorageError, match="damaged"):
        index.store.count()
    assert closed == [True]
    index.close()
    assert closed == [True]


# cleared


def vectors_of(archive: Archive, step: int) -> list[bytes]:
    """The vectors of a step's passages, as the journal and as Chroma write them; their beginnings."""
    halves = [row[7] for row in archive.journal.passages() if row[1] == step]
    singles = [np.frombuffer(half, "<f2").astype("<f4").tobytes() for half in halves]
    return [blob[:64] for blob in (*halves, *singles)]


def test_a_memory_that_needs_no_index_now_forgets_in_the_files_of_the_one_it_had(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, StaticEmbedder(), "chroma", exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    archive.queue.embed_pending()
    archive.index.follow()
    archive.close()
    archive = open_archive(tmp_path, StaticEmbedder(), "chroma")
    blobs = vectors_of(archive, 121)
    assert all(texts_in(tmp_path, *blobs).values())
    archive.forget([121])
    assert not any(texts_in(tmp_path, *blobs, b"kumquat").values())
    archive.index.follow()
    assert archive.index.store.count() == len(archive.current()) == watermark(archive) - 1
    assert numbers(archive)
    archive.close()


def test_what_another_store_forgot_is_gone_from_the_first_ones_files_with_its_next_forgetting(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, StaticEmbedder(), "chroma", exact_up_to=0)
    fill(archive, numbered_texts(TEXTS))
    archive.queue.embed_pending()
    archive.index.follow()
    blobs = vectors_of(archive, 121)
    archive.close()
    for store in ("exact", "chroma"):
        archive = open_archive(tmp_path, StaticEmbedder(), store)
        archive.forget([121 if store == "exact" else 5])
        archive.close()
    assert not any(texts_in(tmp_path, *blobs).values())


def test_a_store_that_could_not_be_cleared_is_cleared_before_it_is_next_filled(
    archive: Archive, store: Watched
) -> None:
    archive.index.follow()
    store.fault = lambda: StorageError("the disk is gone")
    with pytest.raises(StorageError, match="the disk is gone"):
        archive.forget([1])
    assert len(archive.journal.rows()) == len(archive.current()) == PASSAGES - 1
    assert archive.index.lacks
    store.fault = None
    assert archive.index.follow() == store.count() == PASSAGES - 1
    archive.forget([2])
    assert len(archive.journal.rows()) == archive.index.follow() == store.count() == PASSAGES - 2

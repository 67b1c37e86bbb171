"""The archive: each passage embedded once, whoever fails or embeds beside it; forgetting in every file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memories import LATER, fill, forget, numbered_texts, open_archive, said, sentences, sqlite, texts_in

import tinymem.archive.embedding
import tinymem.archive.indexing.indexing
import tinymem.recall.passages
from tinymem.archive.archive import Archive
from tinymem.archive.embedding import BATCH
from tinymem.archive.rows import uncut
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderError
from tinymem.protocols import Vectors
from tinymem.recall.search import Search
from tinymem.steps.content import clean
from tinymem.steps.step import Step
from tinymem.steps.types import ActionStep


class CountingEmbedder(HashingEmbedder):
    """Remembers what it was given."""

    name = "counting"
    fingerprint = "counting/1"

    def __init__(self) -> None:
        super().__init__(64)
        self.documents: Counter[str] = Counter()
        self.queries: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.documents.update(texts)
        return super().embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.queries += texts
        return super().embed_documents(texts)


class FailingEmbedder(CountingEmbedder):
    """Gives whatever `fault` makes of the vectors."""

    def __init__(self, fault: Callable[[Vectors], Any], queries: bool = False) -> None:
        super().__init__()
        self._fault, self._of_queries = fault, queries

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        vectors = super().embed_documents(texts)
        return vectors if self._of_queries else self._fault(vectors)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        vectors = super().embed_queries(texts)
        return self._fault(vectors) if self._of_queries else vectors


def broken(_: Vectors) -> Vectors:
    raise RuntimeError("the GPU is on fire")


def with_nan(vectors: Vectors) -> Vectors:
    vectors[-1, 3] = np.nan
    return vectors


FAULTS: dict[str, tuple[Callable[[Vectors], Any], str]] = {
    "raises": (broken, "counting failed on .* texts: RuntimeError in test_archive.py"),
    "NaN": (with_nan, "counting gave NaN"),
    "too few": (lambda vectors: vectors[:-1], r"counting gave an array of shape \(\d+, 64\), not \(\d+, 64\)"),
    "ragged": (lambda vectors: [[1.0], [1.0] * 64], "counting failed"),
}

TEXTS = (*sentences(120), "The key of the kumquat locker is 4711.", " ".join(sentences(60, seed=3)))
QUERY = "Where is the key of the kumquat locker?"


def passages_of(archive: Archive) -> list[str]:
    """The texts of all passages, in order."""
    places = sqlite(archive.journal).read("SELECT step, part, start, end FROM passages ORDER BY id")
    parts = {n: step.parts() for n, step in archive.fetch(range(1, archive.journal.next_number())).items()}
    return [clean(parts[step][part].text[start:end]) for step, part, start, end in places]


def expected_of(steps: Iterable[Step]) -> list[str]:
    """The texts of the passages that steps are cut into, in order."""
    return [passage.text for step in steps for passage in tinymem.recall.passages.passages_of(step)]


def numbers(archive: Archive, query: str = QUERY, budget: int = 300, **more: Any) -> list[int]:
    return [item.step.step_number or 0 for item in Search(archive).recall(query, budget, LATER, **more).items]


# embedded once


def test_steps_without_passages_do_not_stop_the_others(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    archive = open_archive(tmp_path, embedder)
    fill(archive, [said(""), ActionStep(None), said(" \n")])
    assert archive.queue.embed_pending() == 0
    assert not Search(archive).recall("text", 300, LATER)
    fill(archive, [said(""), said("the kumquat"), ActionStep(None), *(said(" ") for _ in range(40))])
    assert archive.queue.embed_pending() == 1
    fill(archive, [said("the kumquat again"), said("")])
    assert numbers(archive, "kumquat") == [5, 47]
    assert uncut(archive.journal, 9) == []
    assert embedder.documents == Counter(["the kumquat", "the kumquat again"])
    archive.close()


def test_each_passage_is_embedded_once_in_its_life(tmp_path: Path) -> None:
    embedder = CountingEmbedder()
    archive = open_archive(tmp_path, embedder)
    expected = Counter(expected_of(fill(archive, numbered_texts(TEXTS))))
    assert not embedder.documents, "writing does not wait for the embedder"
    assert 121 in numbers(archive)
    assert embedder.documents == expected == Counter(passages_of(archive))
    archive.close()
    archive = open_archive(tmp_path, embedder)
    forget(archive, [3, 5])
    fill(archive, [said("One more.")])
    assert 121 in numbers(archive)
    assert embedder.documents == expected + Counter(["One more."])
    archive.close()


# the same answers


# the embedder


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_an_embedder_that_fails_loses_nothing(tmp_path: Path, fault: Callable[[Vectors], Any], message: str) -> None:
    archive = open_archive(tmp_path, FailingEmbedder(fault))
    fill(archive, numbered_texts(TEXTS[:5]))
    with pytest.raises(EmbedderError, match=message):
        archive.queue.embed_pending()
    assert re.search(message, Search(archive).recall("text", 300, LATER).note)
    archive.close()
    archive = open_archive(tmp_path, CountingEmbedder())
    assert len(archive.journal.rows()) == 5
    assert numbers(archive, TEXTS[2])
    assert (archive.journal.counts()["passages"], archive.journal.counts()["waiting_steps"]) == (5, 0)
    archive.close()


class Stopping(CountingEmbedder):
    """Fails after so many batches; remembers only what it gave vectors for."""

    batches = 1 << 30

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.batches -= 1
        if self.batches < 0:
            raise ConnectionError("no route to host")
        return super().embed_documents(texts)


@pytest.mark.usefixtures("without_rest")
def test_a_huge_step_goes_on_where_its_embedder_failed(tmp_path: Path) -> None:
    embedder = Stopping()
    archive = open_archive(tmp_path, embedder)
    log = "\n".join(f"line {at} of the log says kumquat{at}" for at in range(9_000))
    step, after = fill(archive, [ActionStep(None, tool_name="cat", observation=log), said("the next step")])
    expected = expected_of([step, after])
    assert len(expected) > 3 * BATCH
    for done in (1, 2):
        embedder.batches = 1
        assert "2 steps wait to be embedded" in Search(archive).recall("kumquat", 300, LATER).note
        assert archive.journal.counts()["passages"] == done * BATCH
        assert passages_of(archive) == expected, "those that wait, too"
        assert archive.journal.counts()["waiting_steps"] == 2
        embedder.batches = 0
        archive.close()
        archive = open_archive(tmp_path, embedder)
    embedder.batches = 99
    assert numbers(archive, "kumquat8765") == [1]
    assert numbers(archive, "the next step")[-1] == 2
    assert passages_of(archive) == expected
    assert embedder.documents == Counter(expected), "none was embedded twice"
    archive.close()


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_an_embedder_that_fails_at_a_question_is_noted_and_words_alone_must_do(
    tmp_path: Path, fault: Callable[[Vectors], Any], message: str
) -> None:
    archive = open_archive(tmp_path, FailingEmbedder(fault, queries=True))
    fill(archive, numbered_texts(TEXTS[:5]))
    found = Search(archive).recall(TEXTS[3], 300, LATER)
    assert re.search(f"words alone must do: .*{message}", found.note)
    assert max(found.items, key=lambda item: item.score).step.text == TEXTS[3]
    assert (archive.journal.counts()["passages"], archive.journal.waiting_tokens()) == (5, 0)
    archive.close()


# forgetting

SECRET = "zyxqvortex QuokkaFlange wobbulating"


def test_a_step_that_an_older_version_cut_in_other_places_is_forgotten_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(tinymem.recall.passages, "WHOLE", 100)
        older.setattr(tinymem.recall.passages, "TARGET", 60)
        older.setattr(tinymem.recall.passages, "LEAST", 30)
        older.setattr(tinymem.recall.passages, "MOST", 90)
        archive = open_archive(tmp_path)
        fill(archive, [said("keep this", 1), said(f"{SECRET} " + " ".join(sentences(40)), 2)])
        archive.queue.embed_pending()
    assert Search(archive).recall("wobbulating", 300, LATER).items[-1].step.step_number == 2
    forget(archive, [2])
    sqlite(archive.journal).read("INSERT INTO fulltext(fulltext) VALUES ('integrity-check')")
    assert not any(texts_in(tmp_path, b"zyxqvortex", b"quokka", b"wobbul").values())
    assert numbers(archive, "keep this") == [1]
    archive.close()


# damage, company, size


def test_archives_that_are_made_at_once_agree_on_their_key(tmp_path: Path) -> None:
    for at in range(8):
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda _, at=at: open_archive(tmp_path / str(at)), range(4)))
        assert len({archive.key for archive in made}) == 1
        assert len(made[0].key) == 16
        for archive in made:
            archive.journal.close()


class Meddled(CountingEmbedder):
    """While it embeds, something else happens, once."""

    def __init__(self) -> None:
        super().__init__()
        self.meddle: list[Callable[[], object]] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.meddle:
            self.meddle.pop()()
        return super().embed_documents(texts)


def test_what_another_archive_embeds_meanwhile_is_kept_once(tmp_path: Path) -> None:
    embedder = Meddled()
    archive, other = open_archive(tmp_path, embedder), open_archive(tmp_path, CountingEmbedder())
    steps = fill(archive, numbered_texts(TEXTS[:9]))

    def meddle() -> None:
        assert other.queue.embed_pending() == len(expected_of(steps))
        steps.extend(fill(other, [said("one more")]))

    embedder.meddle = [meddle]
    archive.queue.embed_pending()
    mine, theirs = (Search(one).recall("one more", 300, LATER).text for one in (archive, other))
    assert passages_of(archive) == expected_of(steps)
    assert mine == theirs != ""
    archive.close()
    other.close()


def test_what_another_archive_forgets_while_it_is_embedded_stays_away(tmp_path: Path) -> None:
    embedder = Meddled()
    archive, other = open_archive(tmp_path, embedder), open_archive(tmp_path, CountingEmbedder())
    steps = fill(archive, [said("the first"), said(SECRET), said("the third")])
    embedder.meddle = [lambda: forget(other, [2])]
    archive.queue.embed_pending()
    assert passages_of(archive) == expected_of([steps[0], steps[2]])
    assert not any(texts_in(tmp_path, b"zyxqvortex", b"quokka", b"wobbul").values())
    assert (uncut(archive.journal, 9), archive.journal.waiting_tokens()) == ([], 0)
    assert numbers(archive, "the third")
    archive.close()
    other.close()


@pytest.mark.usefixtures("without_rest")
def test_a_huge_step_that_is_half_embedded_is_forgotten_whole(tmp_path: Path) -> None:
    embedder = Stopping()
    archive = open_archive(tmp_path, embedder)
    log = "\n".join(f"line {at} of the log says zyxqvortex{at}" for at in range(9_000))
    fill(archive, [said("the first"), ActionStep(None, tool_name="cat", observation=log), said("the kumquat")])
    embedder.batches = 2
    with pytest.raises(EmbedderError):
        archive.queue.embed_pending()
    assert archive.journal.counts()["passages"] == 2 * BATCH < len(archive.journal.passages(step=2))
    embedder.batches = 99
    forget(archive, [2])
    assert not any(texts_in(tmp_path, b"zyxqvortex", b"zyxqv").values())
    assert numbers(archive, "kumquat") == [1, 3]
    assert passages_of(archive) == ["the first", "the kumquat"]
    archive.close()


def test_a_step_that_another_archive_has_cut_or_forgotten_is_forgotten(tmp_path: Path) -> None:
    archive, other = open_archive(tmp_path), open_archive(tmp_path)
    fill(archive, [said("the first"), said(SECRET), said("the third")])
    other.queue.cut_new()
    forget(archive, [2])
    forget(other, [2])
    assert not any(texts_in(tmp_path, b"zyxqvortex", b"quokka", b"wobbul").values())
    assert sorted(numbers(archive, "the first or the third")) == [1, 3]
    archive.close()
    other.close()

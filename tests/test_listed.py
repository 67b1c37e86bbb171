"""Scoring passages of a plain list of steps: embedded once, as recall scores them, and what adds to each other."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderError
from tinymem.protocols import Vectors
from tinymem.recall import listed
from tinymem.recall.coverage import Coverage
from tinymem.recall.listed import StepIndex
from tinymem.recall.overlap import hashed, overlap
from tinymem.steps import ActionStep, MessageStep, Step


class Counting(HashingEmbedder):
    """Remembers every text that it embeds."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return super().embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return super().embed_documents(texts)


def log(name: str, lines: int = 60) -> str:
    return "\n".join(f"{name} line {number}: worker {number * 7} moved on" for number in range(lines))


def run(count: int) -> list[Step]:
    return [
        ActionStep(f"Look at {n}.", tool_name="cat", tool_args={"n": n}, observation=log(f"log{n}"))
        for n in range(count)
    ]


def test_every_text_is_embedded_once_whatever_is_asked() -> None:
    embedder, steps = Counting(), run(30)
    index = StepIndex(embedder)
    index.score(steps, "Which worker moved?")
    before = len(embedder.texts)
    assert len(set(embedder.texts)) == before
    first = index.score(steps, "Which worker moved?")
    index.score(steps[3:20], "Which worker moved?")
    assert len(embedder.texts) == before
    index.score(steps, "another question")
    assert embedder.texts[before:] == ["another question"]
    fresh = StepIndex(Counting()).score(steps, "Which worker moved?")
    assert np.array_equal(first.scores, fresh.scores)


def test_a_file_that_was_opened_again_is_not_embedded_again() -> None:
    embedder = Counting()
    index = StepIndex(embedder)
    index.score([ActionStep(tool_name="cat", observation=log("a"))], "q")
    before = len(embedder.texts)
    index.score([ActionStep("Again.", tool_name="cat", observation=log("a"))], "q")
    assert embedder.texts[before:] == ["Again."]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "KEPT", 5)
    monkeypatch.setattr(listed, "QUERIES", 2)
    index = StepIndex(Counting())
    for step in run(20):
        index.score([step], step.text[:9])
    gc.collect()
    assert len(index._entries) == 5 and len(index._queries) == 2
    assert len(index._texts) <= 5 * 12
    index.score(run(8), "q")
    assert len(index._entries) == 8  # one window is held whole


def test_the_passage_that_answers_scores_best() -> None:
    steps = run(8)
    steps[3] = ActionStep(
        tool_name="cat", observation=log("log3", 40) + "\nThe port of billing is 8123.\n" + log("z", 40)
    )
    found = StepIndex(HashingEmbedder(256)).score(steps, "What is the port of billing?")
    best = int(found.scores.argmax())
    assert found.step[best] == 3
    text = steps[3].parts()[found.part[best]].text[found.start[best] : found.end[best]]
    assert "8123" in text


def test_nothing_to_score() -> None:
    index = StepIndex(Counting())
    for steps in ([], [MessageStep("user", "")], [MessageStep("user", " \n ")]):
        assert len(index.score(steps, "q").scores) == 0


def test_an_embedder_that_fails_says_so_and_nothing_is_kept() -> None:
    class Broken(Counting):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            raise RuntimeError("no connection")

    index = StepIndex(Broken())
    with pytest.raises(EmbedderError, match="no connection"):
        index.score(run(2), "q")
    assert not index._entries


def test_overlap_is_bm25_on_the_scale_of_the_full_text_index() -> None:
    passages = [
        hashed(text) for text in ("the parrot Figaro sings", "trains and trains", "a parrot on a train", "soup")
    ]
    scores = overlap("Which parrot is called Figaro?", passages)
    assert scores.argmax() == 0 and scores[2] > 0 and scores[1] == scores[3] == 0
    assert 0.5 < scores[0] < 2.2
    assert not overlap("", passages).any() and not overlap("parrot", [hashed("")]).any() and not len(overlap("x", []))


@MODERATE
@given(st.integers(2, 9), st.integers(0, 99))
def test_coverage_gains_are_what_f_grows_by_and_only_fall(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = random.normal(size=count).astype(np.float32)
    similar = np.maximum(vectors @ vectors.T, 0) ** 4
    weights = np.exp(3 * (scores - scores.max()))

    def worth(chosen: list[int]) -> float:
        return float(weights @ similar[:, chosen].max(axis=1)) if chosen else 0.0

    coverage, chosen = Coverage(scores, vectors), list[int]()
    last = coverage.gains()
    for passage in random.permutation(count).tolist():
        gains = coverage.gains()
        assert np.allclose(gains, [worth([*chosen, i]) - worth(chosen) for i in range(count)], atol=1e-4)
        assert (gains <= last + 1e-5).all()
        coverage.take(passage)
        chosen.append(passage)
        last = gains
    assert np.allclose(coverage.gains(), 0, atol=1e-5)

"""Scoring passages of a plain list of steps: embedded once, and as recall scores them."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import pytest

from tinymem.embedders.hashing import HashingEmbedder
from tinymem.errors import EmbedderError
from tinymem.protocols import Vectors
from tinymem.steps.types import ActionStep, MessageStep, Step
from tinymem.window import step_index as listed
from tinymem.window.step_index import StepIndex


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
    assert len(index._entries) == 5 and index._query.cache_info().currsize == 2
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
    with pytest.raises(EmbedderError, match=r"failed on 14 texts: RuntimeError in test_step_index.py"):
        index.score(run(2), "q")
    assert not index._entries

"""Late interaction, against a reference that does it slowly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memories import catalog_of
from strategies import MODERATE, THOROUGH

from tinymem.protocols import Vectors
from tinymem.recall.late import MAX_TOKENS, max_sim
from tinymem.testing import unit_vectors

VOCABULARY = 60
TABLE = unit_vectors(VOCABULARY, 8, seed=3)
TABLE[0] = 0  # an entry without meaning

PASSAGES = st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=9), min_size=1, max_size=10)
ASKED = st.sets(st.integers(0, VOCABULARY - 1), max_size=8).map(sorted)


def reference(asked: list[int], passages: list[list[int]]) -> list[float]:
    weights = {}
    for token in asked:
        seen = sum(token in passage for passage in passages)
        weights[token] = math.log((len(passages) + 1) / (seen + 0.5))
    scores = []
    for passage in passages:
        total = 0.0
        for token, weight in weights.items():
            if passage:
                total += weight * max(float(TABLE[token].astype(float) @ TABLE[held].astype(float)) for held in passage)
        scores.append(total / sum(weights.values()) if weights else 0.0)
    return scores


def scores_of(asked: list[int], passages: list[list[int]], rows: list[int] | None = None) -> Vectors:
    catalog = catalog_of(tokens=[*passages, [VOCABULARY - 1]])
    catalog.document_frequency[VOCABULARY - 1] -= 1  # the passage more only makes the vocabulary that large
    chosen = np.arange(len(passages)) if rows is None else np.array(rows, np.int64)
    return max_sim(np.array(asked, np.uint16), chosen, catalog, TABLE)


@THOROUGH
@given(ASKED, PASSAGES)
def test_it_is_the_weighted_mean_of_the_best_matches(asked: list[int], passages: list[list[int]]) -> None:
    whole = [*passages, [VOCABULARY - 1]]
    catalog = catalog_of(tokens=whole)
    found = max_sim(np.array(asked, np.uint16), np.arange(len(whole)), catalog, TABLE)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(reference(asked, whole), abs=1e-5)


@MODERATE
@given(ASKED, PASSAGES, st.data())
def test_a_passage_scores_the_same_whatever_else_is_looked_at(
    asked: list[int], passages: list[list[int]], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.integers(0, len(passages) - 1), unique=True))
    assert scores_of(asked, passages, rows).tolist() == pytest.approx(
        scores_of(asked, passages)[rows].tolist() if rows else [], abs=1e-6
    )


def test_a_passage_with_the_very_tokens_scores_one_and_an_empty_one_nothing() -> None:
    assert scores_of([3, 9], [[9, 4, 3], [], [3]]).tolist()[:2] == pytest.approx([1, 0], abs=1e-6)


def test_a_rare_token_weighs_more_than_a_frequent_one() -> None:
    passages = [[5], [7], *([[5, 11]] * 20)]
    frequent, rare = scores_of([5, 7], passages)[:2]
    assert rare > frequent


def test_of_a_long_question_the_rarest_tokens_count() -> None:
    frequent = list(range(1, MAX_TOKENS + 9))
    passages = [frequent, frequent, [50], frequent]
    assert scores_of([*frequent, 50], passages)[2] > 0
    everything = scores_of([*frequent, 50], passages)
    assert everything[2] == pytest.approx(scores_of([*frequent[: MAX_TOKENS - 1], 50], passages)[2], abs=1e-6)


def test_no_tokens_no_rows_and_no_passages_score_nothing() -> None:
    assert scores_of([], [[1], [2]]).tolist() == [0, 0]
    assert scores_of([1], [[1], [2]], []).tolist() == []
    assert scores_of([1], [[], []]).tolist() == [0, 0]

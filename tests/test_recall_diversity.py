"""Near-duplicates: the best stays, the rest keeps its order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem.errors import InputError
from tinymem.protocols import Ids, Vectors
from tinymem.recall.diversity import DIVERSITY, without_duplicates
from tinymem.testing import unit_vectors


def kept(vectors: Vectors, order: list[int], lengths: list[int] | None = None, looked_at: int = 100) -> list[int]:
    sizes: Ids = np.array(lengths or [100] * len(vectors), np.int64)
    return [int(at) for at in without_duplicates(np.array(order, np.int64), vectors, sizes, looked_at)]


def close(vector: Vectors, cosine: float) -> Vectors:
    """A vector of length 1 with that cosine to `vector`."""
    other = unit_vectors(1, len(vector), seed=99)[0]
    other = other - (other @ vector) * vector
    other /= np.linalg.norm(other)
    found: Vectors = (cosine * vector + np.sqrt(1 - cosine**2) * other).astype(np.float32)
    return found


def test_of_passages_that_say_the_same_the_best_stays() -> None:
    one, two = unit_vectors(2)
    assert kept(np.stack([one, two, one, one]), [2, 1, 0, 3]) == [2, 1]


def test_near_is_near_and_similar_is_not() -> None:
    one = unit_vectors(1)[0]
    vectors = np.stack([one, close(one, 1 - DIVERSITY + 0.002), close(one, 1 - DIVERSITY - 0.002)])
    assert kept(vectors[[0, 1]], [0, 1]) == [0]
    assert kept(vectors[[0, 2]], [0, 1]) == [0, 1]


def test_diversity_says_how_near_is_the_same() -> None:
    one = unit_vectors(1)[0]
    vectors = np.stack([one, close(one, 0.99), close(one, 0.9)])
    left = {d: without_duplicates(np.arange(3), vectors, np.full(3, 100), 3, d).tolist() for d in (0, 0.05, 0.2)}
    assert left == {0: [0, 1, 2], 0.05: [0, 2], 0.2: [0]}
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(InputError, match="diversity must be from 0 to 1"):
            without_duplicates(np.arange(3), vectors, np.full(3, 100), 3, wrong)


def test_passages_of_different_lengths_are_not_the_same() -> None:
    one = unit_vectors(1)[0]
    vectors = np.stack([one, one, one])
    assert kept(vectors, [0, 1, 2], [100, 79, 120]) == [0, 1]
    assert kept(vectors, [0, 1, 2], [100, 50, 60]) == [0, 1], "the last is as long as the second"


def test_what_resembles_only_a_removed_passage_stays() -> None:
    one = unit_vectors(1)[0]
    other = unit_vectors(1, len(one), seed=99)[0]
    other = other - (other @ one) * one
    other /= np.linalg.norm(other)
    angles = np.arccos(1 - DIVERSITY) * np.array([0, 0.9, 1.8])  # neighbours are the same, the ends are not
    vectors = (np.cos(angles)[:, np.newaxis] * one + np.sin(angles)[:, np.newaxis] * other).astype(np.float32)
    assert kept(vectors, [0, 1, 2]) == [0, 2]


def test_only_the_best_are_compared() -> None:
    vectors = unit_vectors(1).repeat(5, axis=0)
    assert kept(vectors, [4, 3, 2, 1, 0], looked_at=3) == [4, 1, 0]
    assert kept(vectors, [4, 3, 2, 1, 0], looked_at=0) == [4, 3, 2, 1, 0]


def test_passages_without_a_vector_are_no_duplicates() -> None:
    assert kept(np.zeros((3, 4), np.float32), [2, 0, 1]) == [2, 0, 1]


def test_nothing_in_nothing_out() -> None:
    assert kept(np.zeros((0, 4), np.float32), []) == []


@MODERATE
@given(st.lists(st.integers(0, 5), min_size=1, max_size=14), st.randoms(use_true_random=False), st.integers(1, 20))
def test_order_is_kept_the_best_stays_and_no_two_are_the_same(texts: list[int], dice: object, looked_at: int) -> None:
    directions = unit_vectors(6)
    vectors = directions[texts]
    order = list(range(len(texts)))
    dice.shuffle(order)  # type: ignore[attr-defined]
    found = kept(vectors, order, looked_at=looked_at)
    assert found[0] == order[0]
    assert found == [at for at in order if at in found]
    head = [at for at in found if at in order[:looked_at]]
    assert len({texts[at] for at in head}) == len(head)
    assert {texts[at] for at in found} == set(texts)
    assert [at for at in order[looked_at:] if at not in found] == []

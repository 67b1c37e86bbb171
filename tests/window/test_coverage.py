"""Facility location: the gains are those of F, and they only fall."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem.window.filling import POWER, SHARPNESS, Coverage


@MODERATE
@given(st.integers(2, 9), st.integers(0, 99))
def test_coverage_gains_are_what_f_grows_by_and_only_fall(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = random.normal(size=count).astype(np.float32)
    similar = np.maximum(vectors @ vectors.T, 0) ** POWER
    weights = np.exp(SHARPNESS * (scores - scores.max()))

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

"""BM25 without an index."""

from __future__ import annotations

import numpy as np

from tinymem.recall.diversity import hashed, overlap


def test_overlap_is_bm25_on_the_scale_of_the_full_text_index() -> None:
    passages = [
        hashed(text) for text in ("the parrot Figaro sings", "trains and trains", "a parrot on a train", "soup")
    ]
    ids = np.array([3, 5, 8, 9])
    found = overlap("Which parrot is called Figaro?", ids, passages)
    assert found.ids.tolist() == [3, 8] and 0.5 < found.scores[0] < 2.2
    assert found.terms.tolist() == [3, 2] and found.rarity[0] > found.rarity[1]  # Figaro, and the parrot
    assert 0 < found.unseen < 1  # nothing is called
    for nothing in (overlap("", ids, passages), overlap("parrot", ids[:1], [hashed("")]), overlap("x", ids[:0], [])):
        assert not len(nothing.ids)

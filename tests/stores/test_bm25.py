"""BM25 over hashed words."""

from __future__ import annotations

import numpy as np

from tinymem.stores.bm25 import hash_words, search_words


def test_a_search_without_an_index_is_bm25_on_the_scale_of_the_full_text_index() -> None:
    passages = [
        hash_words(text) for text in ("the parrot Figaro sings", "trains and trains", "a parrot on a train", "soup")
    ]
    ids = np.array([3, 5, 8, 9])
    found = search_words("Which parrot is called Figaro?", ids, passages)
    assert found.ids.tolist() == [3, 8] and 0.5 < found.scores[0] < 2.2
    assert found.terms.tolist() == [3, 2] and found.rarity[0] > found.rarity[1]  # Figaro, and the parrot
    assert 0 < found.unseen < 1  # nothing is called
    for nothing in (
        search_words("", ids, passages),
        search_words("parrot", ids[:1], [hash_words("")]),
        search_words("x", ids[:0], []),
    ):
        assert not len(nothing.ids)

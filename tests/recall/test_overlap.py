"""BM25 without an index."""

from __future__ import annotations

from tinymem.recall.diversity import hashed, overlap


def test_overlap_is_bm25_on_the_scale_of_the_full_text_index() -> None:
    passages = [
        hashed(text) for text in ("the parrot Figaro sings", "trains and trains", "a parrot on a train", "soup")
    ]
    scores = overlap("Which parrot is called Figaro?", passages)
    assert scores.argmax() == 0 and scores[2] > 0 and scores[1] == scores[3] == 0
    assert 0.5 < scores[0] < 2.2
    assert not overlap("", passages).any() and not overlap("parrot", [hashed("")]).any() and not len(overlap("x", []))

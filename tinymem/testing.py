"""What an adapter must do, as checks to run in its own tests; and an embedder whose vectors one can work out by hand.

Each check is a function that raises AssertionError with what was expected and what came. No test framework is needed;
with pytest, one test for each check::

    import pytest
    from tinymem.testing import EMBEDDER_CHECKS, STORE_CHECKS

    @pytest.mark.parametrize("check", EMBEDDER_CHECKS, ids=lambda check: check.__name__)
    def test_my_embedder(check):
        check(MyEmbedder())

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check, tmp_path):
        check(lambda: MyStore(tmp_path))

`check_embedder`, `check_store` and `check_summarizer` run them all. Exact search with numpy is what stores are measured
against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinymem.embedders.hashing import HashingEmbedder
from tinymem.protocols import Embedder, Ids, Summarizer, TokenEmbedder, Vectors, VectorStore
from tinymem.steps.actions import ActionStep
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep, SummaryStep, TaskStep

__all__ = [
    "EMBEDDER_CHECKS",
    "STORE_CHECKS",
    "SUMMARIZER_CHECKS",
    "HashingEmbedder",
    "check_embedder",
    "check_persistence",
    "check_store",
    "check_summarizer",
    "check_token_embedder",
    "exact_neighbours",
    "unit_vectors",
]

_TEXTS = ["The build fails on Windows.", "a", "Brot und Käse, 日本語, 🙂", "x = [1, 2, 3]\n\tprint(x)\n", "?!"]
_BLANK = ["", " ", "\n\t \u3000"]
_HOSTILE = {
    "a lone surrogate": "broken \ud83d text",
    "a NUL": "nul \x00 inside",
    "a line separator": "one\u2028two",
    "the spelling of a special token": "<s>[CLS]</s><|endoftext|>",
    "100,000 characters": "all work and no play " * 5_000,
    "100,000 characters without a space": "a" * 100_000,
}
_ROUNDING = 1e-5  # how far two computations of the same cosine may differ
_DIMENSIONS = 16


def check_embedder(embedder: Embedder) -> None:
    """Run every check of `EMBEDDER_CHECKS`; for a `TokenEmbedder` also `check_token_embedder`."""
    for check in EMBEDDER_CHECKS:
        check(embedder)
    if isinstance(embedder, TokenEmbedder):
        check_token_embedder(embedder)


def check_store(open_store: Callable[[], VectorStore]) -> None:
    """Run every check of `STORE_CHECKS`.

    `open_store` opens the same empty store each time; what a check leaves behind is cleared by the next.
    """
    for check in STORE_CHECKS:
        check(open_store)


def check_summarizer(summarizer: Summarizer) -> None:
    """Run every check of `SUMMARIZER_CHECKS`."""
    for check in SUMMARIZER_CHECKS:
        check(summarizer)


def unit_vectors(count: int, dimensions: int = _DIMENSIONS, seed: int = 0) -> Vectors:
    """Random directions: `(count, dimensions)` float32 of length 1, the same for the same seed."""
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


def exact_neighbours(ids: Sequence[int], vectors: Vectors, query: Vectors, k: int) -> tuple[Ids, Vectors]:
    """What a perfect store answers: the `k` closest `ids` with their cosines, best first, ties by lower id."""
    keys = np.asarray(ids, dtype=np.int64)
    similarities = np.round(vectors.astype(np.float64) @ query.astype(np.float64), 6)
    order = np.lexsort((keys, -similarities))[:k]
    return keys[order], similarities[order].astype(np.float32)


# Embedders


def names_itself(embedder: Embedder) -> None:
    """Name, fingerprint and dimensions are there and do not change."""
    for attribute in ("name", "fingerprint"):
        value = getattr(embedder, attribute)
        _require(isinstance(value, str) and value != "", f"{attribute} is a text that is not empty, not {value!r}")
        _require(getattr(embedder, attribute) == value, f"{attribute} stays the same")
    _require(type(embedder.dimensions) is int and embedder.dimensions > 0, "dimensions is an integer above 0")


def gives_unit_vectors(embedder: Embedder) -> None:
    """`(n, dimensions)` float32 of length 1, for documents and for queries, for 0 texts too."""
    for texts in ([], _TEXTS[:1], _TEXTS, tuple(_TEXTS)):
        for vectors in (embedder.embed_documents(texts), embedder.embed_queries(texts)):
            _require_shape(vectors, len(texts), embedder.dimensions)
            lengths = np.linalg.norm(vectors, axis=1)
            _require(bool(np.allclose(lengths, 1, atol=_ROUNDING)), f"vectors have length 1, not {lengths}")


def gives_zero_for_blank_text(embedder: Embedder) -> None:
    """Empty text and white space are the zero vector, alone and among others."""
    for vectors in (embedder.embed_documents(_BLANK), embedder.embed_queries(_BLANK)):
        _require_shape(vectors, len(_BLANK), embedder.dimensions)
        _require(not vectors.any(), "blank texts are the zero vector")
    mixed = embedder.embed_documents([_TEXTS[0], "", _TEXTS[1]]).any(axis=1).tolist()
    _require(mixed == [True, False, True], "a blank text is the zero vector in its own place")


def gives_the_same_vector_in_any_batch(embedder: Embedder) -> None:
    """A text's vector does not depend on what else is embedded with it, nor on the order."""
    together = embedder.embed_documents([*_TEXTS, "long " * 2_000])[: len(_TEXTS)]
    backwards = embedder.embed_documents(_TEXTS[::-1])[::-1]
    for text, one, other in zip(_TEXTS, together, backwards, strict=True):
        alone = embedder.embed_documents([text])[0]
        difference = max(np.abs(alone - one).max(), np.abs(alone - other).max())
        _require(bool(difference < _ROUNDING), f"{text!r} has one vector in every batch; two differ by {difference}")


def gives_the_same_vector_again(embedder: Embedder) -> None:
    """The same call gives the same bits."""
    first, second = embedder.embed_documents(_TEXTS), embedder.embed_documents(_TEXTS)
    _require(bool((first == second).all()), "the same texts give the same vectors")


def takes_any_text(embedder: Embedder) -> None:
    """Surrogates, NUL, special tokens, very long texts: all have a finite vector of length 1."""
    for what, text in _HOSTILE.items():
        for vectors in (embedder.embed_documents([text, "b"]), embedder.embed_queries([text])):
            _require(bool(np.isfinite(vectors).all()), f"a text with {what} has a finite vector")
            length = float(np.linalg.norm(vectors[0]))
            _require(abs(length - 1) < _ROUNDING, f"a text with {what} has a vector of length 1, not {length}")


def puts_a_text_closest_to_itself(embedder: Embedder) -> None:
    """A query with the words of a document finds it among the others."""
    texts = ["the deployment failed last night", "grandmother's recipe for apple pie", "violin concerto in D"]
    closest = (embedder.embed_queries(texts) @ embedder.embed_documents(texts).T).argmax(axis=1).tolist()
    _require(closest == [0, 1, 2], f"each query finds the document of the same words, not {closest}")


EMBEDDER_CHECKS: tuple[Callable[[Embedder], None], ...] = (
    names_itself,
    gives_unit_vectors,
    gives_zero_for_blank_text,
    gives_the_same_vector_in_any_batch,
    gives_the_same_vector_again,
    takes_any_text,
    puts_a_text_closest_to_itself,
)


def check_token_embedder(embedder: TokenEmbedder) -> None:
    """The table has rows of length 1 or 0, and every token id is one of its rows; blank texts have no tokens."""
    table = embedder.token_table
    _require_shape(table, len(table), embedder.dimensions)
    lengths = np.linalg.norm(table, axis=1)
    _require(bool((np.isclose(lengths, 1, atol=_ROUNDING) | (lengths == 0)).all()), "rows have length 1, or 0")
    texts = [*_TEXTS, *_BLANK, *_HOSTILE.values()]
    ids = embedder.token_ids(texts)
    _require(len(ids) == len(texts), f"{len(texts)} texts have {len(texts)} arrays of token ids, not {len(ids)}")
    for text, tokens in zip(texts, ids, strict=True):
        _require(tokens.ndim == 1 and tokens.dtype == np.uint16, "token ids are one-dimensional uint16")
        _require(bool(len(tokens)) == bool(text.strip()), f"{text[:30]!r} has tokens if, and only if, it is not blank")
        _require(not len(tokens) or int(tokens.max()) < len(table), "token ids are rows of the table")


# Stores


def starts_empty(open_store: Callable[[], VectorStore]) -> None:
    """An empty store counts 0, answers with nothing, and deletes nothing without an error."""
    with _Empty(open_store) as store:
        ids, similarities = store.query(unit_vectors(1)[0], 5)
        _require(store.count() == 0 and len(ids) == 0 and len(similarities) == 0, "an empty store has nothing")
        store.delete([1, 2])
        store.upsert([], np.zeros((0, _DIMENSIONS), dtype=np.float32))
        _require(store.count() == 0, "adding nothing adds nothing")


def finds_what_exact_search_finds(open_store: Callable[[], VectorStore]) -> None:
    """The 10 nearest of 500 random vectors, as exact search has them, in order; an approximate one may miss 1 of 20."""
    ids, vectors = list(range(7, 1507, 3)), unit_vectors(500)
    with _Empty(open_store) as store:
        store.upsert(ids[:200], vectors[:200])
        store.upsert(ids[200:], vectors[200:])
        hits = 0
        for query in unit_vectors(20, seed=1):
            found, similarities = store.query(query, 10)
            _require(
                found.dtype == np.int64 and similarities.dtype == np.float32, "ids are int64, similarities float32"
            )
            _require(len(found) == len(similarities) == 10, "10 are asked for, 10 come")
            _require(bool((np.diff(similarities) <= 0).all()), "the best comes first")
            true = vectors[(found - 7) // 3] @ query
            _require(bool(np.allclose(similarities, true, atol=_ROUNDING)), "similarities are cosines")
            hits += len(set(found.tolist()) & set(exact_neighbours(ids, vectors, query, 10)[0].tolist()))
        _require(hits >= 190, f"at least 190 of the 200 exact neighbours are found, not {hits}")


def gives_all_when_asked_for_more(open_store: Callable[[], VectorStore]) -> None:
    """`k` above the count gives all; `k` of 1 the best; opposite vectors have similarity -1."""
    vector = unit_vectors(1)[0]
    with _Empty(open_store) as store:
        store.upsert([4, 2], np.stack([-vector, vector]))
        ids, similarities = store.query(vector, 100)
        _require(ids.tolist() == [2, 4], f"both come, the closer first, not {ids}")
        _require(bool(np.allclose(similarities, [1, -1], atol=_ROUNDING)), f"cosines are 1 and -1, not {similarities}")
        _require(store.query(vector, 1)[0].tolist() == [2], "k=1 gives the best")


def breaks_ties_by_lower_id(open_store: Callable[[], VectorStore]) -> None:
    """Equal vectors come in the order of their ids, numbers and not texts, whatever order they were added in."""
    vector = unit_vectors(1)
    with _Empty(open_store) as store:
        store.upsert([10, 9, 100, 2], vector.repeat(4, axis=0))
        ids = store.query(vector[0], 4)[0].tolist()
        _require(ids == [2, 9, 10, 100], f"ties come in the order of their ids, not {ids}")


def replaces_on_upsert(open_store: Callable[[], VectorStore]) -> None:
    """A vector under an id that is held replaces the one that was there."""
    old, new = unit_vectors(2)
    with _Empty(open_store) as store:
        store.upsert([5], old[np.newaxis])
        store.upsert([5, 6], np.stack([new, old]))
        _require(store.count() == 2, "an id that is held is not added again")
        _require(store.query(new, 1)[0].tolist() == [5], "the new vector is found")
        _require(store.query(old, 1)[0].tolist() == [6], "the old vector is gone")


def deletes(open_store: Callable[[], VectorStore]) -> None:
    """Deleted ids are found no more, the others are; ids that are not held are no error; a deleted id can come back."""
    vectors = unit_vectors(40)
    with _Empty(open_store) as store:
        store.upsert(range(40), vectors)
        store.delete([*range(0, 40, 2), 999])
        store.delete([])
        left = sorted(store.query(vectors[0], 100)[0].tolist())
        _require(left == list(range(1, 40, 2)) and store.count() == 20, f"the even ids are gone, and only they: {left}")
        _require(all(store.query(vectors[key], 1)[0].tolist() == [key] for key in left), "the others are still found")
        store.upsert([0], vectors[:1])
        _require(store.query(vectors[0], 1)[0].tolist() == [0], "a deleted id can be added again")


def keeps_zero_vectors_far(open_store: Callable[[], VectorStore]) -> None:
    """A zero vector, as blank text has, can be held and asked with, and has similarity 0."""
    vectors = np.concatenate([np.zeros((1, _DIMENSIONS), dtype=np.float32), unit_vectors(1)])
    with _Empty(open_store) as store:
        store.upsert([1, 2], vectors)
        similarities = store.query(vectors[1], 2)[1]
        _require(bool(np.allclose(similarities, [1, 0], atol=_ROUNDING)), f"1 and 0, not {similarities}")
        similarities = store.query(vectors[0], 2)[1]
        _require(bool(np.allclose(similarities, 0, atol=_ROUNDING)), f"nothing is close to zero, not {similarities}")


def clears(open_store: Callable[[], VectorStore]) -> None:
    """After `clear` the store is as new, and takes vectors of other dimensions."""
    with _Empty(open_store) as store:
        store.upsert(range(20), unit_vectors(20))
        store.clear()
        _require(store.count() == 0, "nothing is left")
        other = unit_vectors(3, _DIMENSIONS * 2)
        store.upsert([1, 2, 3], other)
        _require(store.query(other[1], 1)[0].tolist() == [2], "a cleared store takes new vectors")


def closes_twice(open_store: Callable[[], VectorStore]) -> None:
    """Closing twice is no error, and a closed store can be opened again."""
    store = open_store()
    store.close()
    store.close()
    open_store().close()


STORE_CHECKS: tuple[Callable[[Callable[[], VectorStore]], None], ...] = (
    starts_empty,
    finds_what_exact_search_finds,
    gives_all_when_asked_for_more,
    breaks_ties_by_lower_id,
    replaces_on_upsert,
    deletes,
    keeps_zero_vectors_far,
    clears,
    closes_twice,
)


def check_persistence(open_store: Callable[[], VectorStore]) -> None:
    """For a store with files: what was written, replaced, deleted and cleared is so after closing and opening again."""
    vectors = unit_vectors(30)
    with _Empty(open_store) as store:
        store.upsert(range(30), vectors)
        store.delete([3])
    store = open_store()
    _require(store.count() == 29, f"29 vectors are held after opening again, not {store.count()}")
    _require(store.query(vectors[7], 1)[0].tolist() == [7], "a vector is found after opening again")
    _require(3 not in store.query(vectors[3], 30)[0], "a deleted vector stays deleted")
    store.clear()
    store.close()
    store = open_store()
    _require(store.count() == 0, "a cleared store is empty after opening again")
    store.close()


# Summarizers


def has_a_name(summarizer: Summarizer) -> None:
    """Its name is there and does not change."""
    name = summarizer.name
    _require(isinstance(name, str) and name != "", f"name is a text that is not empty, not {name!r}")
    _require(summarizer.name == name, "name stays the same")


def tells_of_steps(summarizer: Summarizer) -> None:
    """A run of steps gives a text, which is not empty; the steps, a summary among them, stay as they are."""
    steps: list[Step] = [
        SummaryStep("The port is 8443.", ["earlier"]),
        TaskStep("Find out why the build fails."),
        ActionStep("Look.", tool_name="bash", tool_args={"cmd": "make"}, error="exit code 2"),
        MessageStep("assistant", "A header is missing."),
    ]
    before = list(steps)
    for given in (steps, tuple(steps)):
        text = summarizer.summarize(given, 200)
        _require(isinstance(text, str) and text.strip() != "", f"the summary is a text that is not empty, not {text!r}")
    _require(steps == before, "the steps stay as they are")


def takes_any_steps(summarizer: Summarizer) -> None:
    """No steps, steps without text, surrogates, NUL, very long texts, next to no room: the summary is a text."""
    for said in ((), *((text,) for text in (*_BLANK, *_HOSTILE.values()))):
        for most in (0, 1, 100):
            found = summarizer.summarize([MessageStep("user", text) for text in said], most)
            _require(
                isinstance(found, str), f"the summary of {said!r:.80} in {most} tokens is a text, not {found!r:.80}"
            )


SUMMARIZER_CHECKS: tuple[Callable[[Summarizer], None], ...] = (has_a_name, tells_of_steps, takes_any_steps)


class _Empty:
    """`with _Empty(open_store) as store`: opened, cleared, and closed at the end."""

    def __init__(self, open_store: Callable[[], VectorStore]) -> None:
        self._store = open_store()

    def __enter__(self) -> VectorStore:
        self._store.clear()
        return self._store

    def __exit__(self, *error: object) -> None:
        self._store.close()


def _require(condition: bool, expected: str) -> None:
    # Not `assert`: it would vanish under python -O, and pytest explains it only in test modules.
    if not condition:
        raise AssertionError(expected)


def _require_shape(vectors: Vectors, rows: int, dimensions: int) -> None:
    _require(vectors.shape == (rows, dimensions), f"vectors have shape ({rows}, {dimensions}), not {vectors.shape}")
    _require(vectors.dtype == np.float32, f"vectors are float32, not {vectors.dtype}")

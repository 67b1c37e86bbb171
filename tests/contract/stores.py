"""The contract of vector stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from inspect import signature
from typing import Any

import numpy as np

from tinymem.protocols import VectorStore

from .samples import DIMENSIONS, exact_neighbours, require, unit_vectors

__all__ = ["STORE_CHECKS", "check_persistence", "check_store"]

HALF = 5e-4  # how far a cosine may be off: a store may keep vectors in half precision, as the journal does


@contextmanager
def _emptied(open_store: Callable[[], VectorStore]) -> Iterator[VectorStore]:
    """Open a store, clear it, and close it at the end."""
    with closing(open_store()) as store:
        store.clear()
        yield store


def starts_empty(open_store: Callable[[], VectorStore]) -> None:
    """An empty store counts 0, answers with nothing, and deletes nothing without an error."""
    with _emptied(open_store) as store:
        ids, similarities = store.query(unit_vectors(1)[0], 5)
        require(store.count() == 0 and len(ids) == 0 and len(similarities) == 0, "an empty store has nothing")
        store.delete([1, 2])
        store.upsert([], np.zeros((0, DIMENSIONS), dtype=np.float32))
        require(store.count() == 0, "adding nothing adds nothing")


def finds_what_exact_search_finds(open_store: Callable[[], VectorStore]) -> None:
    """The 10 nearest of 500 random vectors, as exact search has them, in order; an approximate one may miss 1 of 20."""
    ids, vectors = list(range(7, 1507, 3)), unit_vectors(500)
    with _emptied(open_store) as store:
        store.upsert(ids[:200], vectors[:200])
        store.upsert(ids[200:], vectors[200:])
        hits = 0
        for query in unit_vectors(20, seed=1):
            found, similarities = store.query(query, 10)
            require(found.dtype == np.int64 and similarities.dtype == np.float32, "ids are int64, similarities float32")
            require(len(found) == len(similarities) == 10, "10 are asked for, 10 come")
            require(bool((np.diff(similarities) <= 0).all()), "the best comes first")
            true = vectors[(found - 7) // 3] @ query
            require(bool(np.allclose(similarities, true, atol=HALF)), "similarities are cosines")
            hits += len(set(found.tolist()) & set(exact_neighbours(ids, vectors, query, 10)[0].tolist()))
        require(hits >= 190, f"at least 190 of the 200 exact neighbours are found, not {hits}")


def gives_all_when_asked_for_more(open_store: Callable[[], VectorStore]) -> None:
    """`k` above the count gives all; `k` of 1 the best; opposite vectors have similarity -1."""
    vector = unit_vectors(1)[0]
    with _emptied(open_store) as store:
        store.upsert([4, 2], np.stack([-vector, vector]))
        ids, similarities = store.query(vector, 100)
        require(ids.tolist() == [2, 4], f"both come, the closer first, not {ids}")
        require(bool(np.allclose(similarities, [1, -1], atol=HALF)), f"cosines are 1 and -1, not {similarities}")
        require(store.query(vector, 1)[0].tolist() == [2], "k=1 gives the best")


def breaks_ties_by_lower_id(open_store: Callable[[], VectorStore]) -> None:
    """Equal vectors come in the order of their ids, numbers and not texts, whatever order they were added in."""
    vector = unit_vectors(1)
    with _emptied(open_store) as store:
        store.upsert([10, 9, 100, 2], vector.repeat(4, axis=0))
        ids = store.query(vector[0], 4)[0].tolist()
        require(ids == [2, 9, 10, 100], f"ties come in the order of their ids, not {ids}")


def replaces_on_upsert(open_store: Callable[[], VectorStore]) -> None:
    """A vector under an id that is held replaces the one that was there."""
    old, new = unit_vectors(2)
    with _emptied(open_store) as store:
        store.upsert([5], old[np.newaxis])
        store.upsert([5, 6], np.stack([new, old]))
        require(store.count() == 2, "an id that is held is not added again")
        require(store.query(new, 1)[0].tolist() == [5], "the new vector is found")
        require(store.query(old, 1)[0].tolist() == [6], "the old vector is gone")


def takes_metadata(open_store: Callable[[], VectorStore]) -> None:
    """A store whose `upsert` has a parameter `metadata` takes vectors with it and without, and replaces it."""
    this, other = unit_vectors(2)
    with _emptied(open_store) as store:
        upsert: Any = store.upsert
        if "metadata" not in signature(upsert).parameters:
            return
        first = {"step": 1, "type": "action", "time": 1.7e9, "session": "s", "tool": "look"}
        upsert([1], this[np.newaxis], metadata=[first])
        upsert([1, 2], np.stack([other, this]), metadata=[{"step": 1}, {"step": 2, "speaker": "Ann"}])
        upsert([3], -this[np.newaxis])
        upsert([2], this[np.newaxis])
        require(store.count() == 3, "metadata adds no vector")
        found = [store.query(vector, 1)[0].tolist() for vector in (this, other, -this)]
        require(found == [[2], [1], [3]], f"each vector is found under its id, not {found}")
        upsert([], np.zeros((0, DIMENSIONS), dtype=np.float32), metadata=[])
        require(store.count() == 3, "no metadata is needed for no vectors")


def deletes(open_store: Callable[[], VectorStore]) -> None:
    """Deleted ids are found no more, the others are; ids that are not held are no error; a deleted id can come back."""
    vectors = unit_vectors(40)
    with _emptied(open_store) as store:
        store.upsert(range(40), vectors)
        store.delete([*range(0, 40, 2), 999])
        store.delete([])
        left = sorted(store.query(vectors[0], 100)[0].tolist())
        require(left == list(range(1, 40, 2)) and store.count() == 20, f"the even ids are gone, and only they: {left}")
        require(all(store.query(vectors[key], 1)[0].tolist() == [key] for key in left), "the others are still found")
        store.upsert([0], vectors[:1])
        require(store.query(vectors[0], 1)[0].tolist() == [0], "a deleted id can be added again")


def keeps_zero_vectors_far(open_store: Callable[[], VectorStore]) -> None:
    """A zero vector, as blank text has, can be held and asked with, and has similarity 0."""
    vectors = np.concatenate([np.zeros((1, DIMENSIONS), dtype=np.float32), unit_vectors(1)])
    with _emptied(open_store) as store:
        store.upsert([1, 2], vectors)
        similarities = store.query(vectors[1], 2)[1]
        require(bool(np.allclose(similarities, [1, 0], atol=HALF)), f"1 and 0, not {similarities}")
        similarities = store.query(vectors[0], 2)[1]
        require(bool(np.allclose(similarities, 0, atol=HALF)), f"nothing is close to zero, not {similarities}")


def clears(open_store: Callable[[], VectorStore]) -> None:
    """After `clear` the store is as new, and takes vectors of other dimensions."""
    with _emptied(open_store) as store:
        store.upsert(range(20), unit_vectors(20))
        store.clear()
        require(store.count() == 0, "nothing is left")
        other = unit_vectors(3, DIMENSIONS * 2)
        store.upsert([1, 2, 3], other)
        require(store.query(other[1], 1)[0].tolist() == [2], "a cleared store takes new vectors")


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
    takes_metadata,
    deletes,
    keeps_zero_vectors_far,
    clears,
    closes_twice,
)


def check_persistence(open_store: Callable[[], VectorStore]) -> None:
    """For a store with files: what was written, replaced, deleted and cleared is so after closing and opening again."""
    vectors = unit_vectors(30)
    with _emptied(open_store) as store:
        store.upsert(range(30), vectors)
        store.delete([3])
    store = open_store()
    require(store.count() == 29, f"29 vectors are held after opening again, not {store.count()}")
    require(store.query(vectors[7], 1)[0].tolist() == [7], "a vector is found after opening again")
    require(3 not in store.query(vectors[3], 30)[0], "a deleted vector stays deleted")
    store.clear()
    store.close()
    store = open_store()
    require(store.count() == 0, "a cleared store is empty after opening again")
    store.close()


def check_store(open_store: Callable[[], VectorStore]) -> None:
    """Run every check of `STORE_CHECKS`.

    `open_store` opens the same empty store each time; what a check leaves behind is cleared by the next.
    """
    for check in STORE_CHECKS:
        check(open_store)

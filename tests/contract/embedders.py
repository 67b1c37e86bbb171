"""The contract of embedders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinymem.protocols import Embedder

from .samples import BLANK, HOSTILE, ROUNDING, TEXTS, require, require_shape

__all__ = ["EMBEDDER_CHECKS", "check_embedder"]


def names_itself(embedder: Embedder) -> None:
    """Name, fingerprint and dimensions are there and do not change."""
    for attribute in ("name", "fingerprint"):
        value = getattr(embedder, attribute)
        require(isinstance(value, str) and value != "", f"{attribute} is a text that is not empty, not {value!r}")
        require(getattr(embedder, attribute) == value, f"{attribute} stays the same")
    require(type(embedder.dimensions) is int and embedder.dimensions > 0, "dimensions is an integer above 0")


def gives_unit_vectors(embedder: Embedder) -> None:
    """`(n, dimensions)` float32 of length 1, for documents and for queries, for 0 texts too."""
    for texts in ([], TEXTS[:1], TEXTS, tuple(TEXTS)):
        for vectors in (embedder.embed_documents(texts), embedder.embed_queries(texts)):
            require_shape(vectors, len(texts), embedder.dimensions)
            lengths = np.linalg.norm(vectors, axis=1)
            require(bool(np.allclose(lengths, 1, atol=ROUNDING)), f"vectors have length 1, not {lengths}")


def gives_zero_for_blank_text(embedder: Embedder) -> None:
    """Empty text and white space are the zero vector, alone and among others."""
    for vectors in (embedder.embed_documents(BLANK), embedder.embed_queries(BLANK)):
        require_shape(vectors, len(BLANK), embedder.dimensions)
        require(not vectors.any(), "blank texts are the zero vector")
    mixed = embedder.embed_documents([TEXTS[0], "", TEXTS[1]]).any(axis=1).tolist()
    require(mixed == [True, False, True], "a blank text is the zero vector in its own place")


def gives_the_same_vector_in_any_batch(embedder: Embedder) -> None:
    """A text's vector does not depend on what else is embedded with it, nor on the order."""
    together = embedder.embed_documents([*TEXTS, "long " * 2_000])[: len(TEXTS)]
    backwards = embedder.embed_documents(TEXTS[::-1])[::-1]
    for text, forth, other in zip(TEXTS, together, backwards, strict=True):
        alone = embedder.embed_documents([text])[0]
        difference = max(np.abs(alone - forth).max(), np.abs(alone - other).max())
        require(bool(difference < ROUNDING), f"{text!r} has one vector in every batch; two differ by {difference}")


def gives_the_same_vector_again(embedder: Embedder) -> None:
    """The same call gives the same bits."""
    first, second = embedder.embed_documents(TEXTS), embedder.embed_documents(TEXTS)
    require(bool((first == second).all()), "the same texts give the same vectors")


def takes_any_text(embedder: Embedder) -> None:
    """Surrogates, NUL, special tokens, very long texts: all have a finite vector of length 1."""
    for what, text in HOSTILE.items():
        for vectors in (embedder.embed_documents([text, "b"]), embedder.embed_queries([text])):
            require(bool(np.isfinite(vectors).all()), f"a text with {what} has a finite vector")
            length = float(np.linalg.norm(vectors[0]))
            require(abs(length - 1) < ROUNDING, f"a text with {what} has a vector of length 1, not {length}")


def puts_a_text_closest_to_itself(embedder: Embedder) -> None:
    """A query with the words of a document finds it among the others."""
    texts = ["the deployment failed last night", "grandmother's recipe for apple pie", "violin concerto in D"]
    closest = (embedder.embed_queries(texts) @ embedder.embed_documents(texts).T).argmax(axis=1).tolist()
    require(closest == [0, 1, 2], f"each query finds the document of the same words, not {closest}")


EMBEDDER_CHECKS: tuple[Callable[[Embedder], None], ...] = (
    names_itself,
    gives_unit_vectors,
    gives_zero_for_blank_text,
    gives_the_same_vector_in_any_batch,
    gives_the_same_vector_again,
    takes_any_text,
    puts_a_text_closest_to_itself,
)


def check_embedder(embedder: Embedder) -> None:
    """Run every check of `EMBEDDER_CHECKS`."""
    for check in EMBEDDER_CHECKS:
        check(embedder)

"""An adapter that makes an embedder of any object with a method `embed(text)`."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt

from tinymem.errors import EmbedderError, InputError, TinymemError, describe_type, safe_summary
from tinymem.protocols import Embeds, Vectors
from tinymem.steps.content import clean

__all__ = ["ObjectEmbedder"]

PROBE = "How long is a vector?"  # embedded once, where the object has no `dimensions`


class ObjectEmbedder:
    """An Embedder made of an object that embeds one text at a time.

    Vectors are scaled to length 1; blank text is the zero vector, and the object is not asked for it. `name`,
    `fingerprint` and `dimensions` are the object's own where it has them. Else the name is that of its type, the
    fingerprint is name and dimensions, and the dimensions are those of its first vector. A memory knows its embedder by
    the fingerprint: two models behind one class need a `fingerprint` each, or a `name`.

    >>> class Lengths:
    ...     def embed(self, text):
    ...         return [len(text), text.count(" ")]
    >>> print(ObjectEmbedder(Lengths()).embed_documents(["one two", ""]).round(2))
    [[0.99 0.14]
     [0.   0.  ]]

    Raises:
        EmbedderError: `embed` fails, or does not give a vector: no numbers, another length than before, NaN or
            infinity.
    """

    def __init__(self, embeds: Embeds) -> None:
        if isinstance(embeds, type) or not callable(getattr(embeds, "embed", None)):
            raise InputError(f"an embedder must have a method embed(text), and {describe_type(embeds)} has none")
        self._embeds, self._lock = embeds, Lock()
        stated = getattr(embeds, "dimensions", None)
        self._dimensions: int | None = stated if type(stated) is int and stated > 0 else None

    @property
    def name(self) -> str:
        """The object's own name, or that of its type."""
        return self._own("name") or f"{type(self._embeds).__module__}.{type(self._embeds).__qualname__}"

    @property
    def fingerprint(self) -> str:
        """The object's own fingerprint, or name and dimensions."""
        return self._own("fingerprint") or f"{self.name}/{self.dimensions}"

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        if self._dimensions is None:
            self._vector(PROBE)
        assert self._dimensions is not None
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one by one: `(len(texts), dimensions)` float32 of length 1, zero for a blank text."""
        if isinstance(texts, str):
            raise InputError("texts must be a sequence of texts, and one text was given: put it in a list")
        vectors = [self._vector(text) if text.strip() else None for text in texts]
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for row, vector in zip(found, vectors, strict=True):
            if vector is not None:
                row[:] = vector
        return found

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as `embed_documents` does."""
        return self.embed_documents(texts)

    def _own(self, what: str) -> str:
        value = getattr(self._embeds, what, None)
        return value if isinstance(value, str) else ""

    def _vector(self, text: str) -> npt.NDArray[np.float64]:
        """Embed one text and scale its vector to length 1; a vector of zeros stays one."""
        try:
            given = self._embeds.embed(clean(text))
        except TinymemError:
            raise
        except Exception as error:
            raise EmbedderError(f"{self.name}.embed failed: {safe_summary(error)}") from error
        vector = self._numbers(given)
        with self._lock:
            if self._dimensions is None:
                self._dimensions = len(vector)
        if len(vector) != self._dimensions:
            raise EmbedderError(f"{self.name}.embed gave {len(vector)} numbers, not {self._dimensions} as before")
        largest = np.abs(vector).max()
        if not np.isfinite(largest):
            raise EmbedderError(f"{self.name}.embed gave NaN or infinity among its {len(vector)} numbers")
        if largest == 0:
            return vector
        vector = vector / largest  # so that the squares of what is very large or small are numbers too
        scaled: npt.NDArray[np.float64] = vector / np.linalg.norm(vector)
        return scaled

    def _numbers(self, given: object) -> npt.NDArray[np.float64]:
        try:
            found = np.asarray(given)
        except Exception as error:
            raise EmbedderError(f"{self.name}.embed gave {describe_type(given)} that is no vector") from error
        if found.ndim != 1 or not len(found) or found.dtype.kind not in "fiu":
            what = (
                describe_type(given) if found.ndim == 0 else f"an array of shape {found.shape} and type {found.dtype}"
            )
            raise EmbedderError(f"{self.name}.embed gave {what}, not a sequence of numbers")
        return found.astype(np.float64)

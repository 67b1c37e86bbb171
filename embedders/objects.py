"""An adapter that makes an embedder of any object with a method `embed(text)`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinymem.embedders.batches import embed_filled
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
        self._embeds = embeds
        given, kind = getattr(embeds, "name", None), type(embeds)
        self.name = given if given and isinstance(given, str) else f"{kind.__module__}.{kind.__qualname__}"
        stated = getattr(embeds, "dimensions", None)
        self._dimensions: int | None = stated if type(stated) is int and stated > 0 else None

    @property
    def fingerprint(self) -> str:
        """The object's own fingerprint, or name and dimensions."""
        given = getattr(self._embeds, "fingerprint", None)
        return given if given and isinstance(given, str) else f"{self.name}/{self.dimensions}"

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._dimensions or len(self._vector(PROBE))

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one by one: `(len(texts), dimensions)` float32 of length 1, zero for a blank text."""
        return embed_filled(texts, self.dimensions, lambda filled: map(self._vector, filled))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as `embed_documents` does."""
        return self.embed_documents(texts)

    def _vector(self, text: str) -> npt.NDArray[np.float64]:
        """Embed one text, scaled so that the squares of what is very large or small are numbers too."""
        try:
            vector = np.asarray(self._embeds.embed(clean(text)), dtype=np.float64)
        except TinymemError:
            raise
        except Exception as error:
            raise EmbedderError(f"{self.name}.embed failed: {safe_summary(error)}") from error
        if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
            raise EmbedderError(f"{self.name}.embed gave no row of finite numbers, but shape {vector.shape}")
        self._dimensions = self._dimensions or len(vector)
        if len(vector) != self._dimensions:
            raise EmbedderError(f"{self.name}.embed gave {len(vector)} numbers, not {self._dimensions} as before")
        scaled: npt.NDArray[np.float64] = vector / (np.abs(vector).max() or 1)
        return scaled

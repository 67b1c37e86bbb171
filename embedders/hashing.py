"""An embedder for tests: words hashed to dimensions, so that a test can foretell its vectors."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinymem.embedders.batches import embed_filled
from tinymem.errors import InputError
from tinymem.protocols import Vectors
from tinymem.steps.checks import check_non_negative_int

__all__ = ["HashingEmbedder"]

_LARGEST = 4_096  # dimensions, which keep the words of any test apart


class HashingEmbedder:
    """An embedder by counts of lower-cased words, each hashed to one dimension (Weinberger et al. 2009), of length 1.

    Texts are close when they share words, and only then: paraphrases are strangers. Without the sign hash of the paper,
    so that words never cancel and no similarity is negative; two words may share a dimension. The same in every process
    and on every machine (CRC-32). Not for real use: `StaticEmbedder` is about as fast, and knows the meaning of words.

    >>> red, blue = HashingEmbedder().embed_documents(["red red apple", "blue apple"])
    >>> round(float(red @ blue), 3)  # 1 shared word / (sqrt(5) * sqrt(2))
    0.316

    Args:
        dimensions: The length of a vector, 1 to 4,096.
    """

    def __init__(self, dimensions: int = 256) -> None:
        if not 1 <= check_non_negative_int("dimensions", dimensions) <= _LARGEST:
            raise InputError(f"dimensions must be 1 to {_LARGEST}, and {dimensions} was given")
        self.dimensions = dimensions

    @classmethod
    def from_name(cls, argument: str) -> HashingEmbedder:
        """Make the embedder named `"hashing"`, or `"hashing:64"` for 64 dimensions."""
        if argument and not (argument.isascii() and argument.isdigit()):
            raise InputError(f'"hashing:{argument}": a number of dimensions comes after the colon, as in "hashing:64"')
        return cls(int(argument or 256))

    @property
    def name(self) -> str:
        """`"hashing"`, or `"hashing:64"` if the dimensions are not 256."""
        return "hashing" if self.dimensions == 256 else f"hashing:{self.dimensions}"

    @property
    def fingerprint(self) -> str:
        """The method and the dimensions."""
        return f"hashing/crc32/{self.dimensions}/1"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: `(len(texts), dimensions)` float32 of length 1, zero for a text that is empty or white space."""
        return embed_filled(texts, self.dimensions, lambda filled: map(self._counts, filled))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as `embed_documents` does."""
        return self.embed_documents(texts)

    def _counts(self, text: str) -> npt.NDArray[np.int64]:
        """Count lower-cased words; a text of other signs only, as "!?", is split at its white space instead."""
        lowered = text.lower()
        words = re.findall(r"\w+", lowered) or lowered.split()
        codes = [zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.dimensions for word in words]
        return np.bincount(codes, minlength=self.dimensions)

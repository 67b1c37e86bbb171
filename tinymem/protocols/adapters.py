"""Embedders, vector stores, token counters and summarizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tinymem.steps.types import Step

__all__ = [
    "Embedder",
    "Embeds",
    "Ids",
    "Metadata",
    "Summarizer",
    "Summarizes",
    "TokenCounter",
    "VectorStore",
    "Vectors",
]

Vectors: TypeAlias = npt.NDArray[np.float32]
Ids: TypeAlias = npt.NDArray[np.int64]
Metadata: TypeAlias = Mapping[str, "str | int | float"]
Summarizes: TypeAlias = "Callable[[list[Step]], str]"  # the least that a summarizer can be


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Vectors are `(n, dimensions)` float32 of length 1, so that a dot product is the cosine similarity. A text with
    nothing to embed (empty, white space) is the zero vector, which is close to nothing. The same text gives the same
    vector, whatever else is in the batch.
    """

    @property
    def name(self) -> str:
        """The name for `HierarchicalMemory(embedder=...)`, as in `"static"`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would: model, weights, pooling, dimensions. Stored with the data."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed what is stored: `(len(texts), dimensions)` float32."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed what is asked: `(len(texts), dimensions)` float32. Many models want another prompt here."""
        ...


class Embeds(Protocol):
    """The least that an embedder can be: one method. It is scaled and checked where it is used."""

    def embed(self, text: str, /) -> Sequence[float] | npt.NDArray[Any]:
        """The vector of one text, as a list, a tuple or an array `(dimensions,)`: numbers, always as many."""
        ...


@runtime_checkable
class VectorStore(Protocol):
    """An index of vectors by integer id. It can be thrown away: the journal has everything.

    Some things are optional. A store whose `upsert` has a parameter `metadata` gets a mapping for each vector there:
    step, type and time (seconds since 1970), and session, speaker and tool where there are any. A store
    with an attribute `in_memory = True` gets nothing, since nobody could look into it. The class that has `from_name`
    may have a static method `erase(argument, path)`, which deletes files, maybe damaged ones, without reading them, and
    tells if the store has files there. A store is cleared whenever something is forgotten, and then filled again in the
    background.
    """

    @property
    def name(self) -> str:
        """The name for `HierarchicalMemory(store=...)`, as in `"chroma"`."""
        ...

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Add vectors `(n, dimensions)` under `ids`, or replace those that are there. Any n, 0 too."""
        ...

    def query(self, vector: Vectors, k: int) -> tuple[Ids, Vectors]:
        """The `k` closest to `vector` `(dimensions,)`: ids, and cosine similarities, best first."""
        ...

    def delete(self, ids: Sequence[int]) -> None:
        """Remove these ids; ids that are not held are no error."""
        ...

    def count(self) -> int:
        """Count the vectors that are held."""
        ...

    def clear(self) -> None:
        """Remove everything, from disk too."""
        ...

    def close(self) -> None:
        """Release files and connections. Closing twice is no error."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """The name of the tokenizer, as in `"cl100k_base"`."""
        ...

    def count(self, text: str) -> int:
        """Tokens of `text`, as the model would be charged for it; 0 for the empty text."""
        ...


@runtime_checkable
class Summarizer(Protocol):
    """Shortens a run of steps to a text."""

    @property
    def name(self) -> str:
        """The name for `tinymem.registry.summarizer_from`, as in `"extractive"`; kept with what it wrote."""
        ...

    def summarize(self, steps: Sequence[Step], max_tokens: int) -> str:
        """The summary of `steps`, oldest first, in at most `max_tokens`: plain text, which the caller fences.

        A `SummaryStep` among them stands for steps that were summarised before. What is longer is cut by the caller.
        """
        ...

"""What is asked, analysed once: its vectors, its tokens with weights, its text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from tinymem.content import clean
from tinymem.protocols import Embedder, TokenEmbedder, TokenIds, Vectors
from tinymem.recall.passages import cut

__all__ = ["Query", "analyse"]

LINES = 3  # line breaks from which on a text is no plain question
MAX_VECTORS = 16  # a long query is embedded in passages, these many from its end: what is newest counts most


@dataclass(frozen=True)
class Query:
    """`vectors` `(m, dimensions)`: of the whole text, then of its passages if it is long. `tokens`: distinct ids."""

    text: str
    vectors: Vectors
    tokens: TokenIds
    now: datetime

    @property
    def is_stretch(self) -> bool:
        """Whether it is a stretch of the run itself (what the window shows now), not a question somebody asks."""
        return len(self.vectors) > 1 or self.text.strip().count("\n") >= LINES


def analyse(text: str, embedder: Embedder, tokenizer: TokenEmbedder, now: datetime) -> Query:
    """Embed the question, once."""
    text = clean(text)
    pieces = [text[start:end] for start, end in cut(text)][-MAX_VECTORS:]
    vectors = embedder.embed_queries([text] if len(pieces) == 1 else [text, *pieces])
    return Query(text, vectors, np.unique(tokenizer.token_ids([text])[0]), now)

"""The embedders that ship with tinymem, one a file.

from tinymem.embedders import StaticEmbedder            # the default: a table of token vectors, no torch, no download
from tinymem.embedders import MiniLMEmbedder            # all-MiniLM-L6-v2 from a package of 23 MB, no torch
from tinymem.embedders import SentenceTransformerEmbedder  # any sentence-transformers model
from tinymem.embedders import OpenAIEmbedder            # OpenAI's API, and every server that speaks it
from tinymem.embedders import HashingEmbedder           # for tests: vectors that one can work out by hand
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.embedders.hashing import HashingEmbedder
    from tinymem.embedders.onnx import MiniLMEmbedder
    from tinymem.embedders.openai import OpenAIEmbedder
    from tinymem.embedders.sentence_transformers import SentenceTransformerEmbedder
    from tinymem.embedders.static import StaticEmbedder
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "hashing": "HashingEmbedder",
        "onnx": "MiniLMEmbedder",
        "openai": "OpenAIEmbedder",
        "sentence_transformers": "SentenceTransformerEmbedder",
        "static": "StaticEmbedder",
    })  # fmt: skip

__all__ = ["HashingEmbedder", "MiniLMEmbedder", "OpenAIEmbedder", "SentenceTransformerEmbedder",
           "StaticEmbedder"]  # fmt: skip

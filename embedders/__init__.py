"""The embedders that ship with tinymem, one a file; importing this package imports none of them.

from tinymem.embedders import StaticEmbedder            # the default: a table of token vectors, no torch, no download
from tinymem.embedders import SentenceTransformerEmbedder  # any sentence-transformers model
from tinymem.embedders import OpenAIEmbedder            # OpenAI's API, and every server that speaks it
from tinymem.embedders import HashingEmbedder           # for tests: vectors that one can work out by hand
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.embedders.hashing import HashingEmbedder
    from tinymem.embedders.openai import OpenAIEmbedder
    from tinymem.embedders.sentence_transformers import SentenceTransformerEmbedder
    from tinymem.embedders.static import StaticEmbedder

__all__ = ["HashingEmbedder", "OpenAIEmbedder", "SentenceTransformerEmbedder", "StaticEmbedder"]

_HOMES = {
    "HashingEmbedder": "hashing",
    "OpenAIEmbedder": "openai",
    "SentenceTransformerEmbedder": "sentence_transformers",
    "StaticEmbedder": "static",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""The vector stores that ship with tinymem, one a file; importing this package imports none of them.

from tinymem.stores import ChromaStore  # the default: approximate, on disk or on a server
from tinymem.stores import ExactStore   # exact, in memory, with numpy
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.stores.chroma.store import ChromaStore
    from tinymem.stores.exact import ExactStore

__all__ = ["ChromaStore", "ExactStore"]

_WHERE = {"ChromaStore": "tinymem.stores.chroma.store", "ExactStore": "tinymem.stores.exact"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

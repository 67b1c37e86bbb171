"""The summarizers that ship with tinymem; importing this package imports none of them.

from tinymem.summarizers import ExtractiveSummarizer  # the default: picks lines, word for word; no model
from tinymem.summarizers import ChatSummarizer        # OpenAI's chat API, and every server that speaks it
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.summarizers.chat import ChatSummarizer
    from tinymem.summarizers.extractive import ExtractiveSummarizer

__all__ = ["ChatSummarizer", "ExtractiveSummarizer"]

_HOMES = {"ChatSummarizer": "chat", "ExtractiveSummarizer": "extractive"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Summarizers, one a file, and the strategy that puts a summary in the place of old steps; nothing is imported yet.

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

_WHERE = {
    "ChatSummarizer": "tinymem.summarizers.chat",
    "ExtractiveSummarizer": "tinymem.summarizers.extractive",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

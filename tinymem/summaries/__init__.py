"""Summarizers, one a file, and the strategy that puts a summary in the place of old steps; nothing is imported yet.

from tinymem.summaries import ExtractiveSummarizer  # the default: picks lines, word for word; no model
from tinymem.summaries import ChatSummarizer        # OpenAI's chat API, and every server that speaks it
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.summaries.chat import ChatSummarizer
    from tinymem.summaries.extractive import ExtractiveSummarizer

__all__ = ["ChatSummarizer", "ExtractiveSummarizer"]

_WHERE = {
    "ChatSummarizer": "tinymem.summaries.chat",
    "ExtractiveSummarizer": "tinymem.summaries.extractive",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

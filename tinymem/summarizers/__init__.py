"""Summarizers, one a file.

from tinymem.summarizers import ExtractiveSummarizer  # the default: picks lines, word for word; no model
from tinymem.summarizers import ChatSummarizer        # OpenAI's chat API, and every server that speaks it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.summarizers.chat import ChatSummarizer
    from tinymem.summarizers.extractive import ExtractiveSummarizer
else:
    __getattr__, __dir__ = lazy_names(__name__, {"chat": "ChatSummarizer", "extractive": "ExtractiveSummarizer"})

__all__ = ["ChatSummarizer", "ExtractiveSummarizer"]

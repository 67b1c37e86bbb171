"""Summarizers, one a file.

from tinymem.summarizers import ExtractiveSummarizer  # the default: picks lines, word for word; no model
from tinymem.summarizers import ChatSummarizer        # OpenAI's chat API, and every server that speaks it
"""

from tinymem.summarizers.chat import ChatSummarizer
from tinymem.summarizers.extractive import ExtractiveSummarizer

__all__ = ["ChatSummarizer", "ExtractiveSummarizer"]

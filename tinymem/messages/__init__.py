"""Chat messages: from steps and back, in the form that the APIs accept, and their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.messages.conversion import groups, messages_from_steps, steps_from_messages
    from tinymem.messages.tokens import TiktokenCounter, count_message, count_tokens
    from tinymem.messages.validity import problems, repair
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "conversion": "groups messages_from_steps steps_from_messages",
        "tokens": "TiktokenCounter count_message count_tokens",
        "validity": "problems repair",
    })  # fmt: skip

__all__ = [
    "TiktokenCounter", "count_message", "count_tokens", "groups", "messages_from_steps", "problems", "repair",
    "steps_from_messages",
]  # fmt: skip

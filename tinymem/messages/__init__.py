"""Chat messages: from steps and back, in the form that the APIs accept, and their tokens."""

from tinymem.messages.conversion import groups, messages_from_steps, steps_from_messages
from tinymem.messages.tokens import TiktokenCounter, count_message, count_tokens
from tinymem.messages.validity import problems, repair

__all__ = [
    "TiktokenCounter", "count_message", "count_tokens", "groups", "messages_from_steps", "problems", "repair",
    "steps_from_messages",
]  # fmt: skip

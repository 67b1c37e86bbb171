"""Every error that tinymem raises, and when.

::

    TinymemError
    ├── InputError (ValueError)        an argument or a record is not what it should be
    │   ├── StepError                  a step cannot be built, or cannot be read back
    │   └── MessageError               a chat message is malformed; `.index` says which
    ├── BudgetError (ValueError)       what must be in the prompt does not fit; `.needed`, `.budget`, `.parts`
    ├── StorageError                   the memory's folder or files
    │   ├── NotAMemoryError            the path holds something else
    │   ├── ClosedError                the memory was closed
    │   ├── FormatError                written by a newer tinymem, or damaged
    │   └── EmbedderMismatchError      written with another embedder; `.stored`, `.given`
    ├── EmbedderError                  an embedder failed, or gave vectors of the wrong shape
    └── MissingExtraError (ImportError)  an optional dependency is not installed; the message ends in the line to run

User mistakes are InputError and BudgetError; what the machine did is the rest. Each message carries the numbers and
says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BudgetError",
    "ClosedError",
    "EmbedderError",
    "EmbedderMismatchError",
    "FormatError",
    "InputError",
    "MessageError",
    "MissingExtraError",
    "NotAMemoryError",
    "StepError",
    "StorageError",
    "TinymemError",
]

DISTRIBUTION = "tinymem-agents"


class TinymemError(Exception):
    """The root: `except TinymemError` catches everything that tinymem raises on purpose."""


class InputError(TinymemError, ValueError):
    """An argument or a record is not what it should be."""


class StepError(InputError):
    """A step cannot be built from these values, or cannot be read back from this record."""


class MessageError(InputError):
    """A chat message is malformed; `index` is its place in the list that was given."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message if index is None else f"message {index}: {message}")
        self.index = index


class BudgetError(TinymemError, ValueError):
    """What must be in the prompt needs `needed` tokens, over the `budget`; `parts` says what costs how much."""

    def __init__(self, needed: int, budget: int, parts: Mapping[str, int]) -> None:
        listed = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
        super().__init__(
            f"{listed} need {needed} tokens, {needed - budget} more than the budget of {budget}: "
            "raise max_tokens, shorten them, or unpin steps"
        )
        self.needed, self.budget, self.parts = needed, budget, dict(parts)


class StorageError(TinymemError):
    """The memory's folder or one of its files cannot be used."""


class NotAMemoryError(StorageError):
    """The path exists and holds something that is not a tinymem memory."""


class ClosedError(StorageError):
    """The memory was closed; open it again."""


class FormatError(StorageError):
    """The file was written by a newer version of tinymem, or is damaged."""


class EmbedderMismatchError(StorageError):
    """The memory was written with embedder `stored` and opened with `given` (fingerprints): their vectors cannot be
    compared. `name` is how the given one is named."""

    def __init__(self, stored: str, given: str, name: str = "NAME") -> None:
        super().__init__(
            f"this memory was written with the embedder {stored}, and {given} was given; vectors of the two cannot be "
            f"compared: open it with the first, or make all vectors anew: tinymem reindex --embedder {name}"
        )
        self.stored, self.given = stored, given


class EmbedderError(TinymemError):
    """An embedder failed, or gave vectors of the wrong shape."""


class MissingExtraError(TinymemError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs a package that is not installed: pip install '{DISTRIBUTION}[{extra}]'")
        self.extra = extra

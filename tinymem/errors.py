"""The errors that tinymem raises, and reports of errors without content.

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
    │   ├── ReadOnlyError              the memory may only be read, and a call would write
    │   └── EmbedderMismatchError      written with another embedder; `.stored`, `.given`
    ├── EmbedderError                  an embedder failed, or gave vectors of the wrong shape
    ├── PruneError                     a strategy failed behind an add: what was added is in the memory
    └── MissingExtraError (ImportError)  an optional dependency is not installed; the message ends in the line to run

InputError and BudgetError are mistakes of the caller; the others come from the machine. Each message carries the
numbers and says what to do.
"""

from __future__ import annotations

import errno
import logging
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from math import inf
from pathlib import Path

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
    "PruneError",
    "ReadOnlyError",
    "StepError",
    "StorageError",
    "TakenError",
    "TinymemError",
    "describe_callable",
    "describe_type",
    "is_out_of_reach",
    "is_unwritable",
    "new_log_key",
    "safe_repr",
    "safe_summary",
    "safe_traceback",
    "undo_on_failure",
    "warn_hourly",
]

DISTRIBUTION = "tinymem-agents"
DEEPEST = 20  # causes of an error that are looked at
BUSY = (429, 500, 502, 503, 504)  # status codes of HTTP
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
DISK_FULL = "53100"  # of PostgreSQL
UNREACHABLE = (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH)


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
    """The parts that must be in the prompt do not fit.

    Attributes:
        needed: The tokens that they need.
        budget: The tokens that there are.
        parts: The tokens of each part, by its name.
    """

    def __init__(self, needed: int, budget: int, parts: Mapping[str, int]) -> None:
        listed = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
        super().__init__(
            f"{listed} need {needed} tokens, {needed - budget} more than the budget of {budget}: "
            "raise max_tokens, shorten them, or pin fewer steps"
        )
        self.needed, self.budget, self.parts = needed, budget, dict(parts)


class StorageError(TinymemError):
    """The memory's folder or one of its files cannot be used."""


class TakenError(StorageError):
    """Another process, or another memory of this one, has the index."""


class NotAMemoryError(StorageError):
    """The path exists and holds something that is not a tinymem memory."""


class ClosedError(StorageError):
    """The memory was closed; open it again."""


class FormatError(StorageError):
    """The file was written by a newer version of tinymem, or is damaged."""


class ReadOnlyError(StorageError):
    """The memory may only be read, and nothing of the call was written."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} may only be read, so nothing was written: make its folder and the files in it writable, free "
            "some disk space where there is none, or export the memory and import it where you may write"
        )


class EmbedderMismatchError(StorageError):
    """The memory was written with another embedder, whose vectors cannot be compared.

    Attributes:
        stored: The fingerprint of the embedder that it was written with.
        given: The fingerprint of the embedder that it was opened with.
    """

    def __init__(self, stored: str, given: str, name: str = "NAME", remembered: bool = False) -> None:
        # `remembered`: no embedder was given, and `name` is the one that the memory remembers.
        what = (
            f"which it remembers by the name {name}, and {given} is what that name gives now (the first had settings "
            "of its own, given in code, or the model has changed)"
            if remembered
            else f"and {given} was given"
        )
        super().__init__(
            f"this memory was written with the embedder {stored}, {what}; vectors of the two cannot be compared: open "
            f"it with the first (embedder=), or make all vectors again: tinymem reindex --embedder {name}"
        )
        self.stored, self.given = stored, given


class EmbedderError(TinymemError):
    """An embedder failed, or gave vectors of the wrong shape."""


class PruneError(TinymemError):
    """A strategy failed behind an add, or its outcome could not be written: what was added is in the memory."""

    def __init__(self, strategy: str, problem: str) -> None:
        super().__init__(
            f"what was added is in the memory, but pruning its window with {strategy} failed ({problem}): the next add "
            "tries again"
        )


class MissingExtraError(TinymemError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs a package that is not installed: pip install '{DISTRIBUTION}[{extra}]'")
        self.extra = extra


SAFE, SOURCES = (ImportError, OSError), ("builtins", "socket")  # their messages name files, packages and addresses
_WORD = re.compile(r"[\w.:-]{0,24}")


@contextmanager
def undo_on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the block fails, by an interrupt too."""
    try:
        yield
    except BaseException:
        undo()
        raise


def safe_summary(error: BaseException) -> str:
    """Describe `error` and the place where it was raised; with its message only if that cannot hold content.

    >>> safe_summary(ValueError("the password is 42"))
    'ValueError'
    """
    name = type(error).__name__
    if isinstance(error, TinymemError) or (isinstance(error, SAFE) and type(error).__module__ in SOURCES):
        return f"{name}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{name} in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else name


def is_out_of_reach(error: BaseException) -> bool:
    """Return True for an error that comes of a server or a network that is down: what failed may work another time.

    >>> is_out_of_reach(ConnectionRefusedError("nobody listens"))
    True
    """
    chain: BaseException | None = error
    for _ in range(DEEPEST):
        if isinstance(chain, (ConnectionError, TimeoutError)) or type(chain).__name__ == "gaierror":
            return True
        if getattr(chain, "status_code", None) in BUSY or getattr(chain, "errno", None) in UNREACHABLE:
            return True
        chain = chain and (chain.__cause__ or chain.__context__)
    return False


def is_unwritable(error: BaseException) -> bool:
    """Return True for an error that comes of a disk without space, or of a memory that may only be read.

    >>> is_unwritable(OSError(errno.ENOSPC, "No space left on device"))
    True
    """
    cause: BaseException | None = error
    for _ in range(DEEPEST):
        if getattr(cause, "errno", None) in NO_SPACE or getattr(cause, "sqlstate", None) == DISK_FULL:
            return True
        if isinstance(cause, ReadOnlyError) or "disk is full" in str(cause):
            return True
        cause = cause and cause.__cause__
    return False


def safe_traceback(error: BaseException) -> str:
    """Describe `error` as `safe_summary` does, below the lines of code that led there."""
    return "".join(traceback.format_tb(error.__traceback__)) + safe_summary(error)


def describe_callable(called: object) -> str:
    """Return the name of a callable, without the object that it is bound to.

    >>> describe_callable(describe_callable), describe_callable(print)
    ('describe_callable', 'print')
    """
    return str(getattr(called, "__qualname__", type(called).__name__))


def safe_repr(value: object) -> str:
    """Show a wrong argument, if it is a number or a word; else its type and size.

    >>> safe_repr(-1), safe_repr("wizard"), safe_repr("the password is 42")
    ('-1', "'wizard'", 'a str of length 18')
    """
    if isinstance(value, (bool, int, float, datetime)) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return f"{value!r:.80}"
    return describe_type(value)


def describe_type(value: object) -> str:
    """Return the type and the size of a value that may hold content.

    >>> describe_type("the password is 42"), describe_type({"a": 1}), describe_type(None)
    ('a str of length 18', 'a dict of length 1', 'None')
    """
    if value is None:
        return "None"
    size = f" of length {len(value)}" if isinstance(value, (str, bytes, list, tuple, dict, set, frozenset)) else ""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}{size}"


HOUR = 3_600.0  # seconds for which a warning that was given is not given again
MOST = 4_096  # warnings that are remembered; of more, the oldest may come again early

_given: dict[tuple[str, str, str], float] = {}  # when each was given last, the oldest first
_lock = threading.Lock()
_places = count(1)


def new_log_key() -> str:
    """Make a new `where` for an object that belongs to no memory, as a summarizer of its own."""
    return f"object {next(_places)}"


def warn_hourly(
    logger: logging.Logger, where: object, message: str, *args: object, about: str = "", level: int = logging.WARNING
) -> None:
    """Log `message` % `args`, unless the same `message` was logged for the memory `where` within the last hour.

    `where` is compared by its text, as a folder is, so a memory that is opened again and again does not warn each time.
    `about` separates two sources of the same message, as two callbacks. A message that is held back is logged at DEBUG.
    """
    key, now = (str(where), about, message), time.monotonic()
    with _lock:
        is_due = now - _given.get(key, -inf) >= HOUR
        if is_due:
            _given.pop(key, None)
            _given[key] = now
        while len(_given) > MOST:
            del _given[next(iter(_given))]
    logger.log(level if is_due else logging.DEBUG, message, *args, stacklevel=2)

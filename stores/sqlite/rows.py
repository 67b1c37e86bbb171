"""What the journal gives and takes beside steps and passages, as rows."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Mark", "Outlined", "SummaryRow"]


class Mark(NamedTuple):
    """Up to where passages were made: those of all steps before `step`, and the first `passages` of that one."""

    step: int
    passages: int


class SummaryRow(NamedTuple):
    """A summary of the archived steps from `first` to `last`; level 1 is of steps, each other of those below it."""

    level: int
    first: int
    last: int
    session: str | None
    text: str


class Outlined(NamedTuple):
    """A step without its text."""

    number: int
    type: str
    session: str | None
    tokens: int
    window: bool

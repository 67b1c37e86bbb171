"""Findings of the doctor: faults, each with advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinymem.stores.journals import RECOVERY

__all__ = ["AGAIN", "BUSY", "FLUSH", "REBUILD", "REINDEX", "RESTORE", "Diagnosis", "Finding"]

RESTORE = f"keep a copy of the folder, then restore it from a backup or import an export; without either, {RECOVERY}"
REINDEX = "make all vectors again: tinymem reindex"
REBUILD = "make the index again, without embedding again: tinymem rebuild"
FLUSH = f"open the memory and flush it, which goes on where it stopped, or {REBUILD}"
AGAIN = "put that right, and run tinymem doctor again"
BUSY = "close that process, and run tinymem doctor again: the index was not looked at"


@dataclass(frozen=True)
class Finding:
    """A fault, and the advice about it."""

    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.problem}\n  -> {self.advice}"


@dataclass(frozen=True)
class Diagnosis:
    """The `findings` about a memory, and the `counts` of the items that were checked.

    The counts are steps, passages, terms (passages in the full-text index), dimensions, and in_index (passages that the
    index should hold).

    >>> Diagnosis().sound
    True
    """

    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """True if nothing was found."""
        return not self.findings

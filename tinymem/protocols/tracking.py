"""The hook by which an adapter tells what later steps took back of what earlier ones show.

An adapter takes notes of steps when their passages are made, outside of any transaction, and the journal keeps these
without knowing what they say. When passages are chosen for a block, it is asked what changed since in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from tinymem.steps.step import Part, Step

__all__ = ["NOTHING", "ChangeTracker", "Changes", "NoteSource", "PassageChange", "Span", "StepNote"]

# Of lines that are gone: start, end, and what says so; what passed later is said before a passage, in the place of none
Span: TypeAlias = tuple[int, int, str]


class StepNote(NamedTuple):
    """A note of what a step did to something, as a file: `key` finds the notes of the same, `data` is the adapter's.

    `place` orders the notes of a step.
    """

    step: int
    place: int
    key: str
    data: bytes


class PassageChange(NamedTuple):
    """Changes of a passage: the `spans` that are gone, and the number of the newest step that took some away.

    `is_all` where so little is left that it says nothing.
    """

    spans: tuple[Span, ...] = ()
    step: int = 0
    is_all: bool = False


NOTHING = PassageChange()


class NoteSource(Protocol):
    """The notes of steps, as a journal has them."""

    def notes_of(self, steps: Sequence[int]) -> list[StepNote]:
        """Return the notes of these steps, in order."""
        ...

    def notes_with(self, keys: Iterable[str]) -> list[StepNote]:
        """Return the notes with these keys, of all steps, in order."""
        ...


class Changes(Protocol):
    """The changes up to a step, for one question."""

    def expect(self, steps: Iterable[Step]) -> None:
        """Take note of steps that may be asked of: what is known of them is read at once, when one of them is."""
        ...

    def since(self, step: Step, parts: Sequence[Part], place: int, start: int, end: int) -> PassageChange:
        """Return what changed since of `[start, end)` in the part at a `place` of the `parts` of an expected step."""
        ...


@runtime_checkable
class ChangeTracker(Protocol):
    """Keeps track of what steps took back of others; any number of threads may use one.

    It may also have `progress_of(archive, session, max_tokens, *, allows)`, which makes the block of what a session
    did, of steps that it `allows`: a prompt of which the beginning went shows that, or nothing for "".
    """

    @property
    def name(self) -> str:
        """The name for `HierarchicalMemory(changes=...)`."""
        ...

    def notes_of(self, steps: Sequence[Step], before: Callable[[], Sequence[Step]]) -> list[StepNote]:
        """Return the notes of numbered steps, which are in order; `before` gives some steps before the first."""
        ...

    def changes(self, notes: NoteSource, last: int) -> Changes:
        """Return the changes that the steps up to the `last` made."""
        ...

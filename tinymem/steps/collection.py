"""StepCollection: the questions that every memory with a window of typed steps answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from tinymem.errors import InputError, safe_repr
from tinymem.steps.content import Content
from tinymem.steps.standins import newest_of
from tinymem.steps.step import STEP_TYPES, Step, StepT
from tinymem.steps.types import ActionStep, SystemPromptStep

__all__ = ["StepCollection", "Steps", "refuse_attribute"]

# What other libraries call a call of a memory: an error says what it is called here.
CALLS = {
    **dict.fromkeys(("search", "query", "retrieve", "similarity_search"), "recall(query)"),
    **dict.fromkeys(("get_all", "get_history", "list", "history"), "history()"),
    **dict.fromkeys(("delete", "remove"), "forget(id)"),
    **dict.fromkeys(("delete_all", "delete_user"), "forget_namespace(path, namespace)"),
    **dict.fromkeys(("insert", "append", "save"), "add(step)"),
    **dict.fromkeys(("count", "size"), "stats()"),
    "update": "correct(id, text)",
    "reset": "clear(), which empties the window alone, or forget_namespace(path, namespace)",
}


class Steps(tuple[Step, ...]):
    """The steps of a window as they were when it was asked for, equal to a list of the same steps."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def refuse_attribute(owner: object, name: str) -> Any:
    """Raise the AttributeError of a name that an object has not: it says what HierarchicalMemory calls it."""
    ours = f": a HierarchicalMemory has {CALLS[name]}" if name in CALLS else ""
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{ours}", name=name, obj=owner)


class StepCollection(ABC):
    """A window of typed steps. `len`, iteration and the methods concern the steps that are in it now."""

    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The window, oldest first."""

    @overload
    def get_steps_by_type(self, kind: type[StepT]) -> list[StepT]: ...
    @overload
    def get_steps_by_type(self, kind: str) -> list[Step]: ...
    def get_steps_by_type(self, kind: type[Step] | str) -> list[Any]:
        """Find the steps of one type, in order.

        Args:
            kind: The class, or its name: `ActionStep` or `"action"`.

        Raises:
            InputError: There is no such type.
        """
        cls = STEP_TYPES.get(kind) if isinstance(kind, str) else kind
        if not (isinstance(cls, type) and issubclass(cls, Step)):
            raise InputError(f"kind must be a step class or one of {', '.join(STEP_TYPES)}, not {safe_repr(kind)}")
        return [step for step in self.steps if isinstance(step, cls)]

    @property
    def system_prompt(self) -> Content | None:
        """The newest system prompt in the window, or None."""
        newest = newest_of(self.steps, SystemPromptStep)
        return None if newest is None else newest.content

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: copy its steps, open the folder of a "
            "HierarchicalMemory again, or use to_list and from_list of a MemoryManager"
        )

    @property
    def action_count(self) -> int:
        """The number of ActionSteps that are in the window (not: were ever added)."""
        return len(self.get_steps_by_type(ActionStep))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __bool__(self) -> bool:
        return True  # an empty memory is one all the same

"""StepCollection: the questions that every memory with a window of typed steps answers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isfunction, signature
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

from tinymem.errors import InputError, safe_repr
from tinymem.steps.content import Content
from tinymem.steps.standins import newest_of
from tinymem.steps.step import STEP_TYPES, Step, StepT
from tinymem.steps.types import ActionStep, SystemPromptStep

__all__ = ["StepCollection", "Steps", "naming_arguments", "refuse_attribute"]

ClassT = TypeVar("ClassT", bound=type)

# What other libraries call a call, or an argument, of a memory: an error says what it is called here.
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
ARGUMENTS = {  # the first of these that the call has
    **dict.fromkeys(("top_k", "n_results", "num_results", "limit", "n"), ("k", "limit", "max_tokens")),
    **dict.fromkeys(("token_budget", "token_limit", "max_token_limit", "budget"), ("max_tokens",)),
    **dict.fromkeys(("session_id", "thread_id", "conversation_id", "run_id", "chat_id"), ("session",)),
    **dict.fromkeys(("user_id", "agent_id", "app_id"), ("where", "metadata", "namespace")),
    **dict.fromkeys(("filter", "filters"), ("where",)),
    **dict.fromkeys(("memory_id", "step_id"), ("id", "ids")),
    **dict.fromkeys(("threshold", "score_threshold"), ("min_relevance",)),
}
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


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


def naming_arguments(cls: ClassT) -> ClassT:
    """Make the public calls of a class say what an argument that they do not have is called in them."""
    for name, member in list(vars(cls).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _naming(member))
    return cls


def _naming(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError as error:
            found = _UNEXPECTED.search(str(error))
            known = signature(function).parameters
            if found is None or found[1] not in given or found[1] in known:
                raise
            wanted = ARGUMENTS.get(found[1], ())
            ours = next((name for name in wanted if name in known), None)
            example = f"{{'{found[1]}': ...}}" if ours in ("where", "metadata") and found[1].endswith("_id") else "..."
            says = f": say {ours}={example}" if ours else ": open a memory with namespace=..." * ("namespace" in wanted)
            text = f"{function.__qualname__}() got an unexpected keyword argument '{found[1]}'{says}"
            raise TypeError(text) from None

    return called


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

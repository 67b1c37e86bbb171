"""What a memory tells its user about: steps that came, left the window or came back. Nothing can go wrong by it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tinymem.base import Step
from tinymem.errors import InputError
from tinymem.quiet import name_of, trace_of
from tinymem.recall.results import Recall
from tinymem.strategy import PruneReport

__all__ = ["Callbacks", "StepCallbacks"]

logger = logging.getLogger(__name__)

StepCallbacks: TypeAlias = Sequence[Callable[[Step], object]] | Mapping[type[Step], Callable[[Step], object]]


class Callbacks:
    """Calls what the user gave, each time when what it is told of is on disk.

    An exception in one is logged, with where it was raised but without its message, which might quote a step, and
    changes nothing: neither for the memory nor for the other callbacks.
    """

    def __init__(
        self,
        on_prune: Callable[[PruneReport], object] | None = None,
        on_archive: Callable[[Sequence[Step]], object] | None = None,
        on_recall: Callable[[Recall], object] | None = None,
        step_callbacks: StepCallbacks | None = None,
    ) -> None:
        self._on_prune = _callable("on_prune", on_prune)
        self._on_archive = _callable("on_archive", on_archive)
        self._on_recall = _callable("on_recall", on_recall)
        given = step_callbacks or ()
        by_type = given.items() if isinstance(given, Mapping) else ((Step, one) for one in given)
        self._on_step = [(kind, _callable("step_callbacks", one)) for kind, one in by_type]
        if wrong := [kind for kind, _ in self._on_step if not (isinstance(kind, type) and issubclass(kind, Step))]:
            raise InputError(f"step_callbacks must be by types of step, not by {wrong[0]!r:.80}")

    @property
    def wants_archived(self) -> bool:
        """Whether somebody is told of what is archived."""
        return self._on_archive is not None

    def added(self, steps: Sequence[Step]) -> None:
        """Tell of steps that are on disk now, one by one."""
        for step in steps if self._on_step else ():
            for kind, callback in self._on_step:
                if isinstance(step, kind):
                    _call(callback, step)

    def pruned(self, report: PruneReport) -> None:
        """Tell what left the window, or was shortened in it."""
        _call(self._on_prune, report)

    def archived(self, steps: Sequence[Step]) -> None:
        """Tell of steps that are in the archive only, from now on."""
        if steps:
            _call(self._on_archive, steps)

    def recalled(self, recall: Recall) -> None:
        """Tell what came back."""
        _call(self._on_recall, recall)


def _call(callback: Callable[[Any], object] | None, told: Any) -> None:
    try:
        if callback is not None:
            callback(told)
    except Exception as error:
        logger.error("the callback %s failed; nothing is lost\n%s", name_of(callback), trace_of(error))


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise InputError(f"{name} must be callable, not {value!r:.80}")
    return value

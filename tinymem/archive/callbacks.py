"""What a memory tells its user about: steps that came, left the window or came back. Nothing can go wrong by it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tinymem.errors import InputError, name_of, own_place, trace_of, warn_hourly
from tinymem.recall.results import Recall
from tinymem.steps.checks import a_callable, some
from tinymem.steps.step import Step
from tinymem.window.strategy import PruneReport

__all__ = ["Callbacks", "StepCallbacks"]

logger = logging.getLogger(__name__)

StepCallbacks: TypeAlias = Sequence[Callable[[Step], object]] | Mapping[type[Step], Callable[[Step], object]]


class Callbacks:
    """Calls what the user gave, each time when what it is told of is on disk.

    An exception in one is logged, once an hour for the memory `where`, with the place that raised it but without its
    message, which might quote a step, and changes nothing: neither for the memory nor for the other callbacks.
    """

    def __init__(
        self,
        on_prune: Callable[[PruneReport], object] | None = None,
        on_archive: Callable[[Sequence[Step]], object] | None = None,
        on_recall: Callable[[Recall], object] | None = None,
        step_callbacks: StepCallbacks | None = None,
        where: object = None,
    ) -> None:
        self._where = own_place() if where is None else where
        self._on_prune = a_callable("on_prune", on_prune)
        self._on_archive = a_callable("on_archive", on_archive)
        self._on_recall = a_callable("on_recall", on_recall)
        given = () if step_callbacks is None else step_callbacks
        if not isinstance(given, Mapping):
            some("step_callbacks", given)
        by_type = given.items() if isinstance(given, Mapping) else ((Step, one) for one in given)
        self._on_step = [(kind, a_callable("step_callbacks", one)) for kind, one in by_type]
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
                    self._call("step_callbacks", callback, step)

    def pruned(self, report: PruneReport) -> None:
        """Tell what left the window, or was shortened in it."""
        self._call("on_prune", self._on_prune, report)

    def archived(self, steps: Sequence[Step]) -> None:
        """Tell of steps that are in the archive only, from now on."""
        if steps:
            self._call("on_archive", self._on_archive, steps)

    def recalled(self, recall: Recall) -> None:
        """Tell what came back."""
        self._call("on_recall", self._on_recall, recall)

    def _call(self, kind: str, callback: Callable[[Any], object] | None, told: Any) -> None:
        try:
            if callback is not None:
                callback(told)
        except Exception as error:
            name, message = name_of(callback), "the callback %s failed; nothing is lost\n%s"
            about = f"{kind} {name}"
            warn_hourly(logger, self._where, message, name, trace_of(error), about=about, level=logging.ERROR)

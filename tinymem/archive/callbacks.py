"""Callbacks: functions of the user that are called when steps are added, leave the window or are recalled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tinymem.errors import InputError, describe_callable, new_log_key, safe_traceback, warn_hourly
from tinymem.recall.results import Recall
from tinymem.steps.checks import check_callable, check_iterable
from tinymem.steps.step import Step
from tinymem.window.strategy import PruneReport

__all__ = ["Callbacks", "StepCallbacks"]

logger = logging.getLogger(__name__)

StepCallback: TypeAlias = Callable[[Step], object]
StepCallbacks: TypeAlias = StepCallback | Sequence[StepCallback] | Mapping[type[Step], StepCallback]


@dataclass(frozen=True)
class Callbacks:
    """Functions that are called each time a change is on disk.

    An exception in a callback is logged once an hour, with the place that raised it but without its message, which
    might quote a step. It affects neither the memory nor the other callbacks.

    Args:
        on_prune: Called with the report of the steps that left the window or were shortened in it.
        on_archive: Called with steps that from now on are only in the archive.
        on_recall: Called with each recall.
        on_step: Called with each added step: one function, several, or one for each type of step.
        where: The memory that a failure is logged for; HierarchicalMemory sets it.

    Raises:
        InputError: A callback cannot be called.

    >>> Callbacks(on_step={Step: print}).on_archive is None
    True
    """

    on_prune: Callable[[PruneReport], object] | None = None
    on_archive: Callable[[Sequence[Step]], object] | None = None
    on_recall: Callable[[Recall], object] | None = None
    on_step: StepCallbacks = ()
    where: str = field(default_factory=new_log_key, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("on_prune", "on_archive", "on_recall"):
            check_callable(name, getattr(self, name))
        for kind, hook in self._by_type():
            check_callable("on_step", hook)
            if not (isinstance(kind, type) and issubclass(kind, Step)):
                raise InputError(f"the keys of on_step must be types of step, not {kind!r:.80}")

    def _by_type(self) -> list[tuple[type[Step], StepCallback]]:
        if isinstance(self.on_step, Mapping):
            return [*self.on_step.items()]
        if callable(self.on_step):
            return [(Step, self.on_step)]
        return [(Step, hook) for hook in check_iterable("on_step", self.on_step)]

    def added(self, steps: Sequence[Step]) -> None:
        """Call `on_step` with each of these steps, which are on disk by now."""
        by_type = self._by_type() if self.on_step else []
        for step in steps:
            for kind, callback in by_type:
                if isinstance(step, kind):
                    self._call("on_step", callback, step)

    def pruned(self, report: PruneReport) -> None:
        """Call `on_prune`."""
        self._call("on_prune", self.on_prune, report)

    def archived(self, steps: Sequence[Step]) -> None:
        """Call `on_archive`, if there are any steps."""
        if steps:
            self._call("on_archive", self.on_archive, steps)

    def recalled(self, recall: Recall) -> None:
        """Call `on_recall`."""
        self._call("on_recall", self.on_recall, recall)

    def _call(self, kind: str, callback: Callable[[Any], object] | None, news: Any) -> None:
        try:
            if callback is not None:
                callback(news)
        except Exception as error:
            name, message = describe_callable(callback), "the callback %s failed; nothing is lost\n%s"
            about = f"{kind} {name}"
            warn_hourly(logger, self.where, message, name, safe_traceback(error), about=about, level=logging.ERROR)

"""WindowVerbs: what a HierarchicalMemory does with its window, by the names that a MemoryManager has for it."""

from __future__ import annotations

from abc import abstractmethod

from tinymem.archive.durable_window import DurableWindow
from tinymem.messages.tokens import count_tokens
from tinymem.protocols import TokenCounter
from tinymem.steps.collection import StepCollection
from tinymem.steps.step import Message, Step, Style
from tinymem.stores.forking import ProcessLock
from tinymem.window.manager import MemoryManager
from tinymem.window.strategy import PruneReport, Prunes

__all__ = ["WindowVerbs"]


class WindowVerbs(StepCollection):
    """The part of a HierarchicalMemory that is about its window."""

    short_term: DurableWindow
    _lock: ProcessLock
    _counter: TokenCounter

    @abstractmethod
    def _check_open(self) -> None: ...

    @abstractmethod
    def _settle(self, added: int) -> None: ...

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the window, oldest first; `stats().steps` counts those of the archive too."""
        return self._shown().steps

    def to_messages(self, summary_mode: bool = False, style: Style = "auto") -> list[Message]:
        """Render the window as chat messages, whatever their tokens; `context` has a budget, and recalls."""
        return self._shown().to_messages(summary_mode, style)

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, counted by the memory's own counter."""
        return count_tokens(self.to_messages(), self._counter)

    def prune(self, strategy: Prunes | None = None) -> PruneReport:
        """Let `strategy`, or the memory's own, choose what stays in the window; what leaves it is archived.

        Raises InputError for what is no strategy, or returned no window; nothing has changed then.
        """
        with self._lock:
            self._check_open()
            report = self.short_term.prune(strategy)
            self._settle(0)
            return report

    def clear(self, keep_system: bool = False) -> PruneReport:
        """Empty the window, or all but its system prompts. The steps stay in the archive: `forget` removes them."""
        with self._lock:
            self._check_open()
            report = self.short_term.clear(keep_system)
            self._settle(0)
            return report

    def _shown(self) -> MemoryManager:
        """The window, as all processes that have the memory open left it."""
        with self._lock:
            self._check_open()
            self.short_term.catch_up()
            return self.short_term

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out; what was forgotten since stays away."""
        with self._lock:
            self._check_open()
            self.short_term.restore(report)

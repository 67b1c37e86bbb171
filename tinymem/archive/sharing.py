"""A MemoryManager whose window several processes share: it does as they do before it does something itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from tinymem.messages.chains import Held, Newest
from tinymem.steps.checks import some
from tinymem.steps.redaction import Redact, redacted
from tinymem.steps.step import Step
from tinymem.stores.forking import ProcessLock
from tinymem.window.manager import MemoryManager
from tinymem.window.strategy import PruneReport, Prunes

__all__ = ["SharedManager"]


class SharedManager(MemoryManager):
    """The window of `what`. `record` writes steps down and gives them numbers, `catch_up` calls `follow` and
    `follow_calls` for what others did. It holds what `redact` leaves of the steps that are added. `held` and `newest`
    say what was ever added, in the window or not."""

    def __init__(
        self,
        what: str,
        record: Callable[[Sequence[Step]], list[Step]],
        catch_up: Callable[[], object],
        strategy: Prunes,
        on_prune: Callable[[PruneReport], None],
        redact: Redact | None = None,
        *,
        held: Held,
        newest: Newest,
    ) -> None:
        self._record, self._catch_up, self._redact = record, catch_up, redact
        self._all_held, self._newest_of_all = held, newest
        super().__init__(None, strategy, 0, on_prune=on_prune)
        self._lock = ProcessLock(what)

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Append what `redact` leaves of several steps: all of them, or none."""
        return super().add_steps([self._as_kept(step) for step in some("steps", steps)])

    def locked(self) -> AbstractContextManager[object]:
        """While it is held, no other thread changes the window."""
        return self._lock

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with super()._changing():
            self._catch_up()
            yield

    def _recorded(self, steps: list[Step]) -> list[Step]:
        return self._record(steps)

    def _as_kept(self, step: Step) -> Step:
        return redacted(step, self._redact)

    def _ids_held(self, ids: Sequence[str]) -> Collection[str]:
        return self._all_held(ids)

    def _head_of(self, session: str | None) -> str | None:
        return self._newest_of_all(session)

    def check(self, steps: Sequence[Step]) -> None:
        """Raise what `add_steps` would."""
        self._check_all(steps)

    def follow(self, gone: Collection[str], steps: Collection[Step], following: int) -> None:
        """Take the steps with the ids `gone` out, put `steps` in, each at its place, and go on counting from
        `following`, if that is further on."""
        with self._lock:
            self._next = max(self._next, following)
            if gone or steps:
                window = {id: step for id, step in self._window.items() if id not in gone}
                window.update((step.id, step) for step in steps)
                self._window = {
                    step.id: step for step in sorted(window.values(), key=lambda step: step.step_number or 0)
                }

    def follow_calls(self, ids: Iterable[str]) -> None:
        """Wait for the results of these calls, and no others."""
        with self._lock:
            self._open = set(ids)

"""Memories: thousands of namespaces in one process, with a bounded number of them open."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinymem.archive.folders import folder_name, namespaces, to_place
from tinymem.archive.remembered import name_at, remembered_embedder
from tinymem.errors import ClosedError, InputError, StorageError, safe_summary, warn_hourly
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Summarizer, Summarizes, TokenCounter
from tinymem.registry import check_store_spec, embedder_from, summarizer_from
from tinymem.stores.journals import shown_address

__all__ = ["Memories"]

logger = logging.getLogger(__name__)

MAX_OPEN = 64  # each takes three file descriptors, or about ten once it has an index in files
TIMEOUT = 30.0


class _Slot:
    """A namespace that is open, being opened (`memory` is None), or being closed (`leaves`); `users` have it now."""

    def __init__(self) -> None:
        self.memory: HierarchicalMemory | None = None
        self.users = 1
        self.leaves = False

    @property
    def is_idle(self) -> bool:
        return self.memory is not None and self.users == 0 and not self.leaves


class Memories:
    """The memories of many users, agents or tasks in the folder or database `path`, each a namespace of its own.

    `open` lends the memory of a namespace for a `with` block. At most `max_open` are open at any time: one that is not
    in use stays open until room is needed, then the least recently used one is closed. No namespace is open twice, so
    threads that ask for the same one share it. Where all are in use, another is waited for, up to `timeout` seconds.

    `options` are those of HierarchicalMemory, the same for all; embedder, counter and summarizer are made once and
    shared. Without an `embedder`, each namespace has the one that it remembers, and those of one name share it.
    `store` must be a name, since an object would hold the vectors of all. Safe to use from several threads.

    >>> import tempfile
    >>> from tinymem import MessageStep
    >>> with Memories(tempfile.mkdtemp(), max_open=2) as memories:
    ...     for name in ("ann", "bob", "cid"):
    ...         with memories.open(name) as memory:
    ...             step = memory.add(MessageStep("user", f"I am {name}."))
    ...     memories.namespaces(), len(memories)
    (['ann', 'bob', 'cid'], 2)

    Raises InputError for options that make no sense; what opening a HierarchicalMemory raises, `open` does.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_open: int = MAX_OPEN,
        timeout: float = TIMEOUT,
        embedder: str | Embedder | Embeds | None = None,
        store: str = "chroma",
        counter: TokenCounter | str | None = None,
        summarizer: str | Summarizer | Summarizes = "extractive",
        **options: Any,
    ) -> None:
        if isinstance(max_open, bool) or not isinstance(max_open, int) or max_open < 1:
            raise InputError(f"max_open must be a whole number of 1 or more, not {max_open!r:.80}")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
            raise InputError(f"timeout must be seconds of 0 or more, not {timeout!r:.80}")
        if "namespace" in options:
            raise InputError("namespace is given to open(), not to Memories: it holds all of them")
        self._where, self._max_open, self._timeout = to_place(path), max_open, timeout
        self.path = shown_address(self._where) if isinstance(self._where, str) else self._where
        self._options: dict[str, Any] = {
            "embedder": None if embedder is None else embedder_from(embedder),
            "store": _check_store_name(store),
            "counter": counter_from(counter),
            "summarizer": summarizer_from(summarizer),
            **options,
        }
        self._embedders: dict[str, Embedder] = {}  # those that namespaces remember, by name
        self._changed = threading.Condition()
        self._slots: dict[str, _Slot] = {}  # the least recently used one first
        self._closed = False

    @contextmanager
    def open(self, namespace: str) -> Iterator[HierarchicalMemory]:
        """Lend the memory of a namespace, made if it is not there (unless `create=False` is among the options).

        Use it inside the `with` block only: later it may be closed at any time.

        Raises:
            StorageError: No other can be closed to make room within `timeout` seconds.
            ClosedError: All were closed.
        """
        slot = self._borrow(namespace)
        try:
            assert slot.memory is not None
            yield slot.memory
        finally:
            self._give_back(namespace, slot)

    def namespaces(self) -> list[str]:
        """List the namespaces that are there, open or not, in order."""
        return namespaces(self._where)

    def close(self) -> None:
        """Close all memories, those in use once they are given back. Closing twice is no error.

        Raises what went wrong with the first of them; all are closed then.
        """
        with self._changed:
            self._closed = True
            idle = [(name, slot) for name, slot in self._slots.items() if slot.is_idle]
            for _, slot in idle:
                slot.leaves = True
            self._changed.notify_all()
        errors = [self._close(name, slot) for name, slot in idle]
        if error := next(filter(None, errors), None):
            raise error

    # -- lending ------------------------------------------------------------------------------------------------------

    def _borrow(self, namespace: str) -> _Slot:
        """Return the slot of `namespace`, with one user more."""
        folder_name(namespace)
        deadline = time.monotonic() + self._timeout
        while True:
            name, slot = self._find_place(namespace, deadline)
            if slot.leaves:  # another one, which makes room: its index is filled once it is open again
                self._close(name, slot, fills_index=False)
            elif slot.memory is None:
                return self._open_memory(namespace, slot)
            else:
                return slot

    def _find_place(self, namespace: str, deadline: float) -> tuple[str, _Slot]:
        """Return the slot of `namespace`, with one user more; or a new one; or that of another, to be closed first."""
        with self._changed:
            while not self._closed:
                slot = self._slots.get(namespace)
                if slot is None and len(self._slots) < self._max_open:
                    slot = self._slots[namespace] = _Slot()
                    return namespace, slot
                if slot is not None and slot.memory is not None and not slot.leaves:
                    slot.users += 1
                    self._slots[namespace] = self._slots.pop(namespace)
                    return namespace, slot
                if slot is None and (idle := next((entry for entry in self._slots.items() if entry[1].is_idle), None)):
                    idle[1].leaves = True
                    return idle
                self._wait(deadline)
            raise ClosedError(f"the memories at {self.path} are closed: open them again")

    def _wait(self, deadline: float) -> None:
        """Until something is opened, given back or closed."""
        if not self._changed.wait(min(max(0, deadline - time.monotonic()), threading.TIMEOUT_MAX)):
            raise StorageError(
                f"{len(self._slots)} namespaces of {self.path} were in use for {self._timeout:g} s: raise max_open "
                f"({self._max_open}), or leave their with blocks sooner"
            )

    def _open_memory(self, namespace: str, slot: _Slot) -> _Slot:
        try:
            options = {**self._options, "embedder": self._options["embedder"] or self._embedder_of(namespace)}
            memory = HierarchicalMemory(self._where, namespace=namespace, **options)
        except BaseException:
            self._remove(namespace)
            raise
        with self._changed:
            slot.memory = memory
            self._changed.notify_all()
        return slot

    def _embedder_of(self, namespace: str) -> Embedder:
        name = name_at(self._where, namespace)
        if name not in self._embedders:
            self._embedders.setdefault(name, remembered_embedder(name))
        return self._embedders[name]

    def _give_back(self, namespace: str, slot: _Slot) -> None:
        with self._changed:
            slot.users -= 1
            is_done = slot.memory is not None and (self._closed or slot.memory.closed)
            slot.leaves = slot.users == 0 and is_done
            self._changed.notify_all()
        if slot.leaves:
            self._close(namespace, slot)

    def _close(self, namespace: str, slot: _Slot, *, fills_index: bool = True) -> Exception | None:
        """Close a memory that leaves, without the lock, and log an error instead of raising it.

        Its files are closed in any case, and the error does not concern the caller, who wants another namespace.
        """
        try:
            assert slot.memory is not None
            slot.memory.long_term.indexing.in_background &= fills_index
            slot.memory.close()
        except Exception as error:
            warn_hourly(logger, self.path, "a namespace was closed, but %s", safe_summary(error))
            return error
        finally:
            self._remove(namespace)
        return None

    def _remove(self, namespace: str) -> None:
        with self._changed:
            del self._slots[namespace]
            self._changed.notify_all()

    def __len__(self) -> int:
        """The number of namespaces that are open."""
        return len(self._slots)

    def __enter__(self) -> Memories:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<Memories {self.path}: {len(self)} of at most {self._max_open} open{' closed' if self._closed else ''}>"
        )


def _check_store_name(store: str) -> str:
    """The name of a store; which one it is, is known once a memory is opened."""
    if not isinstance(store, str):
        raise InputError("store must be a name, as 'chroma': an object would hold the vectors of all namespaces")
    check_store_spec(store)
    return store

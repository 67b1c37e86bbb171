"""Memories: thousands of namespaces in one process, with a bounded number of them open."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinymem.archive.embedding import name_at, remembered_embedder
from tinymem.archive.folders import folder_name, namespaces, to_place
from tinymem.errors import ClosedError, InputError, safe_summary, warn_hourly
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Summarizer, Summarizes, TokenCounter
from tinymem.registry import check_store_spec, embedder_from, summarizer_from
from tinymem.steps.checks import check_non_negative_int
from tinymem.stores.journals import shown_address

__all__ = ["Memories"]

logger = logging.getLogger(__name__)

MAX_OPEN = 64  # each takes three file descriptors, or about ten once it has an index in files


class _Slot:
    """The place of a namespace: its memory, once it is open, and how many use it or wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held by who opens the memory
        self.memory: HierarchicalMemory | None = None
        self.users = 0


class Memories:
    """The memories of many users, agents or tasks in the folder or database `path`, each a namespace of its own.

    `open` lends the memory of a namespace for a `with` block. One that nobody uses stays open until there are more than
    `max_open`; then the least recently used one is closed. Those in use are never closed, so there are more of them
    while more are in use at once. Threads that ask for the same namespace share it.

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
        embedder: str | Embedder | Embeds | None = None,
        store: str = "chroma",
        counter: TokenCounter | str | None = None,
        summarizer: str | Summarizer | Summarizes = "extractive",
        **options: Any,
    ) -> None:
        if "namespace" in options:
            raise InputError("namespace is given to open(), not to Memories: it holds all of them")
        self._where, self._max_open = to_place(path), check_non_negative_int("max_open", max_open, 1)
        self.path = shown_address(self._where) if isinstance(self._where, str) else self._where
        self._embedder = None if embedder is None else embedder_from(embedder)
        self._options: dict[str, Any] = {
            "store": _check_store_name(store),
            "counter": counter_from(counter),
            "summarizer": summarizer_from(summarizer),
            **options,
        }
        self._embedders: dict[str, Embedder] = {}  # those that namespaces remember, by name
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}  # the least recently used one first
        self._closed = False

    @contextmanager
    def open(self, namespace: str) -> Iterator[HierarchicalMemory]:
        """Lend the memory of a namespace, made if it is not there (unless `create=False` is among the options).

        Use it inside the `with` block only: later it may be closed at any time.

        Raises:
            ClosedError: All were closed.
        """
        folder_name(namespace)
        with self._lock:
            if self._closed:
                raise ClosedError(f"the memories at {self.path} are closed: open them again")
            slot = self._slots[namespace] = self._slots.pop(namespace, _Slot())
            slot.users += 1
        try:
            self._close_idle()
            with slot.lock:
                if slot.memory is None or slot.memory.closed:
                    embedder = self._embedder or self._embedder_of(namespace)
                    slot.memory = HierarchicalMemory(
                        self._where, namespace=namespace, embedder=embedder, **self._options
                    )
            yield slot.memory
        finally:
            with self._lock:
                slot.users -= 1
            self._close_idle()

    def namespaces(self) -> list[str]:
        """List the namespaces that are there, open or not, in order."""
        return namespaces(self._where)

    def close(self) -> None:
        """Close all memories, those in use once they are given back. Closing twice is no error.

        Raises what went wrong with the first of them; all are closed then.
        """
        self._closed = True
        for error in self._close_idle():
            raise error

    # -- lending ------------------------------------------------------------------------------------------------------

    def _close_idle(self) -> list[Exception]:
        """Close those that nobody uses, the least recently used first, until there is room; return what went wrong."""
        leaving = []
        with self._lock:
            for name, slot in [*self._slots.items()]:
                is_full = self._closed or len(self._slots) > self._max_open
                if not slot.users and (is_full or slot.memory is None):
                    del self._slots[name]
                    leaving.append(slot.memory)
        errors: list[Exception] = []
        for memory in filter(None, leaving):
            try:
                memory.long_term.indexing.in_background &= self._closed  # who makes room waits for no index
                memory.close()
            except Exception as error:  # it does not concern who wants another namespace
                warn_hourly(logger, self.path, "a namespace was closed, but %s", safe_summary(error))
                errors.append(error)
        return errors

    def _embedder_of(self, namespace: str) -> Embedder:
        name = name_at(self._where, namespace)
        if name not in self._embedders:
            self._embedders.setdefault(name, remembered_embedder(name))
        return self._embedders[name]

    def __len__(self) -> int:
        """The number of namespaces that are open."""
        return len(self._slots)

    def __enter__(self) -> Memories:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._closed else f" max_open={self._max_open}"
        return f"<Memories {self.path}: {len(self)} open,{state}>"


def _check_store_name(store: str) -> str:
    """The name of a store; which one it is, is known once a memory is opened."""
    if not isinstance(store, str):
        raise InputError("store must be a name, as 'chroma': an object would hold the vectors of all namespaces")
    check_store_spec(store)
    return store

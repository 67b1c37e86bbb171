"""Opening of a memory: its place, which is made if it is not there, its options, and its parts, until it is closed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.folders import check_name, namespace_folder, open_shared_journal
from tinymem.errors import new_log_key, undo_on_failure
from tinymem.memory.aio.worker import Worker
from tinymem.memory.context.context import Shares
from tinymem.memory.context.contexts import Contexts
from tinymem.memory.context.fitting import Fitting
from tinymem.memory.filters import Filters, check_names
from tinymem.memory.reading import Reading
from tinymem.memory.scratchpad import KeptScratchpad
from tinymem.memory.upkeep import Upkeep
from tinymem.messages.tokens import counter_from
from tinymem.protocols import (
    ChangeTracker,
    Embedder,
    Embeds,
    Journal,
    Summarizer,
    Summarizes,
    TokenCounter,
    VectorStore,
)
from tinymem.recall.search import Search
from tinymem.registry import check_store_spec, embedder_from, summarizer_from, to_shared_store
from tinymem.steps.checks import (
    check_instance,
    check_number,
    check_strings,
    check_token_budget,
    to_path,
)
from tinymem.steps.collection import StepCollection
from tinymem.steps.content import Content, check_content
from tinymem.steps.redaction import Redact, redact_from
from tinymem.steps.step import Step
from tinymem.steps.terminal import pluralize
from tinymem.steps.types import SystemPromptStep
from tinymem.stores.journals import is_address
from tinymem.stores.temporary import private_folder
from tinymem.upkeep.forgetting import cleanup_on_failure
from tinymem.upkeep.retention import Retention
from tinymem.window.defaults import default_strategy, with_fallback
from tinymem.window.strategy import Pruner, check_strategy

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["MemoryOptions", "OpenMemory", "OpenedPlace", "open_place"]


class MemoryOptions(TypedDict, total=False):
    """Further options of a HierarchicalMemory, by name.

    Attributes:
        changes: What keeps track of what later steps took back of earlier ones: "coding" for files and commands of
            coding agents, which a new memory has unless another is given, a `ChangeTracker` or its name, or "none". A
            memory remembers it.
        shares: How much of a context each part gets.
        callbacks: Functions that hear of steps that were added, left the window, were archived or came back.
        retention: What is over these limits is forgotten when the memory is opened, and after every 1,000 steps or
            more; `retain` reports what goes.
        redact: Applied to every text before anything of it is written (see `tinymem.steps.redaction`), and to the
            `session` and `speaker` that are asked for. It must give the same for the same text; when it raises, the add
            is refused.
        extra_keys: Keys of messages that the provider wants back (see `tinymem.messages.repair`).
        cache: The price of a token that the provider's prompt cache serves, as a ratio to a fresh one: how far the
            prompts of a session jump follows from it. .1 unless given, 1 where nothing is cached.
    """

    changes: str | ChangeTracker | None
    shares: Shares
    callbacks: Callbacks
    retention: Retention | None
    redact: Redact | None
    extra_keys: Collection[str]
    cache: float


@dataclass(frozen=True)
class OpenedPlace:
    """The place of a namespace.

    Attributes:
        path: The folder of all namespaces; of a database, this host's folder for what is derived from it.
        folder: The folder of this namespace.
        journal: The journal, where it is in a database.
        shown: The place in words.
        logged: The place as warnings have it, which are given once an hour for each.
        remove: Removes the folder of a memory for this process alone; None for any other.
    """

    path: Path
    folder: Path
    journal: Journal | None
    shown: str
    logged: str
    remove: Callable[[], object] | None = None


@contextmanager
def open_place(owner: object, path: str | Path | None, namespace: str, create: bool) -> Iterator[OpenedPlace]:
    """Open the place of a namespace for `owner`; without a `path`, one for as long as the owner lives.

    What was made for it is removed again where the block fails.
    """
    if is_address(path):
        with open_shared_journal(str(path), namespace, create) as (folder, journal):
            yield OpenedPlace(folder, folder, journal, journal.location, journal.location)
        return
    remove = None
    if path is None:
        path, remove = private_folder(owner)
    path = to_path("path", path)
    shown = f"{path} namespace={namespace!r}" if remove is None else "in this process"
    with cleanup_on_failure(path, namespace, remove):
        folder = namespace_folder(path, namespace, create)
        yield OpenedPlace(path, folder, None, shown, shown if remove is None else new_log_key(), remove)


class OpenMemory(StepCollection):
    """A memory that is open in this process: its parts, from its constructor to `close`."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        namespace: str = "default",
        max_tokens: int = 16_000,
        window_tokens: int | None = None,
        prune_strategy: Pruner | None = None,
        system_prompt: Content | None = None,
        embedder: str | Embedder | Embeds | None = None,
        store: str | VectorStore = "chroma",
        counter: TokenCounter | str | None = None,
        summarizer: str | Summarizer | Summarizes = "extractive",
        create: bool = True,
        **options: Unpack[MemoryOptions],
    ) -> None:
        check_names("option", options, MemoryOptions)
        self.max_tokens = check_token_budget("max_tokens", max_tokens)
        tokens = max_tokens // 2 or 1 if window_tokens is None else window_tokens
        self.window_tokens = check_token_budget("window_tokens", tokens)
        self.shares = check_instance("shares", options.get("shares", Shares()), Shares)
        callbacks = check_instance("callbacks", options.get("callbacks", Callbacks()), Callbacks)
        if prune_strategy is not None:
            check_strategy("prune_strategy", prune_strategy)
        counter = counter_from(counter)
        redact = redact_from(options.get("redact"))
        text = None if system_prompt is None else check_content(system_prompt, "system_prompt") or ""
        embedder = None if embedder is None else embedder_from(embedder)
        store = check_store_spec(to_shared_store(store) if is_address(path) else store)
        summarizer = summarizer_from(summarizer)
        self.namespace, self._worker = namespace, Worker()
        self._store_name = store if isinstance(store, str) else store.name
        with open_place(self, path, namespace, create) as place:
            self.path, self._place = place.path, place
            folder, journal = place.folder, place.journal
            archive = Archive(
                folder, embedder, store, counter, create=create, journal=journal, changes=options.get("changes")
            )
            with undo_on_failure(archive.journal.close):
                check_name(archive.journal, namespace)
                usual = default_strategy(self.window_tokens, archive.prices, folder)
                strategy = with_fallback(prune_strategy, usual, folder)
                self._callbacks = callbacks = replace(callbacks, where=place.logged)
                self.short_term = DurableWindow(archive, strategy, callbacks, redact)
                self.medium_term = Episodes(archive, summarizer, is_shown=self.shares.episodes > 0)
                self.long_term = archive
                self._make_parts(redact, options)
                if text is not None:
                    self.short_term.begin_with(SystemPromptStep(text))
                self._upkeep.finish(0)
                archive.indexing.begin(self.medium_term.catch_up)

    def _make_parts(self, redact: Redact | None, options: MemoryOptions) -> None:
        """Make what works on the three tiers."""
        window, archive = self.short_term, self.long_term
        self._lock = window.lock
        self._scratchpad = KeptScratchpad(archive, self.archive, redact, self._lock.while_open)
        self._filters = Filters(archive.journal, redact)
        self._reading = Reading(archive, self.namespace, self._lock.while_open)
        self._search = Search(archive)
        self._fitting = Fitting(window, archive)
        self._upkeep = Upkeep(
            window, archive, check_instance("retention", options.get("retention"), Retention, or_none=True)
        )
        self._contexts = Contexts(
            window,
            self.medium_term,
            archive,
            scratchpad=self._scratchpad.memory,
            search=self._search,
            extra_keys=check_strings("extra_keys", options.get("extra_keys", ())),
            while_open=self._lock.while_open,
            cache=check_number("cache", options.get("cache", 0.1), 0, 1),
        )

    @abstractmethod
    def archive(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps that never stand in the window."""

    def close(self) -> None:
        """Embed and index what is left, and release all files. In a forked child, or a second time, nothing happens."""
        if self._lock.inherited:
            return
        with self._lock:
            if not self._lock.is_closed:
                self._lock.is_closed = True
                try:
                    self._scratchpad.keep()
                finally:
                    remove = self._place.remove
                    self.long_term.indexing.in_background &= remove is None  # what goes in a moment needs no index
                    self.long_term.close()
                    if remove is not None:
                        remove()
                    self._worker.end()

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._lock.is_closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.closed else f": {pluralize(len(self), 'step')} in the window"
        return f"<{type(self).__name__} {self._place.shown}{state}>"

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the window, oldest first; `stats().steps` counts those of the archive too."""
        with self._lock.while_open():
            self.short_term.catch_up()
            return self.short_term.steps

"""HierarchicalMemory: steps in, and prompts with what is recalled of them out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tinymem.archive.archive import Archive
from tinymem.archive.callbacks import Callbacks
from tinymem.archive.durable_window import DurableWindow
from tinymem.archive.episodes import Episodes
from tinymem.archive.folders import check_name, namespace_folder, shared_journal
from tinymem.archive.temporary import private_folder
from tinymem.errors import MessageError, own_place
from tinymem.memory.base import Conflict
from tinymem.memory.context.context import Shares
from tinymem.memory.contexts import ContextMemory
from tinymem.memory.tracing import traced
from tinymem.messages.formats import chat_messages
from tinymem.messages.tokens import counter_from
from tinymem.protocols import Embedder, Embeds, Journal, Summarizer, Summarizes, TokenCounter, VectorStore
from tinymem.recall.render import is_own_message
from tinymem.registry import embedder_from, is_in_memory, known_store, shared_store, store_from, summarizer_from
from tinymem.steps.checks import Time, a_path, an_object, some, some_texts, some_tokens
from tinymem.steps.content import Content, checked
from tinymem.steps.redaction import Redact, redact_from
from tinymem.steps.step import STYLES, Step, StepT
from tinymem.steps.terminal import many
from tinymem.steps.types import SystemPromptStep
from tinymem.stores.journals import is_address
from tinymem.upkeep.forgetting import undone_on_failure
from tinymem.upkeep.retention import Retention
from tinymem.window.defaults import always_pruned, default_strategy
from tinymem.window.manager import OnConflict
from tinymem.window.sending import Sending
from tinymem.window.strategy import Prunes, a_strategy

__all__ = ["HierarchicalMemory"]


class HierarchicalMemory(ContextMemory):
    """A memory in a folder that outlives the context window of an agent, and its process.

    Steps that are added are durable when `add` returns. The newest stay in a window that a strategy keeps short; what
    leaves it is archived and comes back by `context` and `recall`. Opened again, a memory goes on where it was.

    Any number of threads may use one, and any number of processes may each open the same: they see one window, and what
    one adds, prunes or forgets, the others find so with their next call. Only the scratchpad is each one's own: what is
    kept is that of the process that wrote it last. Its index belongs to one of them at a time, which closes it when
    it is idle or another one forgets. A forked child must open the memory itself.

    While the embedder fails, `context` and `recall` go on with words alone and say so, and the steps that wait are
    embedded once it works. Messages are kept as they came, and contexts hold what OpenAI's API accepts of them.

    Args:
        path: The folder, or the address of a PostgreSQL database, `"postgresql://..."`, that any number of hosts share
            (see docs/scaling.md). Without one the memory is for this process alone, and nothing of it stays on disk.
        namespace: Whose memory it is: a folder of its own, so that nothing crosses it.
        max_tokens: The tokens of a context, unless `context` is given others.
        window_tokens: The tokens of the window, about: half of `max_tokens` unless given.
        prune_strategy: Keeps the window short; by default the newest steps within `window_tokens` stay.
        system_prompt: The first step, unless the window shows the same.
        embedder: An adapter or its name (see `tinymem.registry`). A memory remembers its embedder's name and opens with
            it when none is given; a new one with "static".
        store: A vector store or its name.
        counter: A TokenCounter, or the name of a tiktoken encoding or of a model (`"gpt-4o"`).
        summarizer: A summarizer or its name.
        shares: How much of a context each part gets.
        callbacks: Functions that hear of steps that were added, left the window, were archived or came back.
        retention: What is over these limits is forgotten when the memory is opened, and after every 1,000 steps or
            more; `retain` reports what goes.
        redact: Applied to every text before anything of it is written (see `tinymem.steps.redaction`), and to the
            `session` and `speaker` that are asked for. It must give the same for the same text; when it raises, the add
            is refused.
        extra_keys: Keys of messages that the provider wants back (see `tinymem.messages.repair`).
        create: Make the memory if it is not there.

    Raises:
        NotAMemoryError: The path holds something else.
        EmbedderMismatchError: The memory was written with another embedder.
        StorageError: The folder cannot be written.

    >>> import tempfile
    >>> with HierarchicalMemory(tempfile.mkdtemp(), max_tokens=2_000) as memory:
    ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
    ...     "10.0.0.7" in memory.recall("Where is staging?", max_tokens=100).text
    True
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        namespace: str = "default",
        max_tokens: int = 8_000,
        window_tokens: int | None = None,
        prune_strategy: Prunes | None = None,
        system_prompt: Content | None = None,
        embedder: str | Embedder | Embeds | None = None,
        store: str | VectorStore = "chroma",
        counter: TokenCounter | str | None = None,
        summarizer: str | Summarizer | Summarizes = "extractive",
        shares: Shares = Shares(),  # noqa: B008 (it is frozen)
        callbacks: Callbacks = Callbacks(),  # noqa: B008 (it is frozen)
        retention: Retention | None = None,
        redact: Redact | None = None,
        extra_keys: Collection[str] = (),
        create: bool = True,
    ) -> None:
        self.max_tokens = some_tokens("max_tokens", max_tokens)
        self.window_tokens = some_tokens(
            "window_tokens", max_tokens // 2 or 1 if window_tokens is None else window_tokens
        )
        self.shares = an_object("shares", shares, Shares)
        an_object("retention", retention, Retention, or_none=True)
        counter, redact = counter_from(counter), redact_from(redact)
        keys = some_texts("extra_keys", extra_keys)
        self._sending = {style: Sending(counter, style, keys) for style in STYLES}
        if prune_strategy is not None:
            a_strategy("prune_strategy", prune_strategy)
        strategy = prune_strategy or default_strategy(self.window_tokens, counter)
        prompt = None if system_prompt is None else SystemPromptStep(checked(system_prompt, "system_prompt") or "")
        embedder = None if embedder is None else embedder_from(embedder)
        is_shared = is_address(path)
        store, summarizer = known_store(shared_store(store) if is_shared else store), summarizer_from(summarizer)
        an_object("callbacks", callbacks, Callbacks)
        self._remove_folder: Callable[[], object] | None = None
        self._is_private = path is None
        if path is None:
            path, self._remove_folder = private_folder(self)
        with ExitStack() as stack:
            journal: Journal | None = None
            if is_shared:
                folder, journal = stack.enter_context(shared_journal(str(path), namespace, create))
                path, self._shown = folder, journal.location
            else:
                path = a_path("path", path)
                stack.enter_context(undone_on_failure(path, namespace, self._remove_folder))
                folder = namespace_folder(path, namespace, create)
                self._shown = "in this process" if self._is_private else f"{path} namespace={namespace!r}"
            where = self._shown if is_shared else f"{path} {namespace}"
            self._callbacks = replace(callbacks, where=own_place() if self._is_private else where)
            opener = partial(store_from, store, folder / "index")
            kind = {"reopens": isinstance(store, str), "in_memory": is_in_memory(store)}
            archive = Archive(folder, embedder, opener, counter, create=create, journal=journal, **kind)
            try:
                check_name(archive.journal, namespace)
                strategy = always_pruned(strategy, self.window_tokens, counter, folder)
                window = DurableWindow(archive, strategy, self._callbacks, redact)
                super().__init__(
                    path,
                    namespace,
                    window,
                    Episodes(archive, summarizer),
                    archive,
                    store_name=store if isinstance(store, str) else store.name,
                    retention=retention,
                    redact=redact,
                )
                self._read_from(archive, window)
                if prompt is not None:
                    window.begin_with(prompt)
                self._settle(0)
                self._forgetting.finish()
                archive.begin_background(self.medium_term.catch_up)
            except BaseException:
                archive.journal.close()
                raise

    # -- in -----------------------------------------------------------------------------------------------------------

    def add(self, step: Step) -> Step:
        """Add one step; when this returns it is on disk.

        Returns:
            The copy that is held, with its number.

        Raises:
            InputError: It is no step, or is in the memory already.
            MessageError: It is a tool's result whose call is not open.

        The memory is then as it was.
        """
        return self.add_steps([step])[0]

    @traced("create_memory")
    def add_steps(self, steps: Sequence[Step], *, on_conflict: Conflict = "error") -> list[Step]:
        """Add steps in one transaction: all of them, or none when one is refused. Errors as in `add`.

        Args:
            steps: The steps.
            on_conflict: For a step whose id is in the memory: `"error"` refuses it, `"skip"` leaves it out, `"replace"`
                forgets the one that is there and adds this one as the newest. Nobody sees the memory without either.

        Returns:
            The steps that were added.

        >>> from tinymem import MessageStep
        >>> with HierarchicalMemory() as memory:
        ...     for port in (80, 8443):
        ...         step = MessageStep("user", f"The port is {port}.", id="port")
        ...         added = memory.add_steps([step], on_conflict="replace")
        ...     [step.text for step in memory.steps]
        ['The port is 8443.']
        """
        if on_conflict != "error":
            return self._added(steps, on_conflict, self.short_term.add_steps, self.short_term.add_instead)
        self._check_open()
        with self.short_term.adding(steps) as added:
            self._settle(len(added))
        self._forgetting.finish()
        return added

    @traced("create_memory")
    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: Time | None = None,
        on_conflict: OnConflict = "add",
        format: str | None = None,
    ) -> list[Step]:
        """Add chat messages as steps: all of them, or none when one is malformed.

        Blocks that this memory recalled earlier are left out, so a prompt can be added back as it was sent.

        Args:
            messages: What was sent and answered.
            session: The conversation that they belong to.
            timestamp: When they were said; now unless given.
            on_conflict: With "skip", the messages are the whole history of the session, and only what is new in it is
                added, though it was cut or edited since (see `tinymem.messages.recognition`).
            format: `"openai"`, `"anthropic"` or `"responses"`, as for `fit`; by default known by their shape.

        Returns:
            The steps that were added.

        Raises:
            MessageError: A message is malformed; the error names its index.

        >>> import tempfile
        >>> history = [{"role": "user", "content": "The staging server is at 10.0.0.7."}]
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     [len(memory.add_messages(history, session="s1", on_conflict="skip")) for _ in range(2)]
        [1, 0]
        """
        with self._opened():
            key = self.long_term.key
            own = {
                at: message
                for at, message in enumerate(some("messages", chat_messages(messages, format)))
                if not is_own_message(message, key)
            }
            try:
                added = self.short_term.add_messages(
                    own.values(), session=session, timestamp=timestamp, on_conflict=on_conflict
                )
                self._settle(len(added))
            except MessageError as error:
                if error.index is None or [*own][error.index] == error.index:
                    raise
                raise MessageError(str(error).partition(": ")[2], [*own][error.index]) from error
        self._forgetting.finish()
        return added

    def add_message(self, role: str, content: Content | None, **more: Any) -> Step:
        """Add one chat message, and get its step; see `MemoryManager.add_message` for the arguments and errors.

        >>> with HierarchicalMemory() as memory:
        ...     memory.add_message("user", "Which port is it?", speaker="Ann")
        <MessageStep #1: Which port is it?>
        """
        with self._opened():
            step = self.short_term.add_message(role, content, **more)
            self._settle(1)
        self._forgetting.finish()
        return step

    def as_kept(self, step: StepT) -> StepT:
        """Return a step as it is written down: what `redact` leaves of it."""
        return self.short_term.as_kept(step)

    def close(self) -> None:
        """Embed and index what is left, and release all files. In a forked child, or a second time, nothing happens."""
        if self._lock.inherited:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                try:
                    self._scratchpad.keep()
                finally:
                    if self._is_private:  # what is gone in a moment
                        self.long_term.in_background = False
                    self.long_term.close()
                    if self._remove_folder is not None:
                        self._remove_folder()
                    if self._worker is not None:
                        self._worker.end()

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._closed

    def __enter__(self) -> HierarchicalMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        held = " closed" if self._closed else f": {many(len(self), 'step')} in the window"
        return f"<HierarchicalMemory {self._shown}{held}>"

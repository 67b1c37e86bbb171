"""HierarchicalMemory: the window, the episodes and the archive as one memory that outlives the context window."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tinymem.archive import BATCH, INDEX_BATCH, Archive
from tinymem.base import Step
from tinymem.content import Content, as_text, clean
from tinymem.context import Context, assemble, current_task
from tinymem.episodes import Episodes
from tinymem.errors import BudgetError, ClosedError, EmbedderError, InputError, StorageError
from tinymem.folders import namespace_folder
from tinymem.ids import utc_now
from tinymem.manager import MemoryManager, PruneReport
from tinymem.messages import groups
from tinymem.protocols import Embedder, TokenCounter, VectorStore
from tinymem.pruning import PruneStrategy, keep_last_n_steps, token_budget
from tinymem.recall import Recall
from tinymem.recall.fusion import Fusion
from tinymem.recall.render import is_block
from tinymem.recall.scoring import Filter
from tinymem.registry import embedder_from, store_from
from tinymem.serialization import dump_step, load_step
from tinymem.steps import SystemPromptStep
from tinymem.tokens import counter_from

__all__ = ["HierarchicalMemory", "Stats"]

logger = logging.getLogger(__name__)

WINDOW_SHARE = 0.5  # the window's part of a context, after the fixed steps
LOW_WATER = 2 / 3  # of the window's tokens, to which a pruning goes, so that its start moves in jumps
QUERY_GROUPS = 2  # newest groups that a context without a query asks for
QUERY_LENGTH = 6_000  # characters of them, from the end


@dataclass(frozen=True)
class Stats:
    """What a namespace holds. Tokens are those of steps as sent; `indexed` is how many vectors the store has."""

    namespace: str
    steps: int
    window_steps: int
    archived_steps: int
    passages: int
    embedded: int
    tokens: int
    window_tokens: int
    embedder: str
    store: str
    bytes_on_disk: int


class HierarchicalMemory:
    """A memory in the folder `path`, for one `namespace` (a folder of its own: nothing crosses it).

    Steps that are added are durable when `add` returns. The newest stay in a window of about `window_tokens` (half of
    `max_tokens` unless given), which `prune_strategy` keeps; what leaves it is archived and comes back by `context`
    and `recall`. Opened again, a memory goes on where it was.

    `embedder` and `store` are adapters or their names (see `tinymem.registry`); `counter` is a TokenCounter or the name
    of a tiktoken encoding. With `create=False` the memory must be there.

    >>> import tempfile
    >>> with HierarchicalMemory(tempfile.mkdtemp(), max_tokens=2_000) as memory:
    ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
    ...     "10.0.0.7" in memory.recall("Where is staging?", max_tokens=100).text
    True

    Raises NotAMemoryError for a path that holds something else, EmbedderMismatchError for a memory written with
    another embedder, StorageError for a folder that cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        namespace: str = "default",
        max_tokens: int = 8_000,
        window_tokens: int | None = None,
        prune_strategy: PruneStrategy | None = None,
        system_prompt: Content | None = None,
        embedder: str | Embedder = "static",
        store: str | VectorStore = "chroma",
        counter: TokenCounter | str | None = None,
        fusion: Fusion | None = None,
        create: bool = True,
    ) -> None:
        self.max_tokens = _positive("max_tokens", max_tokens)
        self.window_tokens = _positive("window_tokens", max_tokens // 2 if window_tokens is None else window_tokens)
        self.path, self.namespace = Path(path), namespace
        self._lock = threading.RLock()
        self._closed = False
        self._counter = counter_from(counter)
        folder = namespace_folder(self.path, namespace, create)
        self._store_name = store if isinstance(store, str) else store.name
        self.long_term = Archive(
            folder,
            embedder_from(embedder),
            lambda: store_from(store, folder / "index"),
            self._counter,
            create=create,
            fusion=fusion,
        )
        self.medium_term = Episodes(self.long_term)
        strategy = prune_strategy or token_budget(
            self.window_tokens, low_water=int(self.window_tokens * LOW_WATER), counter=self._counter, tasks="current"
        )
        try:
            self._open_window(strategy)
            if system_prompt is not None and self.short_term.system_prompt != system_prompt:
                self.add(SystemPromptStep(system_prompt))
        except BaseException:
            self.long_term.journal.close()
            raise

    def _open_window(self, strategy: PruneStrategy) -> None:
        rows = self.long_term.journal.window()
        self._positions = {row.id: row.position for row in rows}
        self.short_term = MemoryManager.from_steps(
            [load_step(row.view or row.record) for row in rows],
            next_number=self.long_term.journal.next_number(),
            prune_strategy=strategy,
            auto_prune_at=None,
            on_add=self._journal,
            on_prune=self._unwindow,
        )

    # -- in -----------------------------------------------------------------------------------------------------------

    def add(self, step: Step) -> Step:
        """Add one step; when this returns it is on disk. The copy that is held, with its number, comes back.

        Raises InputError for what is no step or is in the memory already, and MessageError for a tool result whose
        call is not open; the memory is then as it was.
        """
        return self.add_steps([step])[0]

    def add_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Add steps in one transaction: all of them, or none when one is refused."""
        with self._lock:
            self._check_open()
            added = self.short_term.add_steps(steps)
            self._settle()
            return added

    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str | None = None,
        timestamp: datetime | None = None,
    ) -> list[Step]:
        """Add OpenAI chat messages as steps: all of them, or none when one is malformed (MessageError says which).

        Blocks that this memory recalled earlier are left out, so a prompt can be added back as it was sent.
        """
        with self._lock:
            self._check_open()
            key = self.long_term.key
            own = [m for m in messages if not (isinstance(m, Mapping) and is_block(as_text(m.get("content")), key))]
            added = self.short_term.add_messages(own, session=session, timestamp=timestamp)
            self._settle()
            return added

    def _journal(self, steps: Sequence[Step]) -> None:
        self._positions.update(self.long_term.write(steps))

    def _unwindow(self, report: PruneReport) -> None:
        self.long_term.journal.set_window([s.number for s in report.removed if s.number is not None], {})
        for step in report.removed:
            self._positions.pop(step.id, None)

    def _settle(self) -> None:
        """Prune, keep what the window shows of shortened steps, and embed and index once enough has come together."""
        try:
            report = self.short_term.prune()
        except BudgetError as error:  # pinned steps over the window's tokens: they and the newest stay, context says so
            logger.warning("the window cannot be kept within its tokens: %s", error)
            report = self.short_term.prune(keep_last_n_steps(1))
        if report.shortened:
            ids = {step.id for step in report.shortened}
            views = {s.number: dump_step(s) for s in self.short_term.steps if s.id in ids and s.number is not None}
            self.long_term.journal.set_window([], views)
        if report.removed:
            try:
                self.long_term.embed_pending(BATCH)
                self.long_term.index_pending(INDEX_BATCH)
            except (EmbedderError, StorageError) as error:  # the steps are safe; recall tries again, and raises
                logger.warning("archiving is behind: %s", error)

    def restore(self, report: PruneReport) -> None:
        """Put back into the window what a pruning took out."""
        with self._lock:
            self._check_open()
            self.short_term.restore(report)
            numbers = [s.number for s in (*report.removed, *report.shortened) if s.number is not None]
            self.long_term.journal.set_window([], dict.fromkeys(numbers))
            self._positions = {row.id: row.position for row in self.long_term.journal.window()}

    # -- out ----------------------------------------------------------------------------------------------------------

    def context(
        self, query: str | None = None, *, max_tokens: int | None = None, now: datetime | None = None
    ) -> Context:
        """The messages to send, of at most `max_tokens` (the memory's own unless given), valid for the chat APIs.

        System prompt, current task and pinned steps are always in, then the window's newest groups, and what of the
        rest bears on `query` (unless given, the current task and the newest steps) in one block before the newest
        group. `now` is when it is asked. Raises BudgetError when the first three alone do not fit.
        """
        with self._lock:
            self._check_open()
            steps = self.short_term.steps
            asked = self._default_query(steps) if query is None else query
            when = now or utc_now()

            def recall(tokens: int, shown: Collection[int]) -> Recall:
                return self.long_term.recall(asked, tokens, when, hidden=shown)

            return assemble(
                steps,
                self._positions,
                _positive("max_tokens", self.max_tokens if max_tokens is None else max_tokens),
                self._counter,
                recall,
                WINDOW_SHARE,
                complete=not self.long_term.journal.any_archived(),
            )

    @staticmethod
    def _default_query(steps: Sequence[Step]) -> str:
        task = current_task(steps)
        newest = [step.text for group in groups(steps)[-QUERY_GROUPS:] for step in group]
        return "\n".join([*([task.text[:QUERY_LENGTH]] if task else []), "\n".join(newest)[-QUERY_LENGTH:]])

    def recall(
        self,
        query: str,
        max_tokens: int = 1_000,
        *,
        now: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session: str | None = None,
        speaker: str | None = None,
    ) -> Recall:
        """What bears on `query`, in at most `max_tokens`, from every step of the namespace, in the window or not.

        `now` is when it is asked; `since`, `until` (aware), `session` and `speaker` are exact filters.
        """
        with self._lock:
            self._check_open()
            only = Filter(since, until, session, speaker)
            return self.long_term.recall(query, _positive("max_tokens", max_tokens), now or utc_now(), only=only)

    def get(self, id: str | int) -> Step:
        """The step with this id, or this number, whole. Raises InputError when there is none."""
        with self._lock:
            self._check_open()
            if isinstance(id, int):
                found = self.long_term.fetch([id]).get(id)
            else:
                numbers = self.long_term.journal.numbers([id])
                found = self.long_term.fetch(numbers).get(numbers[0]) if numbers else None
            if found is None:
                raise InputError(f"no step {id!r} in namespace {self.namespace!r}")
            return found

    def stats(self) -> Stats:
        """What the namespace holds."""
        with self._lock:
            self._check_open()
            counts = self.long_term.journal.counts()
            folder = self.long_term.journal.path.parent
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            return Stats(
                namespace=self.namespace,
                archived_steps=counts["steps"] - counts["window_steps"],
                embedder=self.long_term.embedder.name,
                store=self._store_name,
                bytes_on_disk=size,
                **counts,
            )

    # -- away ---------------------------------------------------------------------------------------------------------

    def forget(self, ids: Iterable[str] = (), *, session: str | None = None, before: datetime | None = None) -> int:
        """Remove steps for good, wherever they are: by id, of a session, or from before a time. How many there were.

        Text, vectors and terms are gone from every file when this returns; the index is made anew.
        """
        with self._lock:
            self._check_open()
            named = [ids] if isinstance(ids, str) else list(ids)
            if not named and session is None and before is None:
                raise InputError("say what to forget: ids, session or before")
            time = None if before is None else before.timestamp()
            numbers = self.long_term.journal.numbers(named, None if session is None else clean(session), time)
            if numbers:
                self.long_term.forget(numbers)
                self.short_term.drop(numbers)
            return len(numbers)

    def close(self) -> None:
        """Embed and index what is left, and release all files. Closing twice is no error."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.long_term.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the memory at {self.path} is closed: open it again")

    def __enter__(self) -> HierarchicalMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<HierarchicalMemory {self.path} namespace={self.namespace!r}{' closed' if self._closed else ''}>"


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a number of tokens of 1 or more, not {value!r}")
    return value

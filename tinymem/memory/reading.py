"""ReadingMemory: what comes out of a memory by itself: recall, the reasons, single steps, and tools for a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinymem.archive.callbacks import Callbacks
from tinymem.errors import InputError, shown
from tinymem.memory.base import BaseMemory
from tinymem.memory.filters import passes
from tinymem.memory.inspection.opening import opened
from tinymem.memory.tools import MemoryTool, memory_tools
from tinymem.memory.tracing import traced
from tinymem.recall import Explanation, Recall
from tinymem.recall.diversity import DIVERSITY
from tinymem.recall.render import one_line
from tinymem.recall.search import NEXT_BEST, Search
from tinymem.steps.checks import Time, a_number, a_text, an_aware_time, some_tokens, whole_number
from tinymem.steps.ids import utc_now

__all__ = ["ReadingMemory"]


class ReadingMemory(BaseMemory):
    """A memory that is searched."""

    max_tokens: int
    _callbacks: Callbacks
    _search: Search

    @traced("search_memory")
    def recall(
        self,
        query: str,
        max_tokens: int = 1_000,
        *,
        now: Time | None = None,
        since: Time | None = None,
        until: Time | None = None,
        session: str | None = None,
        speaker: str | None = None,
        tool: str | None = None,
        type: str | None = None,
        where: Mapping[str, Any] | None = None,
        ids: bool = False,
        diversity: float = DIVERSITY,
        k: int | None = None,
        min_relevance: float | None = None,
    ) -> Recall:
        """Return what bears on `query` from every step of the namespace, in the window or not.

        The budget is not filled at any price: where nothing fits a question well, what has nothing to do with it stays
        out. A question that names a rare identifier always brings back what holds it.

        Args:
            query: A question, a task, or a stretch of conversation.
            max_tokens: The most tokens of the block.
            now: When it is asked, and what dates in the query are reckoned from.
            since: Only steps of this moment or later.
            until: Only steps of this moment or earlier.
            session: Only steps of this session; `"team/*"` means all sessions that begin with `team/`.
            speaker: Only steps said by this speaker.
            tool: Only steps that call this tool.
            type: Only steps of this type, as in `"action"`.
            where: Only steps with these values in their metadata, as `{"user": "ann"}`.
            ids: Each excerpt begins with the number of its step (`#12`), by which `open` and `get` find it.
            diversity: With more of it, less of what repeats something better comes back: of two passages the worse is
                left out where their wordings resemble each other by 1 - `diversity` or more (Jaccard index); 0 keeps
                all.
            k: The most passages, the best ones; adjoining ones make one excerpt.
            min_relevance: The least `relevance` of a passage, 0 to 1; 0 leaves nothing out.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     step = memory.add_message("user", "Lunch is at noon.")
        ...     [item.text for item in memory.recall("Where is the staging server?", k=1).items]
        ['The staging server is at 10.0.0.7.']
        """
        with self._opened():
            only = self._filter(
                since=since, until=until, session=session, speaker=speaker, tool=tool, type=type, where=where
            )
            when = an_aware_time("now", now) or utc_now()
            budget = some_tokens("max_tokens", max_tokens)
            if not isinstance(ids, bool):
                raise InputError(f"ids must be True or False, not {shown(ids)}")
            if k is not None and whole_number("k", k) < 1:
                raise InputError(f"k must be 1 or more, not {shown(k)}")
            least = None if min_relevance is None else a_number("min_relevance", min_relevance, 0, 1)
        limits: dict[str, Any] = {"diversity": diversity, "ids": ids, "k": k, "min_relevance": least}
        found = self._search.recall(a_text("query", query), budget, when, only=only, **limits)
        self._callbacks.recalled(found)
        return found

    def open(self, id: str | int, start: int = 0, *, max_tokens: int = 1_000) -> str:
        """Return the text of one step from a character on, marked as data; a longer one says how to read on.

        Args:
            id: Its id or its number, as `recall(ids=True)` shows it: `"#12"`.
            start: The character to begin at.
            max_tokens: The most tokens.

        Raises:
            InputError: There is no such step, or it has not so many characters.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     "10.0.0.7" in memory.open("#1")
        True
        """
        budget, begin = some_tokens("max_tokens", max_tokens), whole_number("start", start)
        step = self.get(id)
        text = step.text
        if begin and begin >= len(text):
            raise InputError(f"start must be below {len(text)}, which is how many characters the step has")
        number = f"#{step.step_number}"
        return opened(
            text,
            begin,
            budget,
            head=f"[{number} {one_line(step.speaker or step.type)}, {step.timestamp:%Y-%m-%d %H:%M} UTC]",
            read_on=lambda end: f"open({number!r}, start={end})",
            key=self.long_term.key,
            counter=self.long_term.counter,
        )

    def tools(self, *, session: str | None = None, where: Mapping[str, Any] | None = None) -> list[MemoryTool]:
        """Return tools by which a model searches the memory: `search_memory` and `open_memory`.

        Each has a `schema` for the chat API, and a `call` that takes the arguments of the model's call; `acall` is the
        same for `await`. The answer is text, marked as data, and in words where the model made a mistake.

        Args:
            session: Only steps of this session; `"team/*"` means all sessions that begin with `team/`.
            where: Only steps with these values in their metadata, as `{"user": "ann"}`.

        >>> with HierarchicalMemory() as memory:
        ...     step = memory.add_message("user", "The staging server is at 10.0.0.7.")
        ...     search, read = memory.tools()
        ...     "10.0.0.7" in search.call(query="Where is staging?"), "10.0.0.7" in read.call(id="#1")
        (True, True)
        """
        filters = {"session": session, "where": where}
        self._filter(**filters)
        return memory_tools(self, filters, lambda step: passes(step, self._filter(**filters)))

    def explain(
        self, query: str, max_tokens: int = 1_000, *, now: Time | None = None, next_best: int = NEXT_BEST
    ) -> Explanation:
        """Explain what `recall` brings back for the same arguments: tokens, scores and each feature's part in them.

        The `next_best` passages follow, with the reason why each is left out. Print the result; rich shows it in
        colour. `tinymem.recall.features.FEATURES` says what each feature means.

        >>> import tempfile
        >>> with HierarchicalMemory(tempfile.mkdtemp()) as memory:
        ...     step = memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}])[0]
        ...     memory.explain("Where is staging?").recalled.items[0].step == step
        True
        """
        with self._opened():
            when, budget = an_aware_time("now", now) or utc_now(), some_tokens("max_tokens", max_tokens)
        return self._search.explain(a_text("query", query), budget, when, whole_number("next_best", next_best))

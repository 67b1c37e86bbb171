"""Explanations of what a question brings back, or a prompt that asks by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any

from tinymem.errors import InputError
from tinymem.memory.context.context import Shares
from tinymem.memory.context.contexts import Contexts
from tinymem.memory.context.fitting import Fitting, facts_about
from tinymem.memory.filters import Filters
from tinymem.recall import Excerpt, Explanation, Recall
from tinymem.recall.results import LeftOut
from tinymem.recall.search import Search
from tinymem.recall.selection.packing import UNRELATED
from tinymem.steps.checks import Time, check_non_negative_int, check_str, check_token_budget
from tinymem.stores.filter import Filter

__all__ = ["ExplainedSearch", "Explainer"]

BLOCK = 1_000  # tokens of a question's block unless others are given


class Explainer:
    """Explains what a memory recalls.

    Args:
        search: Finds what bears on a query.
        contexts: The prompts of the memory.
        fitting: The histories of its sessions.
        filters: Checks filters.
        while_open: Holds the lock of a memory that is open.
    """

    def __init__(
        self,
        search: Search,
        contexts: Contexts,
        fitting: Fitting,
        filters: Filters,
        while_open: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._search, self._contexts, self._fitting = search, contexts, fitting
        self._filters, self._while_open = filters, while_open

    def explain(self, query: str, max_tokens: int | None, now: Time | None, next_best: int, limits: Any) -> Explanation:
        """Explain what a question brings back."""
        budget = check_token_budget("max_tokens", BLOCK if max_tokens is None else max_tokens)
        with self._while_open():
            when, only = facts_about("", now, None).when, self._filters.make(**limits)
        count = check_non_negative_int("next_best", next_best)
        return self._search.explain(check_str("query", query), budget, when, count, only)

    def explain_prompt(
        self,
        query: str | None,
        messages: Any,
        session: str | None,
        max_tokens: int,
        shares: Shares,
        now: Time | None,
        next_best: int,
        filters: Mapping[str, Any],
    ) -> Explanation:
        """Explain what the prompt of a history recalls, or without `messages` that of the window."""
        asked = None if query is None else check_str("query", query)
        budget, count = check_token_budget("max_tokens", max_tokens), check_non_negative_int("next_best", next_best)
        if messages is not None and session is None:
            raise InputError("messages need the name of their session, as for fit")
        with self._while_open():
            only = self._filters.make(**filters)
            name = None if session is None else self._filters.name("session", session)
            about = facts_about(name or "", now, None)
            history = None if messages is None else self._fitting.take(messages, None, about, writes=False)[0]
        search = ExplainedSearch(self._search, count, only)
        contexts = self._contexts.with_search(search)
        if history is None:
            context = contexts.of_window(asked, budget, about.when, "auto", shares, name)
        else:
            context = contexts.of_history(history, asked, budget, about.when, "auto", shares, only)
        return replace(search.explanation(budget), in_window=context.corrections)


class ExplainedSearch:
    """A search for a prompt that is to be explained.

    Args:
        search: Finds what bears on a query.
        next_best: The passages that are named though they did not come back.
        only: The steps that it finds.
    """

    def __init__(self, search: Search, next_best: int, only: Filter) -> None:
        self._search, self._next_best, self._only = search, next_best, only
        self._found: dict[str, Explanation] = {}  # by query, in the order of asking

    def recall(
        self,
        text: str,
        budget: int,
        now: datetime,
        *,
        hidden: Collection[int] = (),
        only: Any = None,
        shown: Sequence[Excerpt] = (),
        **limits: Any,
    ) -> Recall:
        """Return what the search gives, and keep its explanation; `only` is known already."""
        if text in self._found:  # the prompt is put together again, with other room
            self._found = {}
        found = self._search.explain(text, budget, now, self._next_best, self._only, hidden, shown=shown, **limits)
        left_out = tuple(left for left in found.left_out if not _is_within(left.excerpt, shown))
        found = replace(found, left_out=left_out)
        self._found[text] = found if found.recalled.is_relevant else _without_excerpts(found)
        return found.recalled

    def explanation(self, budget: int) -> Explanation:
        """Return the explanation of the first query with those of the others; an empty one where nothing was asked."""
        if not self._found:
            return Explanation("", budget, Recall("", 0, ()), ())
        first, *others = self._found.values()
        return replace(first, also=tuple(others))


def _is_within(excerpt: Excerpt, shown: Sequence[Excerpt]) -> bool:
    same = (item for item in shown if (item.step.id, item.part) == (excerpt.step.id, excerpt.part))
    return any(item.start <= excerpt.start and excerpt.end <= item.end for item in same)


def _without_excerpts(found: Explanation) -> Explanation:
    """Return an explanation whose excerpts are left out: a prompt does without them where nothing is known."""
    dropped = tuple(LeftOut(item, rank, UNRELATED) for rank, item in enumerate(found.items, 1))
    empty = replace(found.recalled, text="", tokens=0, items=())
    return replace(found, recalled=empty, left_out=(*dropped, *found.left_out))

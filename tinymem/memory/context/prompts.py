"""Prompts: the last one of each session, from which the next one goes on, so that a provider's prompt cache holds.

A prompt only grows until it is over its budget: then it jumps, which is to say that it is built from scratch, in fewer
tokens. What is kept over a restart has no text in it: steps are named by their ids, excerpts by their places.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from math import sqrt
from typing import Any, NamedTuple, TypeAlias

from tinymem.archive.archive import Archive
from tinymem.errors import StorageError
from tinymem.memory.context.assembly import Blocks, Part, Prompt, assemble, extend
from tinymem.memory.context.context import NOTE, Shares
from tinymem.memory.context.window import Window
from tinymem.messages.tokens import count_message
from tinymem.protocols.settings import PROMPTS, REWRITES
from tinymem.recall import Excerpt, Recall
from tinymem.recall.packing import block_of
from tinymem.recall.render import without_gone
from tinymem.steps.step import Step
from tinymem.stores.filter import Filter
from tinymem.window.sending import RenderedGroup

__all__ = ["Prompts"]

Key: TypeAlias = tuple[str, str, str]  # of a prompt: its session, style and format
State: TypeAlias = tuple[str | None, Filter | None]  # under which it was made: the memory's rewrites, and the filter


class _Last(NamedTuple):
    """The last prompt of a session, the tokens it had when it last jumped, and how often it went on since."""

    prompt: Prompt
    state: State
    begun: int
    grown: int


AT_JUMPS = 0.4  # of the window's share in a prompt that has jumped: what comes behind it is mostly window
SPARE = 0.2  # share of it that recall may leave unused, before the window gets that too
MORE = 0.25  # share of a budget that is recalled at most in a prompt that goes on
WRITTEN = 1.25  # the price of a token that is written to a provider's cache
LEAST_CACHE = 0.01
LOWEST, HIGHEST = 0.3, 0.8  # shares of a budget that a prompt may have after a jump
FENCE = 32  # tokens of a block's fence, about
REMEMBERED = 256  # prompts that are held,
KEPT = 16  # and that are kept over a restart


class Prompts:
    """The last prompts of a memory's sessions.

    Args:
        archive: The memory's archive.
        cache: The price of a token that a provider's cache serves, as a ratio to a fresh one.
    """

    def __init__(self, archive: Archive, cache: float) -> None:
        self._archive, self._cache = archive, cache
        self._last: OrderedDict[Key, _Last] = OrderedDict()
        self._kept: dict[Key, Any] | None = None  # of an earlier process, until it is read

    @property
    def goes_on(self) -> bool:
        """False where nothing is cached, so that a prompt that goes on would save nothing."""
        return self._cache < 1

    def empty(self) -> Prompts:
        """Return prompts of the same memory of which no session has had any."""
        found = Prompts(self._archive, self._cache)
        found.clear()
        return found

    def clear(self) -> None:
        """Let every session build its next prompt from scratch, after a change by hand or a forget."""
        self._last.clear()
        self._kept = {}

    def follow(
        self,
        key: Key,
        window: Window,
        budget: int,
        blocks: Blocks,
        shares: Shares,
        whole: float,
        only: Filter | None = None,
    ) -> Prompt:
        """Return the next prompt: one that goes on from the last one of its session where that can be.

        It cannot where steps were forgotten since, or where others may be recalled now, as `only` says.
        """
        state: State = (self._archive.journal.setting(REWRITES), only)
        last, prompt = self._last.pop(key, None), None
        if last is None and (restored := self._restore(key, window)) is not None:
            last = _Last(restored, state, restored.tokens, 0)
        if last is not None and last.state == state:
            prompt = extend(last.prompt, window, budget, blocks, shares, int(MORE * budget))
        if last is not None and prompt is not None:
            grown = last.grown + (len(prompt.parts) > len(last.prompt.parts))
            self._last[key] = last._replace(prompt=prompt, grown=grown)
        else:
            goal = self._goal(window, budget, whole, last)
            less = replace(shares, window=AT_JUMPS * shares.window)
            prompt = assemble(window, goal, blocks, less, whole, moves_in_jumps=False)
            unused = (goal - prompt.tokens) / goal
            if unused > SPARE and sum(part.group is not None for part in prompt.parts) < len(window.groups):
                more = replace(shares, window=min(less.window + unused, 1 - shares.episodes - shares.scratchpad))
                prompt = assemble(window, goal, blocks, more, whole, moves_in_jumps=False)
            prompt = replace(prompt, stable=len(prompt.parts))
            self._last[key] = _Last(prompt, state, prompt.tokens, 0)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return prompt

    def _goal(self, window: Window, budget: int, whole: float, last: _Last | None) -> int:
        """Return the tokens of a prompt after a jump, less than the budget, so that others can go on from it.

        A jump takes out as much as pays for what it rewrites until the next one: with n tokens that a prompt adds to
        the one before, on average, (1 - low)^2 / low = (written - cached) n / (cached budget). What is in anyway is
        added. A window that has up to the share `whole` of the budget is sent whole, unless the `last` prompt was full.
        """
        groups = window.groups
        total = sum(one.tokens for one in groups)
        fixed = sum(one.tokens for one in groups if one.first in window.fixed)
        newest = groups[-1].tokens if groups else 0
        if last is not None and last.prompt.tokens + newest > budget:
            whole = 0
        more = (last.prompt.tokens - last.begun) / last.grown if last is not None and last.grown else 0
        ratio = (WRITTEN - self._cache) * max(more, total / max(len(groups), 1))
        ratio /= max(self._cache, LEAST_CACHE) * budget
        low = min(max(1 + ratio / 2 - sqrt(ratio + ratio * ratio / 4), LOWEST), HIGHEST)
        goal = fixed + newest + low * budget
        if 0 < total <= whole * budget:
            goal = max(goal, total / whole + FENCE)
        return min(budget, int(goal))

    # -- over a restart

    def keep(self) -> None:
        """Write down the last prompts, but for those with shortened steps or a scratchpad.

        Those that an earlier process kept, and nobody asked for since, stay.
        """
        if self._kept is None:  # nothing was asked or cleared
            return
        rewrites = self._archive.journal.setting(REWRITES)
        held = [
            [*key, [_record(part) for part in prompt.parts]]
            for key, (prompt, (made, only), *_) in islice(reversed(self._last.items()), KEPT)
            if made == rewrites and only in (None, Filter()) and all(map(_has_record, prompt.parts))
        ]
        held += [[*key, parts] for key, parts in self._kept.items()]
        with suppress(StorageError):  # without it, a session builds its next prompt from scratch
            self._archive.journal.keep({PROMPTS: json.dumps({"rewrites": rewrites, "prompts": held[:KEPT]})})

    def _restore(self, key: Key, window: Window) -> Prompt | None:
        """Return the last prompt of a session as an earlier process kept it; None where that cannot be."""
        if self._kept is None:
            self._kept = self._read()
        records = self._kept.pop(key, None)
        groups = {one.first: one for one in window.groups}
        try:
            parts = [self._part(record, groups, window) for record in records or ()]
        except (KeyError, TypeError, ValueError, IndexError):  # steps are gone, or the record is damaged
            return None
        return Prompt(tuple(parts), len(parts), Recall("", 0, ())) if parts else None

    def _read(self) -> dict[Key, Any]:
        journal = self._archive.journal
        try:
            kept = json.loads(journal.setting(PROMPTS) or "{}")
            if not kept or kept["rewrites"] != journal.setting(REWRITES):
                return {}
            return {(str(session), str(style), str(format)): parts for session, style, format, parts in kept["prompts"]}
        except (ValueError, KeyError, TypeError):
            return {}

    def _part(self, record: Any, groups: Mapping[str, RenderedGroup], window: Window) -> Part:
        """Make a part again. Raises KeyError, TypeError, ValueError or IndexError where it would be another one."""
        if record == "note":
            return Part("note", count_message(NOTE, window.sending.counter), "", message=dict(NOTE))
        if isinstance(record, str):
            group = groups[record]
            return Part("message", group.tokens, "fixed" if record in window.fixed else "window", group, group)
        digest, spans = record
        steps = self._archive.fetch([number for number, *_ in spans])
        items = tuple(_excerpt(steps[number], *place) for number, *place in spans)
        text = block_of(items, self._archive.key)
        if _digest(text) != digest:
            raise ValueError(digest)
        message = {"role": "user", "content": text}
        own = {item.step.id: item.step for item in items}
        cost = count_message(message, window.sending.counter)
        return Part("recalled", cost, "recall", message=message, steps=(*own.values(),), recalled=(*items,))


def _excerpt(step: Step, part: int, start: int, end: int, tokens: int, marks: Any, gone: Any) -> Excerpt:
    """Return an excerpt again, with its marks and the lines that are gone."""
    times, varied, newer, as_of = marks
    spans = tuple((int(first), int(last), str(mark)) for first, last, mark in gone)
    text = without_gone(step.parts()[part].text, start, end, spans)
    return Excerpt(step, part, start, end, text, tokens, 0, 0, {}, times, varied, newer, spans, as_of)


def _has_record(part: Part) -> bool:
    return part.kind in ("note", "recalled") or (part.kind == "message" and not part.cut)


def _record(part: Part) -> Any:
    """Write down a part without its text: a group by its first step, a block by the places of its excerpts."""
    if part.group is not None:
        return part.group.first
    if part.kind == "note":
        return "note"
    return [_digest(str((part.message or {}).get("content"))), [*map(_place, part.recalled)]]


def _place(one: Excerpt) -> Any:
    marks = one.times, one.varied, one.newer, one.as_of
    return one.step.step_number, one.part, one.start, one.end, one.tokens, marks, one.gone


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

"""AdaptiveMemoryManager: a window that is never over its tokens, counted on the messages as they are sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

from tinymem.errors import BudgetError
from tinymem.messages.fitting import LEAST, most_characters
from tinymem.messages.tokens import PER_REPLY, Prices, counter_from
from tinymem.protocols import TokenCounter
from tinymem.steps.checks import check_choice, check_non_negative_int, check_strings
from tinymem.steps.content import Content
from tinymem.steps.standins import newest_request
from tinymem.steps.step import STYLES, Message, Step, Style
from tinymem.window.excerpts import shorten_group
from tinymem.window.manager import MemoryManager, PruneReport
from tinymem.window.sending import MessageRenderer, RenderedGroup, copies, tokens_of
from tinymem.window.strategy import LOW_WATER, REQUEST, Group, critical, low_mark, newest_within, sum_fixed

__all__ = ["AdaptiveMemoryManager"]


class AdaptiveMemoryManager(MemoryManager):
    """A MemoryManager whose messages never have more than `max_tokens` (4,000 unless given), whatever is added.

    `to_messages()` gives messages that the chat APIs accept, in `style`, and `tokens` is what they cost, exactly. When
    an added step would bring them over `max_tokens`, the window is pruned to `low_water` tokens (two thirds unless
    given), so this happens now and then and not at every step. The newest system prompt, the current task, the newest
    request and pinned steps stay, and of the rest the newest groups (a call and its results, or one message), whole. A
    request or a newest group that is too long by itself has its texts shortened to head and tail, with a mark. What
    left or was shortened is in the report that `on_prune` gets before it takes effect; `restore` puts it back where
    there is room.

    Each step is rendered and counted when it is added, and once more for every later result of its group and when it is
    restored. `counter` is a TokenCounter, or the name of a tiktoken encoding or of a model; `extra_keys` are
    those of `tinymem.messages.repair`.

    >>> memory = AdaptiveMemoryManager(60, "Be brief.")
    >>> for day in range(30):
    ...     step = memory.add_message("user", f"On day {day} lunch was soup, with bread.")
    >>> memory.tokens <= 60, memory.steps[0].text, memory.steps[-1].text
    (True, 'Be brief.', 'On day 29 lunch was soup, with bread.')

    Raises InputError for arguments that make no sense, and BudgetError where `system_prompt` alone is over
    `max_tokens`.
    """

    def __init__(
        self,
        max_tokens: int = 4_000,
        system_prompt: Content | None = None,
        *,
        low_water: int | None = None,
        counter: TokenCounter | str | None = None,
        style: Style = "auto",
        steps: Iterable[Step] = (),
        on_prune: Callable[[PruneReport], None] | None = None,
        extra_keys: Collection[str] = (),
    ) -> None:
        check_choice("style", style, *STYLES)
        self._sending = MessageRenderer(counter_from(counter), style, check_strings("extra_keys", extra_keys))
        self.max_tokens = check_non_negative_int("max_tokens", max_tokens)
        sum_fixed([], max_tokens)  # the reply alone
        self.low_water = low_mark(low_water, "max_tokens", max_tokens, LOW_WATER)
        super().__init__(system_prompt, self._newest, None, steps=steps, on_prune=on_prune)
        if self._is_full(()):
            self.prune()

    @property
    def tokens(self) -> int:
        """The tokens of `to_messages()`, overhead and reply included, as `count_tokens` counts them."""
        with self._lock:
            return self._sending.tokens(self.steps)

    def step_tokens(self) -> dict[str, int]:
        """The tokens of each step by itself, by id, counted by the memory's own counter in its own style."""
        return Prices(self._sending.counter, self._sending.style)(self.steps)

    def to_messages(self, summary_mode: bool = False, style: Style | None = None) -> list[Message]:
        """The window as messages that the chat APIs accept, in the memory's own style; see `Step.to_messages`.

        Groups are whole, results stand behind their calls, a call without a result gets one that says so. Another
        `style` may have more tokens than `max_tokens`.
        """
        chosen = self._sending.style if style is None else style
        check_choice("style", chosen, *STYLES)
        if summary_mode or chosen != self._sending.style:
            other = MessageRenderer(self._sending.counter, chosen, self._sending.extra_keys)
            return copies(other(self.steps, summary_mode))
        with self._lock:
            return copies(self._sending(self.steps))

    def _is_full(self, new: Sequence[Step]) -> bool:
        return self._sending.tokens((*self._window.shown.values(), *new)) > self.max_tokens

    def _apply(self, report: PruneReport, put: dict[str, Step], added: Sequence[Step] = ()) -> None:
        if report.removed or put:  # a user's strategy may make texts longer
            shown = self._window.after(report.removed, {step.id: step for step in added} | put)
            needed = self._sending.tokens([*shown.values()])
            if needed > self.max_tokens:
                raise BudgetError(needed, self.max_tokens, {"reply": PER_REPLY, "window": needed - PER_REPLY})
        super()._apply(report, put, added)

    def _newest(self, steps: Sequence[Step]) -> list[Step]:
        """The strategy: `steps` as they are if they are within `max_tokens`, else pruned to `low_water`."""
        if self._sending.tokens(steps) <= self.max_tokens:
            return list(steps)
        shown = self._with_newest_fitted(steps)
        costs, most = self._sending.costs(shown), self.max_tokens
        while True:
            kept = newest_within(shown, costs, most, min(self.low_water, most), "current")
            # Of calls with one id the first keeps it: where that one goes, the next has it, and may cost more by it.
            excess = self._sending.tokens(kept) - self.max_tokens
            if excess <= 0:
                return kept
            most -= excess

    def _with_newest_fitted(self, steps: Sequence[Step]) -> list[Step]:
        """`steps`, with newest request and newest group shortened if they do not fit beside the critical steps."""
        *earlier, newest = self._sending(steps)
        fixed = {step.id for step in critical(steps, "current")}
        kept = [rendered for rendered in earlier if not fixed.isdisjoint(rendered.step_ids)]
        base = PER_REPLY + tokens_of(kept)
        room = self.max_tokens - base - newest.tokens * (newest.first in fixed)
        shown, base = self._with_request_fitted(steps, earlier, int(REQUEST * room), fixed, base)
        group = newest.group
        if base + newest.tokens > self.max_tokens:
            if fixed.isdisjoint(newest.step_ids):  # else `newest_within` says which step is too much
                least = self._sending.instead(newest, shorten_group(newest.group, LEAST)).tokens
                sum_fixed([(each.group, each.tokens) for each in kept], self.max_tokens, {"newest group": least})
            # the next steps want some of the room
            group = self._fitted(newest, max(self.low_water, (base + self.max_tokens) // 2) - base, fixed)
        return [*chain.from_iterable(shown), *group]

    def _with_request_fitted(
        self, steps: Sequence[Step], earlier: Sequence[RenderedGroup], room: int, fixed: Collection[str], base: int
    ) -> tuple[list[Group], int]:
        """Return groups, that of the newest request within `room` unless it is fixed, and `base` with its tokens."""
        shown, request = [rendered.group for rendered in earlier], newest_request(steps)
        for place, rendered in enumerate(earlier):
            if request is not None and rendered.first == request.id and request.id not in fixed:
                shown[place] = self._fitted(rendered, room, fixed)
                base += self._sending.instead(rendered, shown[place]).tokens
        return shown, base

    def _fitted(self, sent: RenderedGroup, room: int, fixed: Collection[str]) -> Group:
        """A group with its texts as long as `room` tokens allow."""
        if sent.tokens <= room:
            return sent.group

        def fits(length: int) -> bool:
            return self._sending.instead(sent, shorten_group(sent.group, length, fixed)).tokens <= room

        return shorten_group(sent.group, most_characters(fits, room, LEAST), fixed)

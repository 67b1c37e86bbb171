"""Choice of the window's groups that a context shows: the newest one, and those before it that fit its share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinymem.memory.context.shortening import shortened_to
from tinymem.memory.context.window import Window
from tinymem.messages.tokens import count_message
from tinymem.steps.standins import covers_of
from tinymem.window.sending import SentGroup

__all__ = ["NOTE", "Chosen", "choose"]

NOTE = {"role": "user", "content": "(Earlier messages are not shown.)"}  # opens what would begin with the assistant


@dataclass(frozen=True)
class Chosen:
    """The window as it is shown: earlier groups, and the newest one, shortened if the `whole` does not fit.

    `newest` is empty if there is no window. `note` has the tokens of the note that steps are missing; -1 without it.
    """

    earlier: list[SentGroup]
    newest: list[SentGroup]
    whole: list[SentGroup]
    note: int


def choose(window: Window, room: int, share: int, whole_up_to: float) -> Chosen:
    """Choose the groups of the window that fit `room` tokens beside the fixed ones.

    Unless all groups fit the share `whole_up_to` of it, those before the newest one have at most `share` tokens. A
    newest one that does not fit is cut to half of the room, so that recall has the rest, or as far as its files need.
    """
    others = [one for one in window.groups if one.first not in window.fixed]
    whole = [*window.groups[-1:]]
    is_free = bool(whole) and whole[0].first not in window.fixed
    earlier = others[:-1] if is_free else others
    total = sum(one.tokens for one in others)
    if whole_up_to == 1 and total <= room:
        return Chosen(earlier, whole, whole, -1)
    note, newest = count_message(NOTE, window.sending.counter), whole
    if total <= int(whole_up_to * room) - note:
        return Chosen(earlier, whole, whole, note)
    if is_free:
        left = room - note
        newest = whole if whole[0].tokens <= left else [shortened_to(whole[0], left // 2, left, window.sending)]
        newest = [one for one in newest if one.tokens <= left]
        room -= sum(one.tokens for one in newest)
    end = max((window.positions[step.id] for one in whole for step in one.group), default=0)
    return Chosen(_from_start(earlier, end, window.positions, room - note, share), newest, whole, note)


def _from_start(
    rest: Sequence[SentGroup], end: int, positions: Mapping[str, int], room: int, share: int
) -> list[SentGroup]:
    """The groups that the window shows before the newest one, which is at `end`.

    The start is the first group behind a multiple of half the share: it stays while steps come in, until what is
    shown has grown over the share, and then jumps by half of it. Summaries stand for what is older than the window, so
    they do not go with its start.
    """
    summaries = [one for one in rest if covers_of(one.group[0])]
    taken = sum(one.tokens for one in summaries)
    if summaries and taken <= min(room, share):
        others = [one for one in rest if one not in summaries]
        return [*summaries, *_from_start(others, end, positions, room - taken, share - taken)]
    jump = max(1, share // 2)
    start = -(-(end - share) // jump) * jump
    first = next((i for i, one in enumerate(rest) if positions[one.first] >= start), len(rest))
    shown = sum(one.tokens for one in rest[first:])
    while first < len(rest) and shown > min(room, share):
        shown -= rest[first].tokens
        first += 1
    return [*rest[first:]]

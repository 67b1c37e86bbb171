"""Choice of the window's groups that a context shows: the newest one, and those before it that fit its share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tinymem.messages.fitting import most_characters
from tinymem.messages.tokens import count_message
from tinymem.steps.actions import ActionStep
from tinymem.steps.standins import covers_of
from tinymem.window.sending import Sending, SentGroup

__all__ = ["NOTE", "Chosen", "chosen", "shortened"]

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


def chosen(
    sent: Sequence[SentGroup],
    held: Collection[str],
    positions: Mapping[str, int],
    room: int,
    share: int,
    whole_up_to: float,
    sending: Sending,
) -> Chosen:
    """Choose the groups of the window that fit `room` tokens beside the groups `held` (ids).

    Unless all groups fit the share `whole_up_to` of it, those before the newest one have at most `share` tokens.
    """
    earlier, whole = [one for one in sent[:-1] if one.first not in held], [*sent[-1:]]
    total = sum(one.tokens for one in sent if one.first not in held)
    if whole_up_to == 1 and total <= room:
        return Chosen(earlier, whole, whole, -1)
    note, newest = count_message(NOTE, sending.counter), whole
    if total <= int(whole_up_to * room) - note:
        return Chosen(earlier, whole, whole, note)
    if whole and whole[0].first not in held:
        newest = _fitted(whole[0], room - note, sending)
        room -= sum(one.tokens for one in newest)
    end = max((positions[step.id] for one in whole for step in one.group), default=0)
    return Chosen(_from_start(earlier, end, positions, room - note, share), newest, whole, note)


def _fitted(whole: SentGroup, room: int, sending: Sending) -> list[SentGroup]:
    """Return the group whole if it fits `room`, else with its texts cut to half of `room`, so that recall has the rest.

    Arguments of calls are cut only where nothing else helps. Returns nothing if even the shortened group does not fit.
    """
    if whole.tokens <= room:
        return [whole]
    room //= 2
    for arguments in (False, True):

        def cut(most: int, arguments: bool = arguments) -> SentGroup:
            return shortened(whole, most, arguments, sending)

        longest = most_characters(lambda most: cut(most).tokens <= room, room)
        if longest >= 0:
            return [cut(longest)]
    return []


def shortened(whole: SentGroup, most: int, arguments: bool, sending: Sending) -> SentGroup:
    """Cut the texts of a group to `most` characters each, and those in the arguments of its calls if asked to."""
    steps = [step.shortened(most) for step in whole.group]
    if arguments:
        steps = [step.shorten_arguments(most) if isinstance(step, ActionStep) else step for step in steps]
    return sending.instead(whole, steps)


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

"""Windows: what of a conversation a context may show and shows, as it is sent, and how it is shortened.

A group is shortened to a number of tokens by cutting its texts; files that are too long give way to notes. Behind a
group with corrected steps stands a note of what corrects them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain

from tinymem.archive.archive import Archive
from tinymem.memory.context.context import NOTE
from tinymem.memory.context.recaller import block_of
from tinymem.messages.conversion import groups
from tinymem.messages.fitting import most_characters
from tinymem.messages.media import with_notes
from tinymem.messages.tokens import count_message
from tinymem.recall import Excerpt
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import clean
from tinymem.steps.standins import covers_of, newest_of, newest_request
from tinymem.steps.step import Message, Step
from tinymem.steps.types import TaskStep
from tinymem.window.sending import MessageRenderer, Note, RenderedGroup, tokens_of
from tinymem.window.strategy import critical, split

__all__ = [
    "Choice", "RenderedWindow", "choose", "current_task", "fit_request", "fixed_steps", "least", "positions_of",
    "shorten_group", "shortened_ids", "window_of", "with_corrections", "with_request",
]  # fmt: skip

REQUEST = 0.5  # share of a context that the newest request has at most, once something was done for it
FILES = 0.75  # and with its files
CORRECTED = 400  # characters of a correction that are shown


@dataclass(frozen=True)
class RenderedWindow:
    """The part of a window that a context may show.

    Attributes:
        sending: Renders and counts the steps.
        steps: All steps.
        groups: Their groups as they are sent, in order.
        fixed: The groups that are always shown, by the ids of their first steps.
        positions: How many tokens came before each step of the groups since the memory or the history began, by id.
        partial: The ids of steps that the groups do not show whole; what they lack may be recalled.
        inputs: Where the caller has the messages that the window was made of, their indices in the caller's list, by
            the id of their step; the newest group is then always in.
        kept: There, the numbers of the steps of the memory that stand whole in a step, by its id.
        request: The first step of the group with the newest request, which is shown however old it is.
        corrections: The number of the newest correction of each corrected step of the memory.
    """

    sending: MessageRenderer
    steps: Sequence[Step]
    groups: Sequence[RenderedGroup]
    fixed: Collection[str]
    positions: Mapping[str, int]
    partial: Collection[str] = ()
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    kept: Mapping[str, Collection[int]] = field(default_factory=dict)
    request: str | None = None
    corrections: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def by_first(self) -> dict[str, RenderedGroup]:
        """The groups by the ids of their first steps."""
        return {group.first: group for group in self.groups}

    def numbers(self, steps: Iterable[Step]) -> set[int]:
        """Return the numbers of the steps of the memory that stand whole in these."""
        if self.inputs:
            return set().union(*(self.kept.get(step.id, ()) for step in steps))
        return {step.step_number for step in steps if step.step_number is not None}


def window_of(
    steps: Sequence[Step], sending: MessageRenderer, positions: Mapping[str, int], partial: Collection[str]
) -> RenderedWindow:
    """Return the window of these steps."""
    sent = sending(steps)
    wanted = {step.id for step in critical(steps, "current")}
    fixed = {group.first for group in sent if not wanted.isdisjoint(group.step_ids)}
    request = newest_request(steps)
    asked = next((group.first for group in sent if request in group.group), None) if request else None
    return RenderedWindow(sending, steps, sent, fixed, positions, partial, request=asked)


def positions_of(sent: Sequence[RenderedGroup]) -> dict[str, int]:
    """Return how many tokens of these groups come before each of their steps, by id."""
    positions: dict[str, int] = {}
    for group, start in zip(sent, accumulate((group.tokens for group in sent), initial=0), strict=False):
        positions.update(dict.fromkeys(group.step_ids, start))
    return positions


def with_request(window: RenderedWindow, room: int) -> RenderedWindow:
    """Return the window with its newest request among the fixed groups, shortened to its share of `room` tokens.

    Where the least of it is more than the whole room, it is left out.
    """
    place = [group.first for group in window.groups].index(window.request or "")
    request, cut = fit_request(window.groups[place], room, window.sending)
    if request.tokens > room:
        return replace(window, request=None)
    groups = [*window.groups[:place], request, *window.groups[place + 1 :]]
    partial = {*window.partial, *cut}
    return replace(window, groups=groups, fixed={*window.fixed, request.first}, partial=partial, request=None)


def fit_request(whole: RenderedGroup, budget: int, sending: MessageRenderer) -> tuple[RenderedGroup, set[str]]:
    """Return the newest request, shortened to its share of the budget, and the ids of what is not whole then."""
    request = shorten_group(whole, int(REQUEST * budget), int(FILES * budget), sending)
    return request, shortened_ids(request, whole)


def fixed_steps(steps: Sequence[Step]) -> list[Step]:
    """Return what every context holds: newest system prompt, current task and pinned steps, with their groups."""
    fixed, _ = split(groups(steps), critical(steps, "current"))
    return [*chain.from_iterable(fixed)]


def current_task(steps: Iterable[Step]) -> TaskStep | None:
    """Return the newest task, or None."""
    return newest_of(steps, TaskStep)


# -- the groups that are shown


@dataclass(frozen=True)
class Choice:
    """The window as it is shown: earlier groups, and the newest one, shortened if the `whole` does not fit.

    `newest` is empty if there is no window. `note` has the tokens of the note that steps are missing; -1 without it.
    """

    earlier: list[RenderedGroup]
    newest: list[RenderedGroup]
    whole: list[RenderedGroup]
    note: int

    def without_oldest(self, tokens: int, note: int, kept: str | None) -> Choice:
        """Return it without the oldest earlier groups that have so many `tokens` together, but with the `kept` one."""
        earlier = []
        for group in self.earlier:
            if tokens <= 0 or group.first == kept:
                earlier.append(group)
            else:
                tokens -= group.tokens
        return replace(self, earlier=earlier, note=note)


def choose(window: RenderedWindow, room: int, share: int, whole_up_to: float, moves_in_jumps: bool) -> Choice:
    """Choose the groups of the window that fit `room` tokens beside the fixed ones.

    Unless all groups fit the share `whole_up_to` of it, those before the newest one have at most `share` tokens. A
    newest one that does not fit is cut to half of the room, so that recall has the rest, or as far as its files need.
    """
    others = [group for group in window.groups if group.first not in window.fixed]
    whole = [*window.groups[-1:]]
    is_free = bool(whole) and whole[0].first not in window.fixed
    earlier = others[:-1] if is_free else others
    note = count_message(NOTE, window.sending.counter)
    if tokens_of(others) <= (room if whole_up_to == 1 else int(whole_up_to * room) - note):
        return Choice(earlier, whole, whole, -1 if whole_up_to == 1 else note)
    left, newest = room - note, whole
    if is_free:
        newest = _fit_newest(whole[0], left, window.sending)
        left -= tokens_of(newest)
    jump = max(1, share // 2) if moves_in_jumps else 1
    return Choice(_from_start(earlier, whole, window.positions, min(left, share), share, jump), newest, whole, note)


def _fit_newest(whole: RenderedGroup, left: int, sending: MessageRenderer) -> list[RenderedGroup]:
    """Return the newest group, cut where it has more than `left` tokens; nothing where no cut is enough."""
    shown = whole if whole.tokens <= left else shorten_group(whole, left // 2, left, sending)
    return [shown] if shown.tokens <= left else []


def _from_start(
    rest: Sequence[RenderedGroup],
    newest: Sequence[RenderedGroup],
    positions: Mapping[str, int],
    most: int,
    share: int,
    jump: int,
) -> list[RenderedGroup]:
    """The groups that the window shows before the newest one, in at most so many tokens.

    The start is the first group behind a multiple of `jump`, which is half the share: it stays while steps come in,
    until what is shown has grown over the share, and then jumps by half of it. Summaries stand for what is older than
    the window, so they do not go with its start.
    """
    summaries = [group for group in rest if covers_of(group.group[0])]
    if tokens_of(summaries) > most:
        summaries = []
    taken = tokens_of(summaries)
    rest = [group for group in rest if group not in summaries]
    end = max(positions[id] for id in newest[0].step_ids) if newest else 0
    start = -(-(end - share + taken) // jump) * jump
    begin = next((place for place, group in enumerate(rest) if positions[group.first] >= start), len(rest))
    shown = tokens_of(rest[begin:])
    while begin < len(rest) and shown > most - taken:
        shown -= rest[begin].tokens
        begin += 1
    return [*summaries, *rest[begin:]]


# -- shortening --------------------------------------------------------------------------------------------------------


def shorten_group(whole: RenderedGroup, tokens: int, with_files: int, sending: MessageRenderer) -> RenderedGroup:
    """Return a group as it is if it has at most so many tokens, else shortened to them.

    Texts are cut, arguments of calls only where nothing else helps. A group with files, images or audio may have
    `with_files` tokens; where that is not enough, notes take the place of all of them. The result has more tokens only
    where no cut is enough.
    """
    if whole.tokens <= tokens:
        return whole
    shown = None
    if [*map(_without_files, whole.group)] != [*whole.group]:
        shown = _longest(whole, tokens, True, sending) or _longest(whole, with_files, True, sending)
    return shown or _longest(whole, tokens, False, sending) or _cut(whole, 0, True, False, sending)


def least(whole: RenderedGroup, sending: MessageRenderer) -> RenderedGroup:
    """Return the least that can be shown of a group."""
    return shorten_group(whole, 0, 0, sending)


def shortened_ids(shown: RenderedGroup, whole: RenderedGroup) -> set[str]:
    """Return the ids of the steps that are not shown whole."""
    pairs = zip(shown.group, whole.group, strict=True) if shown is not whole else ()
    return {step.id for step, original in pairs if step != original}


def _longest(whole: RenderedGroup, tokens: int, files: bool, sending: MessageRenderer) -> RenderedGroup | None:
    """Return the group with texts, and arguments if need be, as long as `tokens` allow; None if they allow none."""

    def fits(most: int) -> bool:
        return _cut(whole, most, arguments, files, sending).tokens <= tokens

    for arguments in (False, True):
        longest = most_characters(fits, tokens)
        if longest >= 0:
            return _cut(whole, longest, arguments, files, sending)
    return None


def _cut(whole: RenderedGroup, most: int, arguments: bool, files: bool, sending: MessageRenderer) -> RenderedGroup:
    """Cut the texts of a group to `most` characters each, and those in the arguments of its calls if asked to."""
    steps = [step.shortened(most) for step in whole.group]
    if arguments:
        steps = [step.shorten_arguments(most) if isinstance(step, ActionStep) else step for step in steps]
    return sending.instead(whole, steps if files else [*map(_without_files, steps)])


def _without_files(step: Step) -> Step:
    """Put notes in the place of the files of a step."""
    if isinstance(step, ActionStep):
        return step.map_observations(with_notes)
    field = getattr(step, "content_field", "content")
    return step.evolve(**{field: with_notes(getattr(step, field))})


# -- corrections -------------------------------------------------------------------------------------------------------


def with_corrections(window: RenderedWindow, archive: Archive, allows: Callable[[Step], bool]) -> RenderedWindow:
    """Return a window with notes behind its groups of what corrects their steps.

    Args:
        window: The window.
        archive: Knows what was corrected.
        allows: Says whether a correction may be shown.
    """
    corrections = archive.corrections
    if not corrections:
        return window
    newer = {sent.first: _newer(sent, window, corrections) for sent in window.groups}
    wanted = set().union(*newer.values())
    steps = {number: step for number, step in archive.fetch(sorted(wanted)).items() if allows(step)}
    groups = [_noted(sent, newer[sent.first], steps, window, archive) for sent in window.groups]
    return replace(window, groups=groups, corrections=corrections)


def _newer(sent: RenderedGroup, window: RenderedWindow, corrections: Mapping[int, int]) -> dict[int, list[int]]:
    """Return the numbers of what corrects steps of a group, each with the numbers of these steps."""
    found: dict[int, list[int]] = {}
    for step in sent.group:
        for number in sorted({*window.numbers([step]), step.step_number or 0}):
            if number in corrections:
                found.setdefault(corrections[number], []).append(number)
    return found


def _noted(
    sent: RenderedGroup,
    newer: Mapping[int, list[int]],
    steps: Mapping[int, Step],
    window: RenderedWindow,
    archive: Archive,
) -> RenderedGroup:
    """Return a group with its note, if one of its corrections may be shown."""
    excerpts = [*_excerpts(newer, steps)]
    if not excerpts:
        return sent
    counter = window.sending.counter
    message: Message = {"role": "user", "content": block_of(excerpts, archive.key)}
    shown = tuple(replace(excerpt, tokens=counter.count(excerpt.text)) for excerpt in excerpts)
    return sent.with_note(Note(message, count_message(message, counter), shown))


def _excerpts(newer: Mapping[int, list[int]], steps: Mapping[int, Step]) -> Iterable[Excerpt]:
    for new, old in sorted(newer.items()):
        parts = steps[new].parts() if new in steps else ()
        if parts:
            text = parts[0].text[:CORRECTED]
            yield Excerpt(steps[new], 0, 0, len(text), clean(text), 0, 0, 0, corrects=(*old,))

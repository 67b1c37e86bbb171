"""Shortening of a group to a number of tokens: its texts are cut, and files that are too long give way to notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from tinymem.messages.fitting import most_characters
from tinymem.messages.media import is_media, media_tokens, with_notes
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import Content
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep, TaskStep
from tinymem.window.sending import MessageRenderer, RenderedGroup

__all__ = ["least", "shorten_group", "shortened_ids"]

Place = tuple[int, int]  # of a file: its step in the group, and its number among the files of the step


def shorten_group(whole: RenderedGroup, tokens: int, with_files: int, sending: MessageRenderer) -> RenderedGroup:
    """Return a group as it is if it has at most so many tokens, else shortened to them.

    Texts are cut, arguments of calls only where nothing else helps. A group with files, images or audio may have
    `with_files` tokens; what is still too long for that is left out, the largest first, with a note in its place. The
    result has more tokens only where no cut is enough.
    """
    if whole.tokens <= tokens:
        return whole
    left_out: list[Place] = []
    for place in (*_largest_first(whole, sending), None):
        for limit in (tokens, with_files) if place else (tokens,):
            for arguments in (False, True):
                if cut := _longest(whole, limit, arguments, left_out, sending):
                    return cut
        if place:
            left_out.append(place)
    return _cut(whole, 0, True, left_out, sending)


def least(whole: RenderedGroup, sending: MessageRenderer) -> RenderedGroup:
    """Return the least that can be shown of a group."""
    return shorten_group(whole, 0, 0, sending)


def shortened_ids(shown: RenderedGroup, whole: RenderedGroup) -> set[str]:
    """Return the ids of the steps that are not shown whole."""
    pairs = zip(shown.group, whole.group, strict=True) if shown is not whole else ()
    return {step.id for step, original in pairs if step != original}


def _longest(
    whole: RenderedGroup, tokens: int, arguments: bool, left_out: Collection[Place], sending: MessageRenderer
) -> RenderedGroup | None:
    """Return the group with texts as long as `tokens` allow; None if they allow none."""

    def cut(most: int) -> RenderedGroup:
        return _cut(whole, most, arguments, left_out, sending)

    longest = most_characters(lambda most: cut(most).tokens <= tokens, tokens)
    return cut(longest) if longest >= 0 else None


def _cut(
    whole: RenderedGroup, most: int, arguments: bool, left_out: Collection[Place], sending: MessageRenderer
) -> RenderedGroup:
    """Cut the texts of a group to `most` characters each, and those in the arguments of its calls if asked to."""
    steps = [step.shortened(most) for step in whole.group]
    if arguments:
        steps = [step.shorten_arguments(most) if isinstance(step, ActionStep) else step for step in steps]
    for at in {at for at, _ in left_out}:
        steps[at] = _noted(steps[at], {number for step, number in left_out if step == at})
    return sending.instead(whole, steps)


# -- files, images and audio


def _largest_first(whole: RenderedGroup, sending: MessageRenderer) -> list[Place]:
    """Return the places of the files in a group."""
    found = [
        (-(media_tokens(part, sending.counter.count, sending.format) or 0), (at, number))
        for at, step in enumerate(whole.group)
        for number, part in enumerate(part for content in _contents(step) for part in _files(content))
    ]
    return [place for _, place in sorted(found)]


def _contents(step: Step) -> Iterable[Content | None]:
    if isinstance(step, ActionStep):
        return [call.observation for call in step.tool_calls] or [step.output]
    return [step.task if isinstance(step, TaskStep) else step.content if isinstance(step, MessageStep) else None]


def _files(content: Content | None) -> Sequence[Mapping[str, Any]]:
    return [part for part in content if is_media(part)] if content and not isinstance(content, str) else ()


def _noted(step: Step, numbers: Collection[int]) -> Step:
    """Put notes in the place of some files of a step, by their numbers."""
    following = count()

    def noted(content: Content | None) -> Content | None:
        if content is None or isinstance(content, str):
            return content
        return with_notes(content, [at for at in range(len(_files(content))) if next(following) in numbers])

    if isinstance(step, ActionStep):
        return step.map_observations(noted)
    if isinstance(step, TaskStep):
        return step.evolve(task=noted(step.task))
    return step.evolve(content=noted(step.content)) if isinstance(step, MessageStep) else step

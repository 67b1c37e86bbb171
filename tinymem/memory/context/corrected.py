"""Corrections in a window: behind a group with corrected steps stands a note of what corrects them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tinymem.archive.archive import Archive
from tinymem.memory.context.window import RenderedWindow
from tinymem.messages.tokens import count_message
from tinymem.recall import Excerpt
from tinymem.recall.results import block_of
from tinymem.steps.content import clean
from tinymem.steps.step import Message, Step
from tinymem.stores.filter import Filter
from tinymem.window.sending import Note, RenderedGroup

__all__ = ["with_corrections"]

SHOWN = 400  # characters of a correction


def with_corrections(
    window: RenderedWindow, archive: Archive, only: Filter | None = None, without: Collection[int] = ()
) -> RenderedWindow:
    """Return a window with notes behind its groups of what corrects their steps.

    Args:
        window: The window.
        archive: Knows what was corrected.
        only: The corrections that may be shown, as what may be recalled; all unless given.
        without: The numbers of corrections that may not be shown.
    """
    corrections = archive.corrections
    if not corrections:
        return window
    newer = {sent.first: _newer(sent, window, corrections) for sent in window.groups}
    wanted = set().union(*newer.values())
    steps = archive.fetch(sorted(wanted.difference(without))) if wanted else {}
    steps = {number: step for number, step in steps.items() if only is None or only.accepts(step)}
    groups = [_noted(sent, newer[sent.first], steps, window, archive) for sent in window.groups]
    return replace(window, groups=groups, corrections=corrections)


def _newer(sent: RenderedGroup, window: RenderedWindow, corrections: Mapping[int, int]) -> dict[int, list[int]]:
    """Return the numbers of what corrects steps of a group, each with the numbers of these steps."""
    found: dict[int, list[int]] = {}
    for step in sent.group:
        whole = window.given.numbers(step) if window.given else ()
        for number in sorted({*whole, step.step_number or 0}):
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
            text = parts[0].text[:SHOWN]
            yield Excerpt(steps[new], 0, 0, len(text), clean(text), 0, 0, 0, corrects=(*old,))

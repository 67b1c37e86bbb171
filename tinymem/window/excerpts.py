"""Excerpts of long texts: a step shortened to its relevant slices.

Every slice is verbatim: the first line, if it is a short one (a return code, a path), and slices of at least LEAST
characters; a mark says how much was left out between them. A text that was shortened before can be
shortened again: marks are never part of a slice, and their numbers are added up.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from tinymem.messages.fitting import most_characters
from tinymem.messages.tokens import Prices
from tinymem.recall.passages import MOST, cut
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import Content, left_out
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep
from tinymem.window.strategy import Group, newest_that_fit

__all__ = ["cut_pieces", "excerpt", "long_texts", "newest_or_cut", "replace_texts", "results_of", "shorten_group"]

LEAST = 200  # characters of a slice: less says nothing without its context
LONG = 600  # a text of up to so many characters stays whole
HEAD = 80  # characters of a first line that always stays
JOINED = 48  # characters between two slices that cost no more than the mark would

_MARK = re.compile(r"\n?… \[([0-9]{1,12}) characters left out\] …\n?")
Slice = tuple[int, int]


def long_texts(step: Step, most: int = LONG) -> list[str]:
    """Return texts of `step` over `most` characters that may be shortened: results, messages; none of a pinned step."""
    found = [] if step.pinned else results_of(step)
    return [text for text in found if isinstance(text, str) and len(text) > most]


def results_of(step: Step) -> list[Content | None]:
    """Return what an action gave: the results and errors of its calls, and its own; of a message all."""
    if isinstance(step, MessageStep):
        return [step.content]
    if not isinstance(step, ActionStep):
        return []
    pairs = [(call.observation, call.error) for call in step.tool_calls]
    return [*chain.from_iterable(pairs), step.output, step.failure]


def replace_texts(step: Step, texts: Mapping[str, str]) -> Step:
    """Replace texts (old to new) in the results or the message of `step`; return itself if nothing changes."""

    def changed(content: Content | None) -> Content | None:
        return texts.get(content, content) if isinstance(content, str) else content

    if all(old == new for old, new in texts.items()):
        return step
    if isinstance(step, ActionStep):
        return step.map_observations(changed)
    return step.evolve(content=changed(step.content)) if isinstance(step, MessageStep) else step


def cut_pieces(text: str) -> list[Slice]:
    """Cut `text` into passages that may be kept on their own; a text that was shortened before, between its marks.

    >>> cut_pieces("short")
    [(0, 5)]
    """
    spans = _between_marks(text)
    if len(spans) == 1:
        return cut(text)
    found: list[Slice] = []
    for start, end in spans:
        if end - start >= LEAST:
            found += [(start + first, start + last) for first, last in cut(text[start:end], MOST)]
    return found


def excerpt(text: str, slices: Iterable[Slice]) -> str:
    r"""Reduce `text` to its first line and `slices`, each widened to LEAST characters, with marks for the rest.

    >>> excerpt("exit code 0" + "\n" + "x" * 900, [])
    'exit code 0\n… [901 characters left out] …'
    """
    spans = _between_marks(text)
    head = text.find("\n", 0, HEAD + 1)
    wanted = [_widened(piece, spans) for piece in slices]
    if head > 0:
        wanted.append((0, head))
    shown, last = [], 0
    for start, end in [*_merged(wanted, spans), (len(text), len(text))]:
        gone = _characters(text[last:start])
        if gone:
            mark = left_out(gone)[0 if last else 1 :]
            shown.append(mark if start < len(text) else mark[:-1])
        shown.append(text[start:end])
        last = end
    short = "".join(shown)
    return short if len(short) < len(text) else text


def shorten_group(group: Iterable[Step], length: int, fixed: Collection[str] = ()) -> list[Step]:
    """Return a group with its texts cut to `length` characters; pinned steps, and `fixed` ones, by id, stay whole."""
    return [step if step.pinned or step.id in fixed else step.shortened(length) for step in group]


def newest_or_cut(
    found: Sequence[Group],
    costs: Mapping[str, int],
    used: int,
    limits: Iterable[int],
    most: int,
    price: Prices,
) -> tuple[list[Group], int]:
    """Return the newest groups as `newest_that_fit` does, or the newest one with its long texts cut to head and tail.

    That is where none fits; it gets half of what is left of `most` tokens, 0 for none. Where it cannot be cut so short,
    or there is none, no group is returned.
    """
    chosen, tokens = newest_that_fit(found, costs, used, limits)
    if chosen or not found or not most:
        return chosen, tokens
    newest, room = found[-1], (most - used) // 2
    longest = most_characters(lambda length: sum(map(price.count, _cut(newest, length))) <= room, room)
    if longest < 0:
        return [], used
    cut = _cut(newest, longest)
    return [cut], used + sum(map(price.count, cut))


def _cut(steps: Sequence[Step], length: int) -> list[Step]:
    """Cut long texts to about `length` characters: two thirds are the head, one the tail, each LEAST or more."""
    shorter: list[Step] = []
    for step in steps:
        texts = {
            text: excerpt(text, [(0, length - length // 3), (len(text) - length // 3, len(text))])
            for text in long_texts(step, LEAST)
        }
        shorter.append(replace_texts(step, texts))
    return shorter


def _between_marks(text: str) -> list[Slice]:
    borders = [0, *chain.from_iterable(mark.span() for mark in _MARK.finditer(text)), len(text)]
    return [*zip(borders[::2], borders[1::2], strict=True)]


def _widened(piece: Slice, spans: Sequence[Slice]) -> Slice:
    """Widen `piece` to LEAST characters, within its span."""
    start, end = piece
    low, high = next((span for span in spans if span[1] > start), spans[-1])
    start = max(start, low)
    end = min(high, max(end, start + LEAST))
    return max(low, min(start, end - LEAST)), end


def _merged(slices: Iterable[Slice], spans: Sequence[Slice]) -> list[Slice]:
    """Sort slices, and merge those that touch, or have next to nothing and no mark between them."""
    marks = [end for _, end in spans[:-1]]
    found: list[Slice] = []
    for start, end in sorted(slices):
        first, last = found.pop() if found else (start, start)
        if start <= last + JOINED and not any(last <= mark < start for mark in marks):
            found.append((first, max(end, last)))
        else:
            found += [(first, last), (start, end)]
    return found


def _characters(gap: str) -> int:
    """Count the characters of the original text in a gap: its own, and those that its marks count."""
    return len(_MARK.sub("", gap)) + sum(map(int, _MARK.findall(gap)))

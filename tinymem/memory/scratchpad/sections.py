"""Texts under headings, inside an exact token budget; the oldest leave first, with a note of how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tinymem.messages.fitting import longest
from tinymem.protocols import TokenCounter
from tinymem.steps.content import shorten
from tinymem.steps.display import hanging

__all__ = ["Section", "pack_sections"]


@dataclass(frozen=True)
class Section:
    """A heading and the texts below it, oldest first; with `keeps_newest`, the newest leaves late."""

    title: str
    texts: Sequence[str]
    keeps_newest: bool = False


def pack_sections(
    title: str, sections: Sequence[Section], leaving: Sequence[int], max_tokens: int | None, counter: TokenCounter
) -> str:
    """Render the sections that have texts under `title`, in at most `max_tokens` (None: whole); "" when nothing fits.

    The first line of each text is marked and the others are indented, so that none looks like a heading. Texts over
    half of `max_tokens` are shortened; then the oldest leave, section by section in the order `leaving`.
    """
    items = [[_item(text) for text in section.texts] for section in sections]
    whole = _render(title, sections, items, Counter())
    if max_tokens is None or counter.count(whole) <= max_tokens:
        return whole
    items = [[_fit_item(text, max_tokens // 2, counter) for text in section.texts] for section in sections]
    order = [at for at in leaving for _ in _leaving_early(sections[at])]
    order += [at for at in leaving if len(sections[at].texts) > len(_leaving_early(sections[at]))]
    best, low, high = "", 0, len(order)
    while low <= high:
        gone = (low + high) // 2
        text = _render(title, sections, items, Counter(order[:gone]))
        if counter.count(text) <= max_tokens:
            best, high = text, gone - 1
        else:
            low = gone + 1
    return best


def _leaving_early(section: Section) -> Sequence[str]:
    """Return the texts that leave before the newest one of any section does."""
    return section.texts[:-1] if section.keeps_newest else section.texts


def _item(text: str) -> str:
    return f"- {hanging(text)}"


def _fit_item(text: str, room: int, counter: TokenCounter) -> str:
    """Render `text` as an item, cut to head and tail if it has more than `room` tokens."""
    item = _item(text)
    if 4 * len(item) <= room or counter.count(item) <= room:  # no character has more than four tokens
        return item
    return longest(lambda length: _item(shorten(text, length)), room, counter) or "- …"


def _render(title: str, sections: Sequence[Section], items: Sequence[Sequence[str]], gone: Counter[int]) -> str:
    """Render the sections, with a note in place of the `gone` items of each."""
    shown = [f"## {title}"]
    for at, section in enumerate(sections):
        note = [f"({gone[at]} older left out)"] if gone[at] else []
        if items[at]:
            shown.append("\n".join([f"### {section.title}", *note, *items[at][gone[at] :]]))
    return "\n\n".join(shown) if len(shown) > 1 else ""

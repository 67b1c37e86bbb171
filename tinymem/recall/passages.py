"""Passages: long texts, cut at natural boundaries.

A text of up to WHOLE characters is one passage. A longer one is cut into slices of about TARGET characters that end,
by preference, at an empty line, a line's end, a sentence's end, or a space. Slices are disjoint and cover the text, so
that adjoining ones unite without repetition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tinymem.protocols import PassageRow, Span
from tinymem.recall.query.identifiers import hashes, identifiers
from tinymem.recall.query.rules import is_rule
from tinymem.recall.render import between, own_blocks
from tinymem.steps.actions import ActionStep
from tinymem.steps.content import clean
from tinymem.steps.step import Part, Step
from tinymem.stores.filter import tool_name

__all__ = ["cut", "encoded", "is_announcement", "is_question", "kind_of_passage", "passages_of", "slices"]

WHOLE = 800
TARGET = 400
LEAST = 240
MOST = 600
MAX_PASSAGES = 20_000  # of one part: an observation of 50 MB gets longer passages, not more of them

MOST_TOOLS = 64  # names that stand with each passage of a step that calls them

SHORT = 300  # characters of an announcement, at most
_ANNOUNCED = re.compile(
    r"^\W*(?:now|let me|let's|i'll|next|first|good|great|ok|okay|perfect|excellent)\b"
    r"|\b(?:let me|i'll|now)\b[^.!?\n]{0,160}[:.]?$",
    re.IGNORECASE,
)
# Base64, as in data URLs: what it says is not in its letters
_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?=\S{0,99}[0-9])(?=\S{0,99}[A-Z])(?=\S{0,99}[a-z])[A-Za-z0-9+/_-]{256,}={0,2}"
)
# That, hex, and base64 in lines, all of it far longer than a hash; a list of hashes is none, nor is a long number
_ENCODED = re.compile(
    rf"(?P<hex>(?=\S{{0,99}}[0-9])(?=\S{{0,99}}[A-Fa-f])[0-9A-Fa-f]{{200,}})|{_BASE64.pattern}"
    r"|(?:(?<![A-Za-z0-9+/\\])|(?<=\\n))(?=\S{0,59}[0-9])(?=\S{0,59}[A-Z])(?=\S{0,59}[g-z])"
    r"(?:[A-Za-z0-9+/]{60,76}(?:\r?\n|\\n)(?:\s*\d+[\t→:|])?[ \t>]*){5,}[A-Za-z0-9+/]*={0,2}"
)
_DENSE = re.compile(r"[A-Za-z0-9+/_-]{60}")  # all of that begins so, and little else does
WIDTH = 60
BESIDE = 1_000  # characters beside a passage that say whether its lines are encoded
# Ends of a slice, best first; a later kind wins only where no earlier one is in reach.
_ENDS = [re.compile(p) for p in (r"\n[ \t]*\n\s*", r"\n", r"[.!?][\"')\]]?\s+|[。！？][\"')\]”’」』）]?\s*", r"\s")]


def cut(text: str, whole: int = WHOLE) -> list[tuple[int, int]]:
    """Cut `text` into slices `[start, end)`, in order, disjoint, covering it; into one for up to `whole` characters.

    >>> cut("short")
    [(0, 5)]
    """
    if len(text) <= whole:
        return [(0, len(text))]
    scale = max(1.0, len(text) / (TARGET * MAX_PASSAGES))
    least, target, most = (int(length * scale) for length in (LEAST, TARGET, MOST))
    slices: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > most:
        end = _boundary(text, start + least, start + target, start + most)
        slices.append((start, end))
        start = end
    slices.append((start, len(text)))
    return slices


def _boundary(text: str, least: int, target: int, most: int) -> int:
    """Find the best place to cut in `[least, most]`: of the best kind that is there, the one nearest to `target`."""
    for kind in _ENDS:
        ends = [m.end() for m in kind.finditer(text, least, most) if m.end() <= most]
        if ends:
            return min(ends, key=lambda end: abs(end - target))
    return target


def passages_of(
    step: Step, key: bytes | None = None, pieces: Callable[[str], list[tuple[int, int]]] | None = None
) -> list[PassageRow]:
    """Make the passages of all parts of `step`, in order. Text is cleaned (see `content.clean`), which moves no offset.

    Blocks that the memory with this `key` recalled earlier are left out (see `tinymem.recall.render`), and long
    stretches of base64. Texts are cut into `pieces`; one that repeats an earlier one of its part is found there
    already, and an index of thousands of equal vectors takes minutes.
    """
    asks, tools, rows = is_question(step.text), _tools_of(step), list[PassageRow]()
    for index, part in enumerate(step.parts()):
        text, known = clean(part.text), set[str]()
        taken = [*(own_blocks(text, key) if key else ()), *(match.span() for match in _BASE64.finditer(text))]
        for first, last in between(len(text), sorted(taken)):
            for start, end in (pieces or cut)(text[first:last]):
                said = text[first + start : first + end]
                if said not in known and not said.isspace():
                    known.add(said)
                    place = index, first + start, first + end, kind_of_passage(part, said)
                    rows.append(PassageRow(*place, asks, said, hashes(identifiers(said)), tools))
    return rows


def encoded(text: str, start: int, end: int) -> Iterator[Span]:
    """Find base64 and long hex in `text[start:end]`, or behind it, with notes of what it is and how long from there on.

    >>> [*encoded("key = " + "0a" * 200, 0, 306)]
    [(6, 306, 'hex: 400 characters')]
    """
    spans = _ENCODED.finditer(text, max(0, start - BESIDE), end + BESIDE)
    for match in spans if _DENSE.search(text, start, end + WIDTH) else ():
        first, last = max(start, match.start()), min(end, match.end())
        if first <= last and last > start:
            whole = next(_ENCODED.finditer(text, match.start()))
            yield first, last, f"{match.lastgroup or 'base64'}: {whole.end() - first:,} characters"


def _tools_of(step: Step) -> str:
    """Return the names of the tools that a step calls, a line each."""
    calls = step.tool_calls if isinstance(step, ActionStep) else ()
    return "\n".join([*dict.fromkeys(tool_name(call.name) for call in calls)][:MOST_TOOLS])


def is_question(text: str) -> bool:
    """Return True if `text` ends in a question mark, in quotes or brackets too."""
    return text.rstrip("\"')] \t\r\n").endswith(("?", "？"))


def kind_of_passage(part: Part, text: str) -> str:
    """Return the kind of a part, or of its passage `text` what recall tells apart.

    That is an "announcement", a thought that only says what the agent does next, and a "rule" of a person.

    >>> kind_of_passage(Part("thought", "", 0), "Good. Now let me run the tests:")
    'announcement'
    """
    if part.kind == "thought" and is_announcement(text):
        return "announcement"
    return "rule" if part.kind in ("message", "task") and is_rule(part.text) else part.kind


def is_announcement(text: str) -> bool:
    """Return True for words of an agent that only say what it does next."""
    return len(text) < SHORT and _ANNOUNCED.search(text.strip()) is not None


def slices(step: Step, places: Iterable[tuple[int, int, int]]) -> list[str]:
    """Return the texts of passages of `step`, given as (part, start, end)."""
    parts = step.parts()
    return [clean(parts[part].text[start:end]) for part, start, end in places]

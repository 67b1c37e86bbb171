"""Scores of recalled texts: the stale lines and the superseded facts in them, and whether a mark says so.

Lines: `FILE.stale.jsonl.gz` beside `FILE.jsonl.gz` has a line a haystack, {"id", "spans": [{"unit", "start", "end",
"text", "stale": j, "until"?, "now"?}]}: of the slice of that unit the file held nothing any more once the first j units
were there; a span in the arguments of a call has neither start nor end. A stale line is shown where LEAST characters of
it or more stand in a verified slice of its unit, or it stands in a call in the memory's own words.

Facts: a query has "newest" and "stale", each a list of {"value", "units", "gone"?}. A value stands in a text if a unit
that says it is there to nine tenths, or the value itself stands in a slice of that unit.

A mark is looked for in the own words of the memory: those from the line behind the slice before on, and those behind
the slice on its last line.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness.data import lines_of
from benchmarks.harness.scoring import SLICE
from benchmarks.stale.slices import MARK, Slice, Unfolded, marked, own_words, slices_of
from tinymem.messages import TiktokenCounter

__all__ = ["FactRow", "LineRow", "facts", "has_facts", "lines", "spans_beside"]

LEAST = 12  # characters of a line that say something
WHOLE = 0.9  # share of a unit from which it counts as there
OWN = 40  # characters of own words that a call stands in
ADVERSARIAL = "adversarial"

Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class LineRow:
    """The stale lines that one recalled text shows.

    Attributes:
        tokens: All its tokens.
        stale: Those of stale lines.
        unmarked: Those of stale lines without a mark.
        is_unmarked: A stale line stands there without a mark.
        found: Whether the needle stands there; None where the query has none.
    """

    tokens: int
    stale: int
    unmarked: int
    is_unmarked: bool
    found: bool | None


@dataclass(frozen=True)
class FactRow:
    """The values of changed facts that one recalled text has.

    Attributes:
        is_new: Every newest value stands there.
        has_old: The query has superseded values.
        is_old: One of them stands there.
        is_clean: Every newest value stands there, and none that is superseded without a mark.
    """

    is_new: bool
    has_old: bool
    is_old: bool
    is_clean: bool


def spans_beside(path: Path) -> Path:
    """Return the place of the file that has the stale lines of a file of haystacks."""
    return path.with_name(path.name.replace(".jsonl", ".stale.jsonl", 1))


def has_facts(path: Path) -> bool:
    """Return whether the queries of a file have values that hold, and others that held before."""
    return any("newest" in query for record in _records(path) for query in record["queries"])


def lines(data: Path, results: Path) -> dict[int, list[LineRow]]:
    """Return a row for each line of results, by its budget."""
    spans = {record["id"]: record["spans"] for record in _records(spans_beside(data))}
    rows, count = defaultdict[int, list[LineRow]](list), TiktokenCounter().count
    for haystack, query, line in _answered(data, results):
        rows[line["budget"]].append(_line_row(haystack, query, line, spans.get(haystack["id"], ()), count))
    return rows


def _line_row(haystack: Record, query: Record, line: Record, spans: Iterable[Record], count: Any) -> LineRow:
    units = [unit["id"] for unit in haystack["units"]]
    texts = {unit["id"]: unit["text"] for unit in haystack["units"]}
    end, text = query.get("cutoff", len(units)), line["text"]
    order = {unit: place for place, unit in enumerate(units)}
    slices = slices_of(texts, [claim for claim in line["units"] if order[claim["id"]] < end], text)
    around, own = own_words(text, slices)
    stale = [span for span in spans if span["stale"] < end and not span.get("until", end) < end]
    shown: dict[tuple[str, int | str], tuple[str, bool]] = {}
    shown |= dict(_in_slices(stale, texts, slices, [*map(marked, around)]))
    for said, is_marked in _in_calls([span for span in stale if order[span["unit"]] < end], own):
        shown["call", said] = said, is_marked
    needle = query.get("needle")
    tokens = count(text)
    bare = [said for said, is_marked in shown.values() if not is_marked]
    is_found = None
    if needle is not None:
        having = (one for one in slices if needle in texts[one.unit][one.start : one.end])
        is_found = tokens <= line["budget"] and any(_is_enough(one, texts[one.unit]) for one in having)
    every = [said for said, _ in shown.values()]
    return LineRow(tokens, sum(map(count, every)), sum(map(count, bare)), bool(bare), is_found)


def _is_enough(one: Slice, text: str) -> bool:
    return one.end - one.start >= min(SLICE, len(text))


def _in_slices(
    stale: Iterable[Record], texts: Mapping[str, str], slices: Sequence[Slice], marks: Sequence[bool]
) -> Iterator[tuple[tuple[str, int | str], tuple[str, bool]]]:
    """Yield the stale lines that stand in slices: unit and start, what of it stands there, and if a mark says so."""
    for span in (span for span in stale if "start" in span):
        whole = span["end"] - span["start"]
        seen = list[tuple[str, bool]]()
        for one, is_marked in zip(slices, marks, strict=True):
            first, last = max(one.start, span["start"]), min(one.end, span["end"])
            if one.unit == span["unit"] and last - first >= min(LEAST, whole):
                seen.append((texts[one.unit][first:last], is_marked))
        if seen:
            yield (span["unit"], span["start"]), (seen[-1][0], any(is_marked for _, is_marked in seen))


def _in_calls(stale: Iterable[Record], own: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the stale lines of calls as they stand in the own words of the memory, and if a mark says so."""
    pieces = [piece for piece in own if len(piece) >= OWN]
    calls = [span for span in stale if "start" not in span]
    for piece in pieces:
        for span in calls:
            forms = {span["text"], json.dumps(span["text"], ensure_ascii=False)[1:-1]}
            form = next((form for form in forms if form in piece), None)
            if form is not None:
                place = piece.index(form)
                before = piece[piece.rfind("\n", 0, place) + 1 : place]
                row = before + piece[place + len(form) :].partition("\n")[0]
                yield form, MARK.search(row) is not None


def facts(data: Path, results: Path) -> dict[int, list[FactRow]]:
    """Return a row for each line of results, by its budget; questions that are adversarial are left out."""
    rows = defaultdict[int, list[FactRow]](list)
    count = TiktokenCounter().count
    for haystack, query, line in _answered(data, results):
        if query["type"] != ADVERSARIAL:
            over = count(line["text"]) > line["budget"]
            rows[line["budget"]].append(_fact_row(haystack, query, line, over))
    return rows


def _fact_row(haystack: Record, query: Record, line: Record, is_over: bool) -> FactRow:
    texts = {unit["id"]: unit["text"] for unit in haystack["units"]}
    slices = [] if is_over else slices_of(texts, line["units"], line["text"])
    around, _ = own_words(line["text"], slices)
    new = all(_standing(value, texts, slices) for value in query["newest"])
    gold = {unit for value in query["newest"] for unit in value["units"]}
    old = [value for value in query["stale"] if gold.isdisjoint(value["units"])]
    standing = [places for value in old if (places := _standing(value, texts, slices))]
    bare = any(not all(marked(around[place]) for place in places) for places in standing)
    return FactRow(new, bool(old), bool(standing), new and not bare)


def _standing(value: Record, texts: Mapping[str, str], slices: Sequence[Slice]) -> set[int]:
    """Return the places of the slices by which a value stands in a text."""
    found = set[int]()
    wanted = Unfolded.of(value["value"]).folded.lower()
    for unit in value["units"]:
        mine = [place for place, one in enumerate(slices) if one.unit == unit]
        if mine and _covered([slices[place] for place in mine]) >= WHOLE * len(texts[unit]):
            found.update(mine)
        elif len(wanted) > 2:
            said = {place: Unfolded.of(texts[unit][slices[place].start : slices[place].end]).folded for place in mine}
            found.update(place for place, text in said.items() if wanted in text.lower())
    return found


def _covered(slices: Iterable[Slice]) -> int:
    """Return the characters of a unit that slices of it cover together."""
    total = done = 0
    for one in sorted(slices, key=lambda one: one.start):
        total += max(0, one.end - max(one.start, done))
        done = max(done, one.end)
    return total


def _answered(data: Path, results: Path) -> Iterator[tuple[Record, Record, Record]]:
    """Yield each line of the results that is of a file, with its haystack and its query."""
    found = {record["id"]: record for record in _records(data)}
    for line in _records(results):
        if (haystack := found.get(line["haystack"])) is not None:
            query = next((query for query in haystack["queries"] if query["id"] == line["query"]), None)
            if query is not None:
                yield haystack, query, line


def _records(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, lines_of(path))

"""Changes of rows in the files of a catalog: those of forgotten steps are emptied, those of milestones marked.

The rows stay, so that a change costs what is changed, and not the size of the memory. Everybody else has the files
mapped meanwhile: ids and steps stay in order, and an empty row has no content and no names. A process that is killed
leaves files that do not agree with their checksums, and they are made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinymem.archive.catalog.columns import CODED, Columns, tables_of
from tinymem.archive.catalog.state import State
from tinymem.protocols import Ids
from tinymem.recall.catalog import PLACE, Catalog

__all__ = ["empty", "is_worth_copying", "mark"]

MOST_RUNS = 1_000  # runs of rows that are emptied one by one
MOST_SHARE = 0.2  # of the rows that may be empty
NOTHING = np.zeros((), PLACE)
for _name in ("speaker", "type", "tools"):
    NOTHING[_name] = -1


def is_worth_copying(columns: Columns, state: State, steps: Ids) -> bool:
    """Return True if so many rows would be empty without these steps that copying the others is better."""
    new = _runs(columns.catalog(state).step, steps)
    gone = sum(end - first for first, end in (*new, *state.removed))
    return len(new) > MOST_RUNS or gone > MOST_SHARE * state.rows


def empty(columns: Columns, state: State, steps: Ids) -> State:
    """Empty the rows of these steps; return the state, whose `origin` is the journal's by now."""
    held = columns.catalog(state)
    runs = _runs(held.step, steps)
    rows = np.array([row for run in runs for row in range(*run)], np.int64)
    unused, codes = _unused_names(held, rows), held.identifiers_of(rows)[0]
    columns = columns.renamed(state.origin.rewrites)
    for name, first, some in _emptied(held, runs):
        state = columns.put(state, name, first, some)
    state = replace(state, removed=_merged([*state.removed, *runs]))
    if unused:
        state = columns.put_names(state, lambda which, name: unused.get((which, name), name))
    columns.unsee(state, codes)
    return replace(state, stamps=columns.stamps(state))


def mark(columns: Columns, state: State, steps: Ids, milestone: bool) -> State:
    """Mark the rows of these steps as those of milestones, or remove the mark; return the state."""
    held = columns.catalog(state)
    columns = columns.renamed(state.origin.rewrites)
    for first, end in _runs(held.step, steps):
        places = held.columns["places"].array[first:end].copy()
        places["milestone"] = milestone
        state = columns.put(state, "places", first, places)
    return replace(state, stamps=columns.stamps(state))


def _emptied(held: Catalog, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int, npt.NDArray[Any]]]:
    """Yield new values for columns, each with the first row that gets one."""
    ends = held.identifier_ends
    for first, end in runs:
        count = end - first
        yield "vectors", first, np.zeros((count, held.dimensions), np.float32)
        yield "session", first, np.full(count, -1)
        yield "time", first, np.full(count, held.time[first - 1] if first else held.time[-1])
        yield "places", first, np.full(count, NOTHING)
        begin, stop = int(ends[first - 1]) if first else 0, int(ends[end - 1])
        yield "identifiers", begin, np.zeros(stop - begin, held.identifiers.dtype)


def _runs(steps: Ids, gone: Ids) -> list[tuple[int, int]]:
    """Return the runs of rows, first and end, of the steps that are `gone`."""
    wanted = np.unique(gone)
    spans = (np.searchsorted(steps, wanted, side).tolist() for side in ("left", "right"))
    return _merged([run for run in zip(*spans, strict=True) if run[0] < run[1]])


def _merged(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the runs in order, with those that touch as one."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(runs):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return merged


def _unused_names(held: Catalog, rows: Ids) -> dict[tuple[int, str], str]:
    """Map the names that only these rows have, each with the number of its table, to what replaces them."""
    unused = {}
    kept = np.ones(len(held), np.bool_)
    kept[rows] = False
    for which, (column, table) in enumerate(zip(CODED, tables_of(held.names), strict=True)):
        names, codes = [*table.names], getattr(held, column)
        for code in np.unique(codes[rows]).tolist():
            if code >= 0 and not (kept & (codes == code)).any():
                unused[which, names[code]] = f"\0{code}"
    return unused

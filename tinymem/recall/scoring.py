"""From candidates to a ranking: what recall is limited to, and its candidates with features, scores and order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import numpy as np
import numpy.typing as npt

from tinymem.content import clean
from tinymem.errors import InputError
from tinymem.protocols import Ids, Vectors
from tinymem.quiet import shown
from tinymem.recall.catalog import Catalog
from tinymem.recall.fusion import Fusion
from tinymem.recall.packing import Ranked
from tinymem.recall.passages import tool_name

__all__ = ["Filter", "Scored"]

PRICE = 0.5  # log-odds that a passage must be better for each factor e in its tokens (about 4 characters each)


@dataclass(frozen=True)
class Filter:
    """What recall is limited to; None does not limit. Times are aware datetimes, both ends included.

    `tool` is the name of one that a step calls, `type` that of a step type (`"action"`).
    """

    since: datetime | None = None
    until: datetime | None = None
    session: str | None = None
    speaker: str | None = None
    tool: str | None = None
    type: str | None = None

    def __post_init__(self) -> None:
        for name, time in (("since", self.since), ("until", self.until)):
            if time is not None and (not isinstance(time, datetime) or time.tzinfo is None):
                raise InputError(f"{name} must be an aware datetime (with a time zone), not {shown(time)}")
        for name in ("session", "speaker", "tool", "type"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise InputError(f"{name} must be a string, not {shown(text)}")

    def allowed(self, catalog: Catalog, hidden: Collection[int] = ()) -> npt.NDArray[np.bool_]:
        """Which rows of the catalog may be recalled: `(len(catalog),)`; the steps `hidden` (numbers) may not."""
        allowed = np.ones(len(catalog), np.bool_)
        gone = np.array(sorted(hidden), np.int64)
        spans = (np.searchsorted(catalog.step, gone, side) for side in ("left", "right"))
        for first, end in zip(*spans, strict=True):
            allowed[first:end] = False
        if self.since is not None:
            allowed &= catalog.time >= self.since.timestamp()
        if self.until is not None:
            allowed &= catalog.time <= self.until.timestamp()
        if self.session is not None:
            allowed &= catalog.session == catalog.sessions.names.get(clean(self.session), -2)
        if self.speaker is not None:
            allowed &= catalog.speaker == catalog.speakers.names.get(clean(self.speaker), -2)
        if self.type is not None:
            allowed &= catalog.type == catalog.types.names.get(self.type, -2)
        if self.tool is not None:
            held = [code for tools, code in catalog.toolsets.names.items() if tool_name(self.tool) in tools.split("\n")]
            allowed &= np.isin(catalog.tools, held)
        return allowed


@dataclass(frozen=True)
class Scored:
    """Candidates: `rows` of the catalog, the kind of weights for each, their features, and the weights.

    `features` is `(len(rows), len(NAMES))`.
    """

    catalog: Catalog
    rows: Ids
    kinds: npt.NDArray[np.int8]
    features: Vectors
    fusion: Fusion

    def ranked(self, budget: int) -> list[Ranked]:
        """The candidates best first, as far as `budget` tokens may reach."""
        catalog, rows = self.catalog, self.rows
        scores = self.fusion.score(self.features, self.kinds)
        lengths = (catalog.end - catalog.start)[rows]
        order = np.argsort(PRICE * np.log(lengths / 4 + 6) - scores, kind="stable")[: 64 + budget // 8]
        columns = (catalog.step[rows], catalog.part[rows], catalog.start[rows], catalog.end[rows], scores)
        step, part, start, end, score = (column.tolist() for column in columns)
        return [Ranked(step[i], part[i], start[i], end[i], score[i], partial(self._why, i)) for i in order.tolist()]

    def _why(self, i: int) -> dict[str, float]:
        return self.fusion.contributions(self.features[i], int(self.kinds[i]))
